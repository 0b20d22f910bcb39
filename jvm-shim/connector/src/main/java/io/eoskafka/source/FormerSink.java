package io.eoskafka.source;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.spark.RunningQuery;
import java.util.List;
import java.util.Map;

/** Refuses to finish a batch with another sink than the one that began it. */
final class FormerSink {
  private FormerSink() {}

  /**
   * Only the sink that began a batch can tell what the batch has written. To be called at a start:
   * then an open batch is the one that Spark is about to run again.
   *
   * @throws EosKafkaException {@code EOSKAFKA_BATCH_UNFINISHED}
   */
  static void require(RunningQuery query) {
    List<PartitionOffsets> open =
        query.sourcesOfBatch(EosKafkaMicroBatchStream.class).stream()
            .filter(RunningQuery.SourceBatch::hasNews)
            .map(batch -> batch.end().json())
            .map(text -> PartitionOffsets.parse(text, "with the offsets " + text))
            .toList();
    if (open.isEmpty()) {
      return;
    }
    boolean isOfSink = open.stream().anyMatch(PartitionOffsets::isOurs);
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
