package io.eoskafka.source;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.spark.RunningQuery;
import java.util.Map;

/** Refuses to finish a batch with another sink than the one that began it. */
final class FormerSink {
  private FormerSink() {}

  /**
   * Only the sink that began a batch can tell what the batch has written.
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
