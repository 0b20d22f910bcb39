package io.eoskafka.wire;

import io.eoskafka.config.ClientSettings;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.requests.MetadataRequest;
import org.apache.kafka.common.requests.MetadataResponse;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The brokers that are connected to the controllers, and what they know.
 *
 * <p>A broker that is cut off from the controllers still answers clients with its old metadata. By
 * default the other brokers no longer list it after nine seconds, and before that the controllers
 * give none of its partitions to another broker. Its own list is outdated and still contains the
 * others. So a broker is surely connected if every broker that answers lists it. The brokers in its
 * own list are connected, too: a broker that has come back is not listed by one that was cut off
 * earlier.
 */
public final class ConnectedBrokers {
  private static final Logger LOG = LoggerFactory.getLogger(ConnectedBrokers.class);

  /** For the connection to one broker, and for its answer. */
  private static final int TIMEOUT_MS = 2_000;

  /** Asks one broker. */
  interface Question {
    MetadataResponse ask(Node broker) throws IOException;
  }

  private ConnectedBrokers() {}

  /**
   * Asks every broker that any of them knows.
   *
   * @param admin of the same cluster
   * @param topics to ask about; null for all
   * @return the answer of each connected broker; empty if one of them does not answer
   */
  public static Optional<Map<Node, MetadataResponse>> of(
      Admin admin, ClientSettings settings, Collection<String> topics) {
    Collection<Node> first = KafkaCalls.get(admin.describeCluster().nodes());
    try (BrokerRequests requests =
        new BrokerRequests(settings, "eoskafka-connected-brokers", TIMEOUT_MS)) {
      return of(
          first,
          broker -> {
            requests.setNodes(List.of(broker));
            return (MetadataResponse)
                requests.ask(
                    broker,
                    topics == null
                        ? MetadataRequest.Builder.allTopics()
                        : new MetadataRequest.Builder(List.copyOf(topics), false));
          });
    }
  }

  /**
   * As the other one.
   *
   * @param first any of them
   */
  static Optional<Map<Node, MetadataResponse>> of(Collection<Node> first, Question question) {
    Map<Integer, Node> brokers = new HashMap<>();
    Map<Node, MetadataResponse> answers = new HashMap<>();
    Deque<Node> left = new ArrayDeque<>(first);
    while (!left.isEmpty()) {
      Node broker = left.remove();
      if (brokers.putIfAbsent(broker.id(), broker) != null) {
        continue;
      }
      try {
        MetadataResponse answer = question.ask(broker);
        answers.put(broker, answer);
        left.addAll(answer.brokers());
      } catch (IOException | AuthenticationException e) {
        LOG.info("Broker {} does not say which brokers it knows: {}", broker, e.toString());
      }
    }
    Set<Integer> core = inEachList(brokers.keySet(), answers.values());
    Set<Integer> connected =
        inEachList(
            brokers.keySet(),
            answers.entrySet().stream()
                .filter(answer -> core.contains(answer.getKey().id()))
                .map(Map.Entry::getValue)
                .toList());
    answers.keySet().removeIf(broker -> !connected.contains(broker.id()));
    return core.isEmpty() || answers.size() < connected.size()
        ? Optional.empty()
        : Optional.of(answers);
  }

  private static Set<Integer> inEachList(
      Set<Integer> brokers, Collection<MetadataResponse> answers) {
    Set<Integer> found = new HashSet<>(brokers);
    answers.forEach(answer -> found.retainAll(answer.brokersById().keySet()));
    return found;
  }
}
