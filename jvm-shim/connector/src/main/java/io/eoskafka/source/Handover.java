package io.eoskafka.source;

import io.eoskafka.group.GroupMembers;
import io.eoskafka.group.GroupOffsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A driver of a shared group, seen from one that it takes over from ({@code handover=true}). It is
 * believed when it has moved what it has got of the group's partitions: a new version that cannot
 * do its work takes nothing more away.
 */
final class Handover {
  private static final Logger LOG = LoggerFactory.getLogger(Handover.class);

  private static final long LOOK_NANOS = Duration.ofMillis(500).toNanos();

  private final GroupMembers members;
  private final GroupOffsets offsets;
  private final Topics topics;
  private final OptionalLong own;

  private long lookedNanos = System.nanoTime();

  /** Where the successor's partitions were when they were first seen with it. */
  private final Map<TopicPartition, Long> firstSeen = new HashMap<>();

  /**
   * @param own when this driver began to take over itself, or empty: it gives way to later ones
   */
  Handover(GroupMembers members, GroupOffsets offsets, Topics topics, OptionalLong own) {
    this.members = members;
    this.offsets = offsets;
    this.topics = topics;
    this.own = own;
  }

  /**
   * @param all the source's partitions
   * @param kept those that this driver still has
   */
  boolean isReady(Set<TopicPartition> all, Set<TopicPartition> kept) {
    if (System.nanoTime() - lookedNanos < LOOK_NANOS) {
      return false;
    }
    lookedNanos = System.nanoTime();
    Optional<Set<TopicPartition>> successor = members.successor(own);
    if (successor.isEmpty()) {
      firstSeen.clear();
      return false;
    }
    Set<TopicPartition> taken = new HashSet<>(successor.get());
    taken.retainAll(all);
    taken.removeAll(kept);
    firstSeen.keySet().retainAll(taken);
    if (taken.isEmpty()) {
      // It gets none as long as there are no more partitions than drivers.
      return kept.size() <= 1;
    }
    Map<TopicPartition, Long> now = new HashMap<>();
    offsets.committed(taken).forEach((partition, offset) -> now.put(partition, offset.offset()));
    Map<TopicPartition, Long> ends = topics.readable(taken);
    for (TopicPartition partition : taken) {
      Long reached = now.get(partition);
      if (reached == null) {
        return false;
      }
      long first = firstSeen.computeIfAbsent(partition, p -> reached);
      if (reached <= first && reached < ends.get(partition)) {
        return false;
      }
    }
    LOG.info("This run ends: another driver has taken over, and moves {}", taken);
    return true;
  }
}
