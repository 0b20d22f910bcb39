package io.eoskafka.decision;

import io.eoskafka.config.SinkOptions;
import io.eoskafka.group.Identity;
import io.eoskafka.query.CheckpointFolder;
import io.eoskafka.query.RunningQuery;
import java.util.Optional;

/**
 * Whose epochs a session writes: a streaming query's sink, one of the writes of its {@code
 * foreachBatch}, or a batch job's write.
 *
 * @param id the one that it has at first, 22 characters
 * @param name for errors
 * @param file in the checkpoint, for its identity
 * @param query null for a batch job, which has no checkpoint and is one epoch, number 0
 * @param mayBegin whether it may be here for the first time
 */
public record EpochOwner(
    String id, String name, String file, RunningQuery query, boolean mayBegin) {

  /** The sink of a streaming query. */
  public static EpochOwner ofSink(RunningQuery query) {
    String checkpoint = query.checkpoint();
    return new EpochOwner(
        Identity.digest("sink:" + checkpoint),
        "the checkpoint " + checkpoint,
        "eoskafka-sink.json",
        query,
        true);
  }

  /**
   * A write of a query's {@code foreachBatch}.
   *
   * @param writeId tells several writes of one batch apart; may be empty
   */
  public static EpochOwner ofForeachBatch(RunningQuery query, String writeId) {
    String id = Identity.digest("foreachBatch:" + query.checkpoint() + ":" + writeId);
    return new EpochOwner(
        id,
        "the checkpoint " + query.checkpoint() + ", writeId '" + writeId + "'",
        "eoskafka-write-" + Identity.digest(writeId) + ".json",
        query,
        true);
  }

  /**
   * A batch job's write.
   *
   * @param writeId the same when the job is run again
   * @param decisionTopic two jobs of one name have different ones, or are one job
   */
  public static EpochOwner ofJob(String writeId, String decisionTopic) {
    return new EpochOwner(
        Identity.digest("job:" + decisionTopic.length() + ":" + decisionTopic + ":" + writeId),
        "the batch write '" + writeId + "'",
        "",
        null,
        true);
  }

  /** As {@link #ofJob}, to settle what it has left: it writes nothing, and makes no topic. */
  static EpochOwner ofDeadJob(String writeId, String decisionTopic) {
    EpochOwner job = ofJob(writeId, decisionTopic);
    return new EpochOwner(job.id, job.name, job.file, null, false);
  }

  /** The same, of a job that nobody has named: its transactional ids have its id. */
  static EpochOwner ofDeadJob(String id) {
    return new EpochOwner(id, "the batch write " + id, "", null, false);
  }

  boolean isJob() {
    return query == null;
  }

  /**
   * What its transactional ids begin with: those of a batch job say so, since whoever finds one
   * open may settle the job ({@code eoskafka txn resolve}), but never a query.
   */
  String prefix(SinkOptions options) {
    return options.transactionalIdPrefix() + (isJob() ? "-job" : "");
  }

  Optional<SinkIdentity> kept() {
    return isJob() ? Optional.empty() : SinkIdentity.read(checkpoint(), file);
  }

  void keep(SinkIdentity identity) {
    if (!isJob()) {
      identity.write(checkpoint(), file);
    }
  }

  private CheckpointFolder checkpoint() {
    return query.checkpointFolder();
  }

  /** The last epoch that was planned, or -1. */
  long planned() {
    return isJob() ? 0 : query.lastPlanned().orElse(-1);
  }

  /** The last epoch that Spark knows as done, or -1. */
  long done() {
    return isJob() ? -1 : query.lastDone().orElse(-1);
  }

  Decision.Plan plan(long epoch) {
    return isJob()
        ? new Decision.Plan("", "")
        : Decision.Plan.ofFiles(query.planned(epoch - 1), query.planned(epoch));
  }
}
