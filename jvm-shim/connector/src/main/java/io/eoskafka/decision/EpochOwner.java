package io.eoskafka.decision;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SinkOptions;
import io.eoskafka.identity.Identity;
import io.eoskafka.spark.Checkpoint;
import io.eoskafka.spark.RunningQuery;
import java.util.List;
import java.util.Optional;

/**
 * Whose epochs a session writes: a streaming query's sink, one of the writes of its {@code
 * foreachBatch}, or a batch job's write.
 *
 * @param id 22 characters; used until the checkpoint keeps one
 * @param name for errors
 * @param file in the checkpoint, for its identity
 * @param writeId of a write in {@code foreachBatch}, or null
 * @param checkpoint null for a batch job, which has none and is one epoch, number 0
 * @param mayBegin whether it may be here for the first time
 */
public record EpochOwner(
    String id, String name, String file, String writeId, Checkpoint checkpoint, boolean mayBegin) {
  static final String SINK_FILE = "eoskafka-sink.json";
  private static final String FILES = "eoskafka-(sink|write-.*)\\.json";

  /** The sink of a streaming query. */
  public static EpochOwner ofSink(RunningQuery query) {
    return ofSink(query.logs());
  }

  private static EpochOwner ofSink(Checkpoint checkpoint) {
    return new EpochOwner(
        Identity.digest("sink:" + checkpoint.location()),
        "the checkpoint " + checkpoint.location(),
        SINK_FILE,
        null,
        checkpoint,
        true);
  }

  /**
   * A write of a query's {@code foreachBatch}.
   *
   * @param writeId tells several writes of one batch apart; may be empty
   */
  public static EpochOwner ofForeachBatch(RunningQuery query, String writeId) {
    Checkpoint checkpoint = query.logs();
    return new EpochOwner(
        Identity.digest("foreachBatch:" + checkpoint.location() + ":" + writeId),
        nameOfWrite(checkpoint, writeId),
        "eoskafka-write-" + Identity.digest(writeId) + ".json",
        writeId,
        checkpoint,
        true);
  }

  private static String nameOfWrite(Checkpoint checkpoint, String writeId) {
    return "the checkpoint " + checkpoint.location() + ", writeId '" + writeId + "'";
  }

  /**
   * An owner that a checkpoint knows.
   *
   * @param file its name
   * @param kept what is in it
   */
  static EpochOwner ofFile(Checkpoint checkpoint, String file, SinkIdentity kept) {
    if (file.equals(SINK_FILE)) {
      return ofSink(checkpoint);
    }
    String name =
        kept.writeId() == null
            ? checkpoint.folder().nameOf(file)
            : nameOfWrite(checkpoint, kept.writeId());
    return new EpochOwner(kept.id(), name, file, kept.writeId(), checkpoint, false);
  }

  /** The name, for errors, of an owner that a checkpoint knows. */
  static String nameOf(Checkpoint checkpoint, String file) {
    try {
      return SinkIdentity.read(checkpoint.folder(), file)
          .map(kept -> ofFile(checkpoint, file, kept).name())
          .orElse(file);
    } catch (EosKafkaException e) {
      return checkpoint.folder().nameOf(file);
    }
  }

  /** All owners that a checkpoint knows, by the names of their files. */
  static List<String> files(Checkpoint checkpoint) {
    return checkpoint.files(FILES);
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
        writeId,
        null,
        true);
  }

  /** As {@link #ofJob}, to settle what it has left: it writes nothing, and makes no topic. */
  static EpochOwner ofDeadJob(String writeId, String decisionTopic) {
    EpochOwner job = ofJob(writeId, decisionTopic);
    return new EpochOwner(job.id, job.name, job.file, writeId, null, false);
  }

  /** The same, of a job that nobody has named: its transactional ids have its id. */
  static EpochOwner ofDeadJob(String id) {
    return new EpochOwner(id, "the batch write " + id, "", null, null, false);
  }

  boolean isJob() {
    return checkpoint == null;
  }

  /**
   * Whether it is a query's sink, whose epochs Spark logs as done only after all of them was
   * committed. For a write of {@code foreachBatch} it logs when the function returns, whatever has
   * become of the write.
   */
  boolean isSink() {
    return file.equals(SINK_FILE);
  }

  /**
   * What its transactional ids begin with: those of a batch job say so, since whoever finds one
   * open may settle the job ({@code eoskafka txn resolve}), but never a query.
   */
  String prefix(SinkOptions options) {
    return options.transactionalIdPrefix() + (isJob() ? "-job" : "");
  }

  Optional<SinkIdentity> kept() {
    return isJob() ? Optional.empty() : SinkIdentity.read(checkpoint.folder(), file);
  }

  void keep(SinkIdentity identity) {
    if (!isJob()) {
      identity.write(checkpoint.folder(), file);
    }
  }

  /** The last epoch that was planned, or -1. */
  long planned() {
    return isJob() ? 0 : checkpoint.lastPlanned().orElse(-1);
  }

  /** The last epoch that Spark does not run again, or -1. */
  long done() {
    return isJob() ? -1 : checkpoint.lastDone().orElse(-1);
  }

  Decision.Plan plan(long epoch) {
    return isJob()
        ? Decision.Plan.NONE
        : Decision.Plan.ofFiles(checkpoint.plan(epoch - 1), checkpoint.plan(epoch));
  }

  EosKafkaException notPlanned(long epoch) {
    return checkpoint.notLogged(epoch, "does not exist");
  }

  /**
   * Whether Spark's plan of an epoch is the one that was decided. A file that Spark has purged does
   * not count; the plan of an epoch that may run again is never purged.
   */
  boolean agreesWith(long epoch, Decision.Plan decided) {
    if (isJob()) {
      return decided.equals(Decision.Plan.NONE);
    }
    long first = checkpoint.firstPlanKept().orElse(Long.MAX_VALUE);
    Decision.Plan now = plan(epoch);
    return isSame(now.of(), decided.of(), epoch < first)
        && (epoch == 0 || isSame(now.before(), decided.before(), epoch - 1 < first));
  }

  private static boolean isSame(String now, String decided, boolean isPurged) {
    return !decided.isEmpty() && (isPurged && now.isEmpty() || now.equals(decided));
  }
}
