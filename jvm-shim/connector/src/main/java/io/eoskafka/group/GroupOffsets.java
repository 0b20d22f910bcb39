package io.eoskafka.group;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.wire.KafkaCalls;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;

/** Reads what a group has committed. Partitions with no offset are absent from the answers. */
public final class GroupOffsets {
  /** A transaction's markers take some tens of milliseconds. */
  private static final long RETRY_MS = 20;

  private final Admin admin;
  private final String group;

  public GroupOffsets(Admin admin, String group) {
    this.admin = admin;
    this.group = group;
  }

  /**
   * The last committed offsets; an open transaction may have newer ones pending.
   *
   * @throws EosKafkaException {@code EOSKAFKA_OFFSETS_UNREADABLE}
   */
  public Map<TopicPartition, OffsetAndMetadata> committed(Collection<TopicPartition> partitions) {
    return committed(partitions, new ListConsumerGroupOffsetsOptions());
  }

  /** The same for a caller that does not wait as long as the client does. */
  public Map<TopicPartition, OffsetAndMetadata> committed(
      Collection<TopicPartition> partitions, ListConsumerGroupOffsetsOptions options) {
    Map<TopicPartition, OffsetAndMetadata> answer = fetch(partitions, options);
    if (!answer.keySet().containsAll(partitions)) {
      throw EosKafkaException.of(
          "EOSKAFKA_OFFSETS_UNREADABLE",
          Map.of("group", group, "partitions", unanswered(partitions, answer)));
    }
    return present(answer);
  }

  /**
   * The stable offsets (KIP-447): waits while an open transaction has pending offsets for any of
   * them.
   *
   * @throws TimeoutException if one is still pending after {@code timeout}
   */
  public Map<TopicPartition, OffsetAndMetadata> stable(
      Collection<TopicPartition> partitions, Duration timeout) {
    long deadline = System.nanoTime() + timeout.toNanos();
    while (true) {
      Map<TopicPartition, OffsetAndMetadata> answer = fetchStable(partitions);
      if (answer.keySet().containsAll(partitions)) {
        return present(answer);
      }
      if (System.nanoTime() > deadline) {
        throw new TimeoutException("unstable: " + unanswered(partitions, answer));
      }
      KafkaCalls.sleep(RETRY_MS);
    }
  }

  /**
   * The partitions that have a pending offset, or for which the group's offset is lower.
   *
   * @param least the expected offsets, by topic-partition
   * @param mayBeGone whether a partition without an offset counts as done, because its topic may be
   *     deleted
   */
  public Set<TopicPartition> behind(Map<TopicPartition, Long> least, boolean mayBeGone) {
    Map<TopicPartition, OffsetAndMetadata> answer = fetchStable(least.keySet());
    Set<TopicPartition> behind = new HashSet<>(least.keySet());
    behind.removeIf(
        partition -> {
          OffsetAndMetadata found = answer.get(partition);
          return found == null
              ? mayBeGone && answer.containsKey(partition)
              : found.offset() >= least.get(partition);
        });
    return behind;
  }

  private Map<TopicPartition, OffsetAndMetadata> fetchStable(
      Collection<TopicPartition> partitions) {
    return fetch(partitions, new ListConsumerGroupOffsetsOptions().requireStable(true));
  }

  /**
   * The admin client leaves out a partition for which the broker returned an error, such as an
   * unstable one, and returns null for a partition without an offset. Confusing the two would start
   * reading at a wrong offset.
   */
  private Map<TopicPartition, OffsetAndMetadata> fetch(
      Collection<TopicPartition> partitions, ListConsumerGroupOffsetsOptions options) {
    // Named one by one: a fetch of "all" leaves out a partition whose first offset is still open.
    ListConsumerGroupOffsetsSpec spec =
        new ListConsumerGroupOffsetsSpec().topicPartitions(partitions);
    return KafkaCalls.get(
        admin
            .listConsumerGroupOffsets(Map.of(group, spec), options)
            .partitionsToOffsetAndMetadata(group));
  }

  private static Map<TopicPartition, OffsetAndMetadata> present(
      Map<TopicPartition, OffsetAndMetadata> answer) {
    Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>(answer);
    found.values().removeIf(Objects::isNull);
    return found;
  }

  private static Set<TopicPartition> unanswered(
      Collection<TopicPartition> partitions, Map<TopicPartition, OffsetAndMetadata> answer) {
    Set<TopicPartition> left = new HashSet<>(partitions);
    left.removeAll(answer.keySet());
    return left;
  }

  /** The error for offsets that a transaction of another application keeps unstable. */
  public static EosKafkaException stillUnstable(String group, Duration waited, Throwable cause) {
    return EosKafkaException.of(
        "EOSKAFKA_OFFSETS_UNSTABLE", Map.of("group", group, "seconds", waited.toSeconds()), cause);
  }
}
