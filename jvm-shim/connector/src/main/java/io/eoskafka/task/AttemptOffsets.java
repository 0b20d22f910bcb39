package io.eoskafka.task;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * The offsets of one attempt, by topic-partition: where it starts and what it has committed. They
 * determine what it commits next and what it reports.
 */
final class AttemptOffsets {
  private final Map<TopicPartition, OffsetAndMetadata> starts = new HashMap<>();
  private final Map<TopicPartition, OffsetAndMetadata> committed = new HashMap<>();

  /** Reading of these partitions starts at these offsets; everything before them is committed. */
  void begin(Map<TopicPartition, OffsetAndMetadata> found) {
    starts.putAll(found);
  }

  /**
   * A slot's ranges start at the offsets of its producer's last commit, with their leader epochs:
   * the slot's current consumer may not be the one that has read up to there.
   *
   * @param before what the producer has committed, for every range
   */
  void beginAfter(Map<TopicPartition, OffsetAndMetadata> before, SlotWork work) {
    work.ranges().forEach(r -> starts.put(r.topicPartition(), before.get(r.topicPartition())));
  }

  /** Where reading of a slot starts. */
  Map<TopicPartition, OffsetAndMetadata> starts(SlotWork work) {
    Map<TopicPartition, OffsetAndMetadata> ofWork = new HashMap<>();
    work.ranges().forEach(r -> ofWork.put(r.topicPartition(), starts.get(r.topicPartition())));
    return ofWork;
  }

  /** Whether an earlier attempt has committed a slot's ranges. */
  boolean isCommitted(SlotWork work) {
    return work.ranges().stream().allMatch(r -> starts.get(r.topicPartition()).offset() >= r.end());
  }

  /** The starts, as fetched from the group, of those ranges of a slot that have nothing to read. */
  Map<TopicPartition, Long> atTheirEnds(SlotInput input) {
    Map<TopicPartition, Long> ends = new HashMap<>();
    for (SlotRange range : input.work().ranges()) {
      long start = starts.get(range.topicPartition()).offset();
      if (start >= range.end() && !input.isGone(range.topicPartition())) {
        ends.put(range.topicPartition(), start);
      }
    }
    return ends;
  }

  /**
   * How far the records of these slots have been handed out, if that is beyond the committed
   * offset. In an open range it may also be before it, after a log was truncated. No offset is
   * committed for a deleted partition.
   *
   * @param mayGoBack whether a truncated log may move the group back
   * @param stamp the stamp of a range's offset
   * @throws IllegalStateException if an offset would move back although it must not: the next start
   *     would write records again
   */
  Map<TopicPartition, OffsetAndMetadata> toCommit(
      List<SlotInput> slots, boolean mayGoBack, Function<SlotRange, String> stamp) {
    Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
    for (SlotInput input : slots) {
      for (SlotRange range : input.work().ranges()) {
        TopicPartition partition = range.topicPartition();
        OffsetAndMetadata end = input.end(partition);
        long from = last(partition).offset();
        boolean isNew =
            end != null && (range.isOpen() ? from != end.offset() : from < end.offset());
        if (isNew && !input.isGone(partition)) {
          if (end.offset() < from && !mayGoBack) {
            throw new IllegalStateException(
                String.format(
                    "This attempt has read %s up to offset %d, although the group was at %d when it"
                        + " began or last committed. Nothing was committed now",
                    partition, end.offset(), from));
          }
          offsets.put(
              partition,
              new OffsetAndMetadata(end.offset(), end.leaderEpoch(), stamp.apply(range)));
        }
      }
    }
    return offsets;
  }

  /** The group's offset of a partition, as far as the attempt knows. */
  OffsetAndMetadata last(TopicPartition partition) {
    return committed.getOrDefault(partition, starts.get(partition));
  }

  /** The same for several partitions, without leader epochs and stamps. */
  Map<TopicPartition, Long> last(Set<TopicPartition> partitions) {
    return partitions.stream()
        .collect(Collectors.toMap(Function.identity(), partition -> last(partition).offset()));
  }

  /** A transaction with these offsets was committed. */
  void committed(Map<TopicPartition, OffsetAndMetadata> offsets) {
    committed.putAll(offsets);
  }

  /** The first offset of a range that has not taken effect after the attempt's commit. */
  long reached(SlotInput input, SlotRange range) {
    long began = starts.get(range.topicPartition()).offset();
    OffsetAndMetadata end = input.end(range.topicPartition());
    if (end != null) {
      return range.isOpen() ? end.offset() : Math.max(end.offset(), began);
    }
    return range.isOpen() ? began : Math.max(range.end(), began);
  }

  /**
   * The group's offset of each partition, as far as the attempt knows. Deleted partitions have
   * none.
   *
   * @param before what its producer had committed before
   * @param slots that have been read
   */
  Map<TopicPartition, OffsetAndMetadata> known(
      Map<TopicPartition, OffsetAndMetadata> before, List<SlotInput> slots) {
    Map<TopicPartition, OffsetAndMetadata> known = new HashMap<>(before);
    known.putAll(starts);
    known.putAll(committed);
    known.keySet().removeIf(partition -> slots.stream().anyMatch(slot -> slot.isGone(partition)));
    return known;
  }
}
