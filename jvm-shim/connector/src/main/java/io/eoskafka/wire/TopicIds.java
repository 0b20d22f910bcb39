package io.eoskafka.wire;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.config.EosKafkaException;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** Which topic-partitions a cluster has, each with its topic's id. */
public final class TopicIds {
  private TopicIds() {}

  /**
   * All partitions of these topics, as far as the topics exist.
   *
   * @throws EosKafkaException {@code EOSKAFKA_NOT_AUTHORIZED}, {@code EOSKAFKA_UNREACHABLE}
   */
  public static Map<TopicPartition, String> present(
      Admin admin, Collection<String> topics, ClientSettings client) {
    return present(admin, topics, client, new DescribeTopicsOptions());
  }

  /** The same for a caller that does not wait as long as the client does. */
  public static Map<TopicPartition, String> present(
      Admin admin,
      Collection<String> topics,
      ClientSettings client,
      DescribeTopicsOptions options) {
    Map<TopicPartition, String> found = new HashMap<>();
    admin
        .describeTopics(topics, options)
        .topicNameValues()
        .forEach(
            (topic, answer) -> {
              try {
                TopicDescription description = KafkaCalls.reach(answer, client, "Read", topic);
                description
                    .partitions()
                    .forEach(
                        p ->
                            found.put(
                                new TopicPartition(topic, p.partition()),
                                description.topicId().toString()));
              } catch (UnknownTopicOrPartitionException e) {
                // Left out.
              }
            });
    return found;
  }
}
