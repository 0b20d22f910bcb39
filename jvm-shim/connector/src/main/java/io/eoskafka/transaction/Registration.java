package io.eoskafka.transaction;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.wire.KafkaCalls;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/**
 * The partitions and the group that a transaction may use ({@code registerTopics}, KIP-609). They
 * are checked here, before anything is sent.
 *
 * @param partitions of each topic
 * @param group whose offsets it may carry, or null for none
 */
public record Registration(Map<String, Set<Integer>> partitions, String group) {

  /** All partitions of a topic. */
  public static Set<Integer> all(int count) {
    return IntStream.range(0, count).boxed().collect(Collectors.toSet());
  }

  /**
   * Fails if a topic does not exist, because the producer itself would wait for it.
   *
   * @throws EosKafkaException {@code EOSKAFKA_NO_SUCH_TOPIC}
   */
  static void requireTopics(List<String> topics, Admin admin) {
    admin
        .describeTopics(topics)
        .topicNameValues()
        .forEach(
            (topic, found) -> {
              try {
                KafkaCalls.get(found);
              } catch (UnknownTopicOrPartitionException e) {
                throw EosKafkaException.of("EOSKAFKA_NO_SUCH_TOPIC", Map.of("topic", topic), e);
              }
            });
  }

  /**
   * @throws EosKafkaException {@code EOSKAFKA_TOPIC_NOT_REGISTERED}
   */
  void check(ProducerRecord<byte[], byte[]> record) {
    Set<Integer> registered = partitions.get(record.topic());
    if (registered == null) {
      throw notRegistered(record.topic());
    }
    if (record.partition() != null && !registered.contains(record.partition())) {
      throw notRegistered(record.topic() + "-" + record.partition());
    }
  }

  private EosKafkaException notRegistered(String target) {
    return EosKafkaException.of(
        "EOSKAFKA_TOPIC_NOT_REGISTERED",
        Map.of("target", target, "registered", partitions.keySet()));
  }

  /**
   * @throws EosKafkaException {@code EOSKAFKA_GROUP_NOT_REGISTERED}
   */
  void check(String ofGroup) {
    if (!ofGroup.equals(group)) {
      throw EosKafkaException.of(
          "EOSKAFKA_GROUP_NOT_REGISTERED",
          Map.of("group", ofGroup, "registered", group == null ? "none" : group));
    }
  }

  /** The partitions to register. */
  public Collection<TopicPartition> topicPartitions() {
    return partitions.entrySet().stream()
        .flatMap(topic -> topic.getValue().stream().map(p -> new TopicPartition(topic.getKey(), p)))
        .toList();
  }
}
