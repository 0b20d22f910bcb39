package io.eoskafka.source;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SourceOptions;
import io.eoskafka.decision.Decision;
import io.eoskafka.task.SlotRange;
import io.eoskafka.task.SlotWork;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.apache.kafka.common.TopicPartition;

/**
 * A batch as the driver has planned it.
 *
 * @param partitions one for each task
 * @param work what each task reads, by slot
 * @param slots how many there are; some may have nothing to read
 * @param split how partitions are split
 * @param isSplit whether any partition is
 * @param otherStarts partitions whose batch starts elsewhere than Spark's log says, and where it
 *     says
 * @param isOwn whether this run has planned it, not a former run that has logged it
 * @param isOfOthers whether it stands in Spark's log as others have planned it
 * @param sharedPlan see {@link io.eoskafka.task.TaskScope#plan}
 */
record PlannedBatch(
    List<SlotPartition> partitions,
    SortedMap<Integer, SlotWork> work,
    int slots,
    SourceOptions.Split split,
    boolean isSplit,
    SortedMap<TopicPartition, Long> otherStarts,
    boolean isOwn,
    boolean isOfOthers,
    long sharedPlan) {

  /** Before the first one of a run. */
  static PlannedBatch none() {
    return new PlannedBatch(
        List.of(),
        new TreeMap<>(),
        0,
        SourceOptions.Split.NONE,
        false,
        new TreeMap<>(PartitionOffsets.ORDER),
        false,
        false,
        0);
  }

  Stream<SlotRange> ranges() {
    return work.values().stream().flatMap(each -> each.ranges().stream());
  }

  /** What it reads, as a decision has it. */
  Decision.Input input() {
    Map<TopicPartition, Long> starts = new HashMap<>();
    Map<TopicPartition, Long> ends = new HashMap<>();
    ranges()
        .forEach(
            range -> {
              starts.merge(range.topicPartition(), range.epochStart(), Math::min);
              ends.merge(range.topicPartition(), range.end(), Math::max);
            });
    return new Decision.Input(slots, split, starts, ends);
  }

  /**
   * State that was kept for a batch holds what Spark's log says it has read; a range that starts
   * elsewhere, because task scope had committed a part of it, would miss rows in it.
   *
   * @param group for the message
   * @throws EosKafkaException {@code EOSKAFKA_STATE_BEHIND_GROUP}
   */
  void requireSparksStart(String group) {
    if (!otherStarts.isEmpty()) {
      TopicPartition partition = otherStarts.firstKey();
      throw EosKafkaException.of(
          "EOSKAFKA_STATE_BEHIND_GROUP",
          Map.of("group", group, "partition", partition, "logged", otherStarts.get(partition)));
    }
  }
}
