package io.eoskafka.task;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.identity.Stamp;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** Where an attempt starts reading, according to the group's offsets. */
final class StartOffsets {
  private StartOffsets() {}

  /**
   * Checks the stamp of each offset, and that no offset is before the planned one.
   *
   * @param input of the slot; partitions that it knows to be deleted count as read, without an
   *     offset
   * @param fetched the group's offsets
   * @param isStable whether these are stable offsets; otherwise the last batch's transaction
   *     markers may be in flight
   * @return by topic-partition, for each range of the slot
   * @throws EosKafkaException {@code EOSKAFKA_OFFSETS_CHANGED}
   */
  static Map<TopicPartition, OffsetAndMetadata> of(
      TaskScope scope,
      SlotInput input,
      Map<TopicPartition, OffsetAndMetadata> fetched,
      boolean isStable) {
    Map<TopicPartition, OffsetAndMetadata> starts = new HashMap<>();
    for (SlotRange range : input.work().ranges()) {
      TopicPartition partition = range.topicPartition();
      OffsetAndMetadata offset = fetched.get(partition);
      if (offset == null && input.isGone(partition)) {
        starts.put(
            partition, new OffsetAndMetadata(range.isOpen() ? range.groupStart() : range.end()));
        continue;
      }
      Optional<Stamp> stamp = offset == null ? Optional.empty() : Stamp.parse(offset.metadata());
      if (stamp.isEmpty()
          || !stamp.get().identity().equals(scope.identity().id())
          || !stamp.get().topicId().equals(range.topicId())
          // In an open range a truncated log may have taken an attempt back, where that is allowed.
          || isStable
              && !(range.isOpen() && scope.skipsDeleted())
              && offset.offset() < range.groupStart()) {
        throw changed(scope, range, offset);
      }
      starts.put(partition, offset);
    }
    return starts;
  }

  /**
   * @param offset null if there is none
   */
  static EosKafkaException changed(TaskScope scope, SlotRange range, OffsetAndMetadata offset) {
    return EosKafkaException.of(
        "EOSKAFKA_OFFSETS_CHANGED",
        Map.of(
            "group",
            scope.identity().group(),
            "partition",
            range.topicPartition(),
            "planned",
            range.groupStart(),
            "found",
            offset == null ? "none" : offset.offset(),
            "stamp",
            offset == null ? "none" : offset.metadata()));
  }
}
