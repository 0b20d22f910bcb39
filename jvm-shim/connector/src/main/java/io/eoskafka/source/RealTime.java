package io.eoskafka.source;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SourceOptions;
import io.eoskafka.query.RunningQuery;
import java.util.Map;

/** What real-time mode cannot have. */
public final class RealTime {
  private RealTime() {}

  /** Called when a query starts, before anything is read. */
  static void requireAllowed(SourceOptions options) {
    if (options.isShared()) {
      throw refused("ownership=shared gives partitions up between batches, and its last long");
    }
    if (options.maxOffsetsPerTrigger().isPresent() || options.minOffsetsPerTrigger().isPresent()) {
      throw refused("minOffsetsPerTrigger and maxOffsetsPerTrigger limit batches by their records");
    }
    if (!options.split().isNone()) {
      throw refused("minPartitions and maxRecordsPerPartition split batches by their records");
    }
  }

  /**
   * Spark has forgotten a batch that a former run had planned and not ended. What writes of its
   * {@code foreachBatch} have committed of it would be read again.
   */
  static void requireNoFormerSink(PartitionOffsets start) {
    RunningQuery query = RunningQuery.ofThisThread();
    if (query.sinkIsTransactional()
        && !start.isOurs()
        && query.checkpointFolder().hasFile("eoskafka-write-.*\\.json")) {
      throw refused(
          "its checkpoint is of a query with foreachBatch, whose last batch may not be done; start "
              + "it once with that function, or with this sink and trigger(availableNow=True)");
    }
  }

  public static EosKafkaException refused(String reason) {
    return EosKafkaException.of("EOSKAFKA_REAL_TIME_REFUSED", Map.of("reason", reason));
  }
}
