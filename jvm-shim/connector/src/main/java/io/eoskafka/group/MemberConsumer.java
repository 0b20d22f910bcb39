package io.eoskafka.group;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.identity.Identity;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;

/** What every {@link Membership} does with its consumer, which never fetches. */
final class MemberConsumer {
  /** If a coordinator is moving, or markers are late, this may be too short: then it is retried. */
  private static final Duration COMMITTED_TRY = Duration.ofSeconds(5);

  private MemberConsumer() {}

  static Set<String> topics(Set<TopicPartition> partitions) {
    return partitions.stream().map(TopicPartition::topic).collect(Collectors.toSet());
  }

  /** Any position will do, because nothing is fetched; without one, a poll would look it up. */
  static void hold(KafkaConsumer<byte[], byte[]> consumer, Collection<TopicPartition> partitions) {
    consumer.pause(partitions);
    partitions.forEach(partition -> consumer.seek(partition, 0));
  }

  /** As {@link Membership#committed}; on the thread that polls. */
  static Map<TopicPartition, OffsetAndMetadata> committed(
      KafkaConsumer<byte[], byte[]> consumer, Set<TopicPartition> partitions) {
    while (true) {
      try {
        Map<TopicPartition, OffsetAndMetadata> found =
            new HashMap<>(consumer.committed(partitions, COMMITTED_TRY));
        found.values().removeIf(Objects::isNull);
        return found;
      } catch (WakeupException e) {
        // The wakeup was meant for a poll.
      }
    }
  }

  static void leave(KafkaConsumer<byte[], byte[]> consumer) {
    consumer.close(
        CloseOptions.timeout(Duration.ofSeconds(5))
            .withGroupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP));
  }

  static EosKafkaException joinTimeout(Identity identity, Duration waited) {
    return EosKafkaException.of(
        "EOSKAFKA_JOIN_TIMEOUT", Map.of("group", identity.group(), "seconds", waited.toSeconds()));
  }
}
