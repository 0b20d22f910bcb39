package io.eoskafka.source;

import io.eoskafka.group.GroupInspector;
import io.eoskafka.group.GroupOffsets;
import io.eoskafka.identity.Fence;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A driver of a shared group, as seen by one that it takes over from ({@code handover=true}). It is
 * trusted once it has moved the partitions of the group that it was given: a new version that does
 * not work takes nothing more away. A driver that was given nothing, or has nothing to do, gets
 * some time, and then one driver after another gives way to it.
 */
final class Handover {
  private static final Logger LOG = LoggerFactory.getLogger(Handover.class);

  private static final long LOOK_NANOS = Duration.ofMillis(500).toNanos();

  private final GroupInspector members;
  private final GroupOffsets offsets;
  private final Topics topics;
  private final GroupInspector.Release own;
  private final Duration patience;

  private long lookedNanos = System.nanoTime();

  private long unprovenSinceNanos;

  /** Where the successor's partitions were when they were first seen with it. */
  private final Map<TopicPartition, Long> firstSeen = new HashMap<>();

  /**
   * @param own this driver's release
   * @param patience how long a successor may be there that shows nothing
   */
  Handover(
      GroupInspector members,
      GroupOffsets offsets,
      Topics topics,
      GroupInspector.Release own,
      Duration patience) {
    this.members = members;
    this.offsets = offsets;
    this.topics = topics;
    this.own = own;
    this.patience = patience;
  }

  /**
   * @param all the source's partitions
   * @param kept those that this driver still has
   * @param fence this driver's
   */
  boolean isReady(Set<TopicPartition> all, Set<TopicPartition> kept, Fence fence) {
    if (System.nanoTime() - lookedNanos < LOOK_NANOS) {
      return false;
    }
    lookedNanos = System.nanoTime();
    Optional<GroupInspector.Successor> successor = members.successor(own);
    if (successor.isEmpty()) {
      firstSeen.clear();
      unprovenSinceNanos = 0;
      return false;
    }
    if (unprovenSinceNanos == 0) {
      unprovenSinceNanos = System.nanoTime();
    }
    Set<TopicPartition> taken = new HashSet<>(successor.get().partitions());
    taken.retainAll(all);
    taken.removeAll(kept);
    firstSeen.keySet().retainAll(taken);
    Map<TopicPartition, Long> now = new HashMap<>();
    if (!taken.isEmpty()) {
      offsets.committed(taken).forEach((partition, offset) -> now.put(partition, offset.offset()));
    }
    Map<TopicPartition, Long> ends = topics.stillReadable(taken);
    boolean hasMoved = false;
    for (TopicPartition partition : taken) {
      Long reached = now.get(partition);
      if (reached == null) {
        return false;
      }
      long first = firstSeen.computeIfAbsent(partition, p -> reached);
      hasMoved |= reached > first;
      if (reached <= first && reached < ends.getOrDefault(partition, reached)) {
        return false;
      }
    }
    boolean isNext = fence.memberId().equals(successor.get().next());
    if (!hasMoved && !(isNext && mayGiveWay(kept, taken))) {
      return false;
    }
    LOG.info("This run ends: another driver has taken over, with {}", taken);
    return true;
  }

  /** Whether a successor that could not show what it can do has been there for long enough. */
  private boolean mayGiveWay(Set<TopicPartition> kept, Set<TopicPartition> taken) {
    // The successor gets no partition while there are no more partitions than drivers.
    boolean hasHadItsChance = !taken.isEmpty() || kept.size() <= 1;
    return hasHadItsChance && System.nanoTime() - unprovenSinceNanos > patience.toNanos();
  }
}
