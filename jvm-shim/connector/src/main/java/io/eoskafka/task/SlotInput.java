package io.eoskafka.task;

import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * One slot's input of an attempt: how far its records have been handed out, and whether more will
 * be read. The reading thread, which may be a Python runner's, sets it; the writing thread reads
 * it.
 */
final class SlotInput {
  private final SlotWork work;

  /**
   * How far its records have been handed out, by topic-partition, with the leader epochs there: at
   * the last commit, and then at the end of reading.
   */
  private volatile Map<TopicPartition, OffsetAndMetadata> ends = Map.of();

  /** Whether nothing more will be read; written after everything else. */
  private volatile boolean hasEnded;

  private boolean endedEarly;
  private final Set<TopicPartition> gone = new HashSet<>();
  private long stableWaitMs;

  SlotInput(SlotWork work) {
    this.work = work;
  }

  /** The input of this slot. */
  static SlotInput of(SlotWork work, List<SlotInput> slots) {
    return slots.stream().filter(input -> input.work == work).findFirst().orElseThrow();
  }

  SlotWork work() {
    return work;
  }

  /**
   * All records before these offsets have been handed out.
   *
   * @param found partitions that were deleted before they were read to their ends
   */
  void handedOut(Map<TopicPartition, OffsetAndMetadata> offsets, Set<TopicPartition> found) {
    gone.addAll(found);
    ends = offsets;
  }

  /**
   * The same, and nothing more will be read.
   *
   * @param early whether it has stopped before its planned end
   */
  void end(
      Map<TopicPartition, OffsetAndMetadata> offsets, Set<TopicPartition> found, boolean early) {
    handedOut(offsets, found);
    endedEarly = early;
    hasEnded = true;
  }

  /** Nothing will be read. */
  void endUnread() {
    end(Map.of(), Set.of(), false);
  }

  /** How far a partition's records have been handed out, or null if none was read yet. */
  OffsetAndMetadata end(TopicPartition partition) {
    return ends.get(partition);
  }

  boolean hasEnded() {
    return hasEnded;
  }

  boolean endedEarly() {
    return endedEarly;
  }

  /** These partitions have been deleted since they were planned. */
  void addGone(Set<TopicPartition> found) {
    gone.addAll(found);
  }

  boolean isGone(TopicPartition partition) {
    return gone.contains(partition);
  }

  boolean hasGone() {
    return !gone.isEmpty();
  }

  /** How long it took until the offsets at its start were stable. */
  long stableWaitMs() {
    return stableWaitMs;
  }

  void setStableWaitMs(long ms) {
    stableWaitMs = ms;
  }
}
