package io.eoskafka.wire;

import io.eoskafka.config.ClientSettings;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.MetadataResponse;

/**
 * The ids of topics on which all connected brokers agree. A broker with stale metadata keeps
 * reporting the id that a topic had before it was created again.
 */
public final class AgreedTopicIds {
  private AgreedTopicIds() {}

  /**
   * Asks each broker.
   *
   * @return the ids of those topics for which all {@link ConnectedBrokers} report the same id;
   *     empty if one of these brokers does not answer
   */
  public static Map<String, String> of(
      Admin admin, ClientSettings settings, Collection<String> topics) {
    return ConnectedBrokers.of(admin, settings, topics)
        .map(answers -> agreed(answers.values()))
        .orElse(Map.of());
  }

  static Map<String, String> agreed(Collection<MetadataResponse> answers) {
    Map<String, String> agreed = null;
    for (MetadataResponse answer : answers) {
      Map<String, String> named = new HashMap<>();
      answer.topicMetadata().stream()
          .filter(topic -> topic.error() == Errors.NONE)
          .forEach(topic -> named.put(topic.topic(), topic.topicId().toString()));
      if (agreed == null) {
        agreed = named;
      }
      agreed.entrySet().retainAll(named.entrySet());
    }
    return agreed == null ? Map.of() : agreed;
  }
}
