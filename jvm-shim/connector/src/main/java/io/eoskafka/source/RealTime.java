package io.eoskafka.source;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SourceOptions;
import io.eoskafka.decision.DecisionOwners;
import io.eoskafka.spark.RunningQuery;
import java.util.Map;

/** What real-time mode cannot have. */
public final class RealTime {
  private RealTime() {}

  /** Called when a query starts, before anything is read. */
  static void requireAllowed(SourceOptions options) {
    if (options.isShared()) {
      throw refused("ownership=shared gives partitions up between batches, and its last long");
    }
    if (!options.limits().isNone()) {
      throw refused(SourceOptions.BatchLimits.NAMES + " limit batches by their records");
    }
    if (!options.split().isNone()) {
      throw refused("minPartitions and maxRecordsPerPartition split batches by their records");
    }
  }

  /**
   * In this mode Spark forgets a batch that a former run has planned and not ended. Its epoch, or
   * writes of its {@code foreachBatch}, may have been decided. To be called before that: when the
   * query's sources are told of the mode.
   *
   * <p>Nor may the plan of the last batch that is done be missing: Spark would run the one before
   * it again, until its time is over, and could not log it then.
   */
  static void requireLastBatchDone() {
    RunningQuery query = RunningQuery.ofThisThread();
    // First: a former driver that still runs begins no epoch and no write after this, and what it
    // has begun before, it has planned.
    DecisionOwners.of(query);
    // In this order: a former driver that still runs plans a batch before it logs it as done.
    long logged = query.logs().lastLogged().orElse(-1);
    long planned = query.lastPlanned().orElse(-1);
    if (logged > planned) {
      throw refused(
          "batch "
              + logged
              + " of its checkpoint is done, and its file in the folder offsets is missing. Restore "
              + "that file. If Spark could not write it, move the file of that number in the folder "
              + "commits to another place instead");
    }
    if (planned > query.lastDone().orElse(-1)
        && query.checkpointFolder().hasFile("eoskafka-(sink|write-.*)\\.json")) {
      throw refused(
          "batch "
              + planned
              + " of its checkpoint is not done, and may have taken effect; let it end with the "
              + "query as it was, and trigger(availableNow=True)");
    }
  }

  public static EosKafkaException refused(String reason) {
    return EosKafkaException.of("EOSKAFKA_REAL_TIME_REFUSED", Map.of("reason", reason));
  }
}
