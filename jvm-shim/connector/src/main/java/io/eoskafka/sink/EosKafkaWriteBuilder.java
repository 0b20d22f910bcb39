package io.eoskafka.sink;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SinkOptions;
import io.eoskafka.spark.StreamWriteBuilder;
import java.util.Map;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.types.StructType;

/**
 * The sink as Spark plans it. In update mode an update is a record like any other. In complete mode
 * each batch appends all of its rows; the topic is not truncated.
 */
public final class EosKafkaWriteBuilder implements StreamWriteBuilder {
  private final SinkOptions options;
  private final StructType schema;
  private final SinkMetrics metrics;

  public EosKafkaWriteBuilder(SinkOptions options, StructType schema, SinkMetrics metrics) {
    this.options = options;
    this.schema = schema;
    this.metrics = metrics;
  }

  @Override
  public WriteBuilder truncate() {
    return this;
  }

  @Override
  public Write build() {
    OutputColumns columns = OutputColumns.of(schema, options);
    return new V1Write() {
      @Override
      public String description() {
        return "eoskafka[" + (options.topic() == null ? "by row" : options.topic()) + "]";
      }

      @Override
      public CustomMetric[] supportedCustomMetrics() {
        return SinkMetrics.ofWrite();
      }

      /** {@code INSERT INTO}, and other writes to a table by its name. */
      @Override
      public InsertableRelation toInsertableRelation() {
        return (rows, overwrite) ->
            BatchWrite.run(rows, overwrite ? SaveMode.Overwrite : SaveMode.Append, options);
      }

      @Override
      public StreamingWrite toStreaming() {
        if (options.writeId().isPresent()) {
          throw EosKafkaException.of(
              "EOSKAFKA_OPTION_INVALID",
              Map.of(
                  "option", "writeId",
                  "value", options.writeId().get(),
                  "expected", "left out in a streaming query, because it names batch writes"));
        }
        return new EosKafkaStreamingWrite(options, columns, metrics);
      }
    };
  }
}
