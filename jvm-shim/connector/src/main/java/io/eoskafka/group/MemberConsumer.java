package io.eoskafka.group;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.identity.Identity;
import java.time.Duration;
import java.util.Collection;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/** What every {@link Membership} does with its consumer, which never fetches. */
final class MemberConsumer {
  private MemberConsumer() {}

  static Set<String> topics(Set<TopicPartition> partitions) {
    return partitions.stream().map(TopicPartition::topic).collect(Collectors.toSet());
  }

  /** Any position will do, since nothing is fetched; without one a poll would look it up. */
  static void hold(KafkaConsumer<byte[], byte[]> consumer, Collection<TopicPartition> partitions) {
    consumer.pause(partitions);
    partitions.forEach(partition -> consumer.seek(partition, 0));
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
