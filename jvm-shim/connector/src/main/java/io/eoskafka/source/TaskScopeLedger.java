package io.eoskafka.source;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.task.SlotCommit;
import io.eoskafka.task.SlotRange;
import io.eoskafka.task.SlotWork;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What tasks in task scope have committed in this run, and what they have left of their batches.
 */
final class TaskScopeLedger {
  private static final Logger LOG = LoggerFactory.getLogger(TaskScopeLedger.class);

  private final GroupSharing sharing;

  /** Who has committed for each slot last, and has an idle producer for it. */
  private final Map<Integer, SlotCommit> owners = new HashMap<>();

  /**
   * Planned ends that tasks of former batches have ended before, and nobody has got to since. A
   * late attempt of such a batch may still take that up: it must find the next one's under its own
   * transactional id, so each partition stays in its slot. In real-time mode always.
   */
  private final Map<TopicPartition, Long> left = new HashMap<>();

  /** How far tasks of this run were to read each partition, or have, by the slot that had it. */
  private final Map<TopicPartition, Map<Integer, Long>> ends = new HashMap<>();

  /** Whether tasks have had several slots: then the first one has named the transactional id. */
  private boolean putsSlotsTogether;

  /** The slots of the last plan, of either scope. */
  private Map<TopicPartition, Integer> dealt = Map.of();

  private long stableWaitMs;

  TaskScopeLedger(GroupSharing sharing) {
    this.sharing = sharing;
  }

  /**
   * Compares the offsets that the tasks of a batch have committed with those planned. A gap fails
   * the batch, since Spark would log it as done.
   *
   * @param planned what each task was to read
   * @param commits by slot
   * @return how far each partition was read
   * @throws EosKafkaException {@code EOSKAFKA_COMMIT_GAP}
   */
  Map<TopicPartition, Long> record(
      long epoch, Collection<SlotWork> planned, Map<Integer, SlotCommit> commits) {
    Map<TopicPartition, Long> reached = new HashMap<>();
    for (SlotWork work : planned) {
      SlotCommit commit = commits.get(work.slot());
      stableWaitMs += commit == null ? 0 : commit.stableWaitMs();
      if (commit != null && commit.offsets().isEmpty() && sharing.mayCommitNothing()) {
        // What is still ours comes with the next batch.
        LOG.info("Batch {}: slot {} was aborted, since partitions have moved", epoch, work.slot());
        owners.remove(work.slot());
        continue;
      }
      for (SlotRange range : work.ranges()) {
        long offset = record(epoch, range, commit);
        reached.put(range.topicPartition(), offset);
        ends.computeIfAbsent(range.topicPartition(), p -> new HashMap<>())
            .merge(work.slot(), range.isOpen() ? offset : range.end(), Math::max);
      }
      owners.put(work.slot(), commit);
    }
    return reached;
  }

  private long record(long epoch, SlotRange range, SlotCommit commit) {
    TopicPartition partition = range.topicPartition();
    Long offset = commit == null ? null : commit.offsets().get(partition);
    boolean isShort = !range.isOpen() && offset != null && offset < range.end();
    if (offset == null || isShort && !commit.endedEarly()) {
      throw EosKafkaException.of(
          "EOSKAFKA_COMMIT_GAP",
          Map.of(
              "epoch",
              epoch,
              "partition",
              partition,
              "planned",
              range.end(),
              "committed",
              offset == null ? "nothing" : offset));
    }
    left.computeIfPresent(partition, (same, end) -> offset < end ? end : null);
    if (isShort) {
      left.merge(partition, range.end(), Math::max);
      LOG.info(
          "Batch {}: {} was read to {} of {}, so as to commit in time; the rest comes next",
          epoch,
          partition,
          offset,
          range.end());
    }
    return offset;
  }

  /** A batch is planned, in which these slots have the partitions that are whole. */
  void planned(Map<TopicPartition, Integer> slots) {
    dealt = Map.copyOf(slots);
  }

  /** A batch is in task scope, and its tasks may have several slots. */
  void slotsAreTogether() {
    putsSlotsTogether = true;
  }

  /**
   * Logs were cut, and are read from these offsets on. A late attempt that finds the group before
   * the end of its range would take up what lies between, as if it had been left: so each partition
   * stays in its slot. If another slot has had it before, or a task with several slots, the query
   * cannot go on: an attempt of that one would write under another transactional id, with the fence
   * of this run.
   *
   * @throws EosKafkaException {@code EOSKAFKA_LOG_TRUNCATED}
   */
  void movedBack(Map<TopicPartition, Long> starts) {
    starts.forEach(
        (partition, start) ->
            ends.getOrDefault(partition, Map.of())
                .forEach(
                    (slot, end) -> {
                      if (end > start) {
                        requireSameSlot(partition, slot, start, end);
                        left.merge(partition, end, Math::max);
                      }
                    }));
  }

  private void requireSameSlot(TopicPartition partition, int slot, long start, long end) {
    boolean isSame = !putsSlotsTogether && Integer.valueOf(slot).equals(dealt.get(partition));
    if (sharing.hasLateAttempts() && !isSame) {
      throw EosKafkaException.of(
          "EOSKAFKA_LOG_TRUNCATED", Map.of("partition", partition, "from", end, "end", start));
    }
  }

  /** Whether tasks have ended before their planned ends, and nobody has got there since. */
  boolean hasLeft() {
    return !left.isEmpty();
  }

  /**
   * A late attempt of a task that has ended early would take up what is left, under a transactional
   * id that no writer in epoch scope has, and with the fence of this run; in another run that is
   * refused.
   *
   * @param reason why the batch is in epoch scope
   * @throws EosKafkaException {@code EOSKAFKA_SCOPE_NEEDS_RESTART}
   */
  void requireNothingLeft(long epoch, String reason) {
    if (hasLeft()) {
      throw EosKafkaException.of(
          "EOSKAFKA_SCOPE_NEEDS_RESTART", Map.of("epoch", epoch, "reason", reason));
    }
  }

  /** Who has an idle producer for a slot, or null. */
  SlotCommit owner(int slot) {
    return owners.get(slot);
  }

  /** Idle producers were fenced: nobody continues without a stable fetch. */
  void forgetOwners() {
    owners.clear();
  }

  /** The producers of these slots were fenced. */
  void forgetOwners(Collection<Integer> slots) {
    owners.keySet().removeAll(slots);
  }

  /** How long tasks have waited in all for stable offsets, in milliseconds. */
  long stableWaitMs() {
    return stableWaitMs;
  }
}
