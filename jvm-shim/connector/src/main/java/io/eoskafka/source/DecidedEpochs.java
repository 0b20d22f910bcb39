package io.eoskafka.source;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.decision.Decision;
import io.eoskafka.decision.EpochSession;
import io.eoskafka.decision.EpochSessions;
import io.eoskafka.identity.Identity;
import io.eoskafka.identity.Stamp;
import io.eoskafka.spark.RunningQuery;
import java.util.Collection;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** What a source learns at its start from the decisions of its query's former runs. */
final class DecidedEpochs {
  private final EpochSession session;
  private final Identity identity;
  private final CheckpointFiles files;

  /** Whether the last batch that Spark has planned was decided. */
  private final boolean lastIsDecided;

  private boolean isRealTimeKept;

  private DecidedEpochs(
      EpochSession session, Identity identity, CheckpointFiles files, boolean lastIsDecided) {
    this.session = session;
    this.identity = identity;
    this.files = files;
    this.lastIsDecided = lastIsDecided;
  }

  /** Of a query whose sink is not ours. */
  static DecidedEpochs none(Identity identity) {
    return new DecidedEpochs(null, identity, null, false);
  }

  /**
   * Settles what a former run has decided. This comes with source offsets, so it is done before
   * they are fetched.
   *
   * @param committed the group's offsets
   * @throws EosKafkaException {@code EOSKAFKA_DECISIONS_GONE}
   */
  static DecidedEpochs settle(
      RunningQuery query,
      Collection<OffsetAndMetadata> committed,
      Identity identity,
      CheckpointFiles files) {
    long lastEpoch =
        committed.stream()
            .flatMap(offset -> Stamp.parse(offset.metadata()).stream())
            .filter(stamp -> stamp.scope() == Stamp.Scope.EPOCH)
            .mapToLong(Stamp::epoch)
            .max()
            .orElse(-1);
    EpochSession session = EpochSessions.ifUsed(query, lastEpoch >= 0).orElse(null);
    // Spark logs a batch of real-time mode when its tasks have committed it. Without a log nothing
    // counts as decided.
    long lastBegun =
        Math.max(query.lastPlanned().orElse(Long.MAX_VALUE), files.readRealTime().orElse(-1));
    boolean lastIsDecided = session != null && session.lastDecided() >= lastBegun;
    if (session != null && session.lastDecided() < lastEpoch) {
      throw EosKafkaException.of(
          "EOSKAFKA_DECISIONS_GONE",
          Map.of(
              "topic",
              query.sinkOptions().decisionTopic(),
              "what",
              "its last entry of this query is epoch "
                  + session.lastDecided()
                  + ", and group "
                  + identity.group()
                  + " has offsets of epoch "
                  + lastEpoch));
    }
    return new DecidedEpochs(session, identity, files, lastIsDecided);
  }

  /**
   * To be called before the tasks of a batch in real-time mode run. Until Spark logs the batch, the
   * last one in its log is an epoch that was decided, and without offsets the next start would take
   * that for all that has taken effect.
   */
  void realTimeBegins(long batch) {
    if (session != null && !isRealTimeKept) {
      files.writeRealTime(batch);
      isRealTimeKept = true;
    }
  }

  boolean lastIsDecided() {
    return lastIsDecided;
  }

  /** Where the decided batch that Spark runs again began, or null. */
  Long start(TopicPartition partition) {
    return session == null ? null : session.decidedStart(identity.producersId(), partition);
  }

  /** The input of the decided batch that Spark is about to run again, or empty. */
  Optional<Decision.Input> input() {
    return session == null ? Optional.empty() : session.decidedInput(identity.producersId());
  }

  /**
   * An epoch commits what Spark logs. The group is behind the log only where records that an epoch
   * was to read were gone, and then the decision says so; or where a batch in task scope has ended
   * early since, before it had read anything of this partition.
   *
   * @param logged the start of the batch that Spark is about to plan, or null
   * @param lastInTaskScope the last batch of which the group has an offset of task scope, or -1
   * @param failOnDataLoss the option: where it is false, records that are gone explain it too
   * @throws EosKafkaException {@code EOSKAFKA_GROUP_BEHIND_LOG}
   */
  void requireNotBehindLog(
      TopicPartition partition,
      long committed,
      Long logged,
      long lastInTaskScope,
      boolean failOnDataLoss) {
    if (logged == null || committed >= logged || start(partition) != null) {
      return;
    }
    if (session != null && lastInTaskScope > session.lastDecided()) {
      return;
    }
    if (session != null
        && session.lastDecided() == RunningQuery.ofThisThread().lastDone().orElse(-1)) {
      Long end = session.lastEnd(identity.producersId(), partition);
      if (end == null ? !failOnDataLoss : end == committed) {
        return;
      }
    }
    throw ForeignBatches.behindLog(identity, partition, committed, logged);
  }
}
