package io.eoskafka.source;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.spark.RunningQuery;
import java.util.Map;

/** The sink that a batch was begun with which a former run has not finished. */
final class FormerSink {
  private FormerSink() {}

  /**
   * What a batch that was not finished has written knows the sink that it was for, and no other
   * one.
   *
   * @param isOfSink whether our sink had planned it
   * @throws EosKafkaException {@code EOSKAFKA_BATCH_UNFINISHED}
   */
  static void require(boolean isOfSink) {
    RunningQuery query = RunningQuery.ofThisThread();
    boolean isOther =
        query.sinkIsTransactional()
            ? !isOfSink && query.checkpointFolder().hasFile("eoskafka-write-.*\\.json")
            : isOfSink;
    if (isOther) {
      throw EosKafkaException.of(
          "EOSKAFKA_BATCH_UNFINISHED",
          Map.of(
              "former",
              isOfSink
                  ? "writeStream.format(\"eoskafka\")"
                  : "foreachBatch and writes with format(\"eoskafka\")"));
    }
  }
}
