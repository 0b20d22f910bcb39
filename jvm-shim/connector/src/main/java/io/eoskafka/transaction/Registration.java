package io.eoskafka.transaction;

import io.eoskafka.config.EosKafkaException;
import java.util.Collection;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * What a transaction may touch ({@code registerTopics}, KIP-609). The guard is here, before
 * anything is sent.
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

  /** What is to be registered. */
  public Collection<TopicPartition> topicPartitions() {
    return partitions.entrySet().stream()
        .flatMap(topic -> topic.getValue().stream().map(p -> new TopicPartition(topic.getKey(), p)))
        .toList();
  }
}
