package testing;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.Trigger;

/** A query without an end: brokers, input topic, output topic, checkpoint. */
public final class Capitals {
  private Capitals() {}

  public static void main(String[] arguments) throws Exception {
    SparkSession.builder()
        .appName("capitals")
        .getOrCreate()
        .readStream()
        .format("eoskafka")
        .option("kafka.bootstrap.servers", arguments[0])
        .option("subscribe", arguments[1])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "1000")
        .load()
        .selectExpr("key", "upper(CAST(value AS STRING)) AS value")
        .writeStream()
        .format("eoskafka")
        .option("kafka.bootstrap.servers", arguments[0])
        .option("topic", arguments[2])
        .option("checkpointLocation", arguments[3])
        .trigger(Trigger.ProcessingTime("200 milliseconds"))
        .start()
        .awaitTermination();
  }
}
