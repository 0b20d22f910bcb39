package io.eoskafka.group;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.wire.KafkaCalls;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;

/** Reads what a group has committed. Partitions with no offset are absent from the answers. */
public final class GroupOffsets {
  private final Admin admin;
  private final String group;

  public GroupOffsets(Admin admin, String group) {
    this.admin = admin;
    this.group = group;
  }

  /** The last committed offsets; a transaction may be open over them. */
  public Map<TopicPartition, OffsetAndMetadata> committed(Collection<TopicPartition> partitions) {
    return fetch(partitions, new ListConsumerGroupOffsetsOptions());
  }

  /**
   * The stable offsets (KIP-447): waits while a transaction is open over any of them.
   *
   * @throws TimeoutException if one still is after {@code timeout}
   */
  public Map<TopicPartition, OffsetAndMetadata> stable(
      Collection<TopicPartition> partitions, Duration timeout) {
    return fetch(
        partitions,
        new ListConsumerGroupOffsetsOptions()
            .requireStable(true)
            .timeoutMs(Math.toIntExact(timeout.toMillis())));
  }

  private Map<TopicPartition, OffsetAndMetadata> fetch(
      Collection<TopicPartition> partitions, ListConsumerGroupOffsetsOptions options) {
    // Named one by one: a fetch of "all" leaves out a partition whose first offset is still open.
    ListConsumerGroupOffsetsSpec spec =
        new ListConsumerGroupOffsetsSpec().topicPartitions(partitions);
    Map<TopicPartition, OffsetAndMetadata> answer =
        KafkaCalls.get(
            admin
                .listConsumerGroupOffsets(Map.of(group, spec), options)
                .partitionsToOffsetAndMetadata(group));
    Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
    answer.forEach(
        (partition, offset) -> {
          if (offset != null) {
            found.put(partition, offset);
          }
        });
    return found;
  }

  /** An error for offsets that no transaction of ours holds unstable. */
  public static EosKafkaException stillUnstable(String group, Duration waited, Throwable cause) {
    return EosKafkaException.of(
        "EOSKAFKA_OFFSETS_UNSTABLE", Map.of("group", group, "seconds", waited.toSeconds()), cause);
  }
}
