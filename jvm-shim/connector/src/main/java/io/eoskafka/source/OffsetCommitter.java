package io.eoskafka.source;

import io.eoskafka.group.Membership;
import io.eoskafka.identity.Identity;
import io.eoskafka.identity.Stamp;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;

/** Commits offsets of a query's group outside transactions, each with the query's stamp. */
final class OffsetCommitter {
  private static final Duration TIMEOUT = Duration.ofSeconds(60);

  /** The epoch of a start: no batch has moved it. */
  private static final long START = -1;

  private final Membership member;
  private final Identity identity;
  private final String sinkCluster;
  private final boolean sinkIsOurs;
  private final Topics topics;
  private final TopicTracker tracker;

  /**
   * @param sinkCluster of the query's sink, as in a stamp
   * @param sinkIsOurs whether the sink commits source offsets with its output
   */
  OffsetCommitter(
      Membership member,
      Identity identity,
      String sinkCluster,
      boolean sinkIsOurs,
      Topics topics,
      TopicTracker tracker) {
    this.member = member;
    this.identity = identity;
    this.sinkCluster = sinkCluster;
    this.sinkIsOurs = sinkIsOurs;
    this.topics = topics;
    this.tracker = tracker;
  }

  /**
   * Commits starts, with a stamp that says whether the group or Spark's log is authoritative.
   *
   * @param terms the terms in which the partitions are owned
   * @return partitions that turned out to be deleted and were left out; the next look for
   *     partitions reports them
   * @throws Membership.MovedException if one of the partitions did not stay owned
   * @throws io.eoskafka.config.EosKafkaException {@code EOSKAFKA_COMMIT_UNANSWERED}
   */
  Set<TopicPartition> commitStarts(
      Map<TopicPartition, Long> starts, Map<TopicPartition, Long> terms) {
    if (starts.isEmpty()) {
      return Set.of();
    }
    if (!sinkIsOurs) {
      return commit(
          stamped(starts, Stamp.Scope.SOURCE_ONLY, START),
          left -> member.commitAsLogged(left, terms));
    }
    return commit(stamped(starts, Stamp.Scope.TASK, START), left -> member.commit(left, terms));
  }

  /**
   * Commits what an epoch has read, after it has taken effect.
   *
   * @throws io.eoskafka.config.EosKafkaException {@code EOSKAFKA_COMMIT_UNANSWERED}; the next start
   *     commits it
   */
  void commitEpoch(Map<TopicPartition, Long> ends, long epoch, Map<TopicPartition, Long> terms) {
    commit(stampedForEpoch(ends, epoch), left -> member.commit(left, terms));
  }

  /** What an epoch has read, for the transaction of its decision. */
  Map<TopicPartition, OffsetAndMetadata> stampedForEpoch(
      Map<TopicPartition, Long> ends, long epoch) {
    return stamped(ends, Stamp.Scope.EPOCH, epoch);
  }

  private Set<TopicPartition> commit(
      Map<TopicPartition, OffsetAndMetadata> offsets,
      Consumer<Map<TopicPartition, OffsetAndMetadata>> commit) {
    Set<TopicPartition> leftOut = new HashSet<>();
    Map<TopicPartition, OffsetAndMetadata> left = new HashMap<>(offsets);
    long deadline = System.nanoTime() + TIMEOUT.toNanos();
    while (!left.isEmpty()) {
      try {
        commit.accept(left);
        return leftOut;
      } catch (TimeoutException e) {
        Set<TopicPartition> deleted = topics.gone(left.keySet());
        if (deleted.isEmpty() && System.nanoTime() > deadline) {
          throw e;
        }
        left.keySet().removeAll(deleted);
        leftOut.addAll(deleted);
      }
    }
    return leftOut;
  }

  private Map<TopicPartition, OffsetAndMetadata> stamped(
      Map<TopicPartition, Long> offsets, Stamp.Scope scope, long epoch) {
    Map<TopicPartition, OffsetAndMetadata> stamped = new HashMap<>();
    offsets.forEach(
        (partition, offset) ->
            stamped.put(
                partition,
                new OffsetAndMetadata(
                    offset,
                    new Stamp(scope, identity.id(), tracker.id(partition), sinkCluster, epoch)
                        .encode())));
    return stamped;
  }
}
