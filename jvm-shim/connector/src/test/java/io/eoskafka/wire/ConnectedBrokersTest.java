package io.eoskafka.wire;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.MetadataResponseData;
import org.apache.kafka.common.message.MetadataResponseData.MetadataResponseBroker;
import org.apache.kafka.common.message.MetadataResponseData.MetadataResponseTopic;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.MetadataResponse;
import org.junit.jupiter.api.Test;

/** Which brokers are connected to the controllers, and on which topic ids they agree. */
class ConnectedBrokersTest {
  private static final Uuid OLD = Uuid.randomUuid();
  private static final Uuid NEW = Uuid.randomUuid();

  /** By broker, which ones are in its list; a broker without an entry does not answer. */
  private final Map<Integer, Set<Integer>> lists = new HashMap<>();

  /** By broker, the id that it has of the topic. */
  private final Map<Integer, Uuid> ids = new HashMap<>();

  private static Node broker(int id) {
    return new Node(id, "broker" + id, 9092);
  }

  private MetadataResponse answer(Node broker) throws IOException {
    if (!lists.containsKey(broker.id())) {
      throw new IOException("no connection to " + broker);
    }
    MetadataResponseData data = new MetadataResponseData();
    for (int id : lists.get(broker.id())) {
      data.brokers()
          .add(
              new MetadataResponseBroker()
                  .setNodeId(id)
                  .setHost(broker(id).host())
                  .setPort(broker(id).port()));
    }
    Uuid id = ids.get(broker.id());
    data.topics()
        .add(
            new MetadataResponseTopic()
                .setName("t")
                .setErrorCode(
                    id == null ? Errors.UNKNOWN_TOPIC_OR_PARTITION.code() : Errors.NONE.code())
                .setTopicId(id == null ? Uuid.ZERO_UUID : id));
    return new MetadataResponse(data, ApiKeys.METADATA.latestVersion());
  }

  private Optional<Map<Node, MetadataResponse>> answers(Integer... first) {
    return ConnectedBrokers.of(
        List.of(first).stream().map(ConnectedBrokersTest::broker).toList(), this::answer);
  }

  private Set<Integer> connected(Integer... first) {
    return answers(first).orElse(Map.of()).keySet().stream()
        .map(Node::id)
        .collect(Collectors.toSet());
  }

  @Test
  void aBrokerThatTheOthersHaveDroppedIsNot() {
    lists.put(1, Set.of(1, 2, 3));
    lists.put(2, Set.of(2, 3));
    lists.put(3, Set.of(2, 3));
    assertThat(connected(1, 2, 3)).isEqualTo(Set.of(2, 3));
    // Its list has the others in it, so that they are asked as well.
    assertThat(connected(1)).isEqualTo(Set.of(2, 3));
  }

  @Test
  void aBrokerThatOnlyTheOthersKnowIs() {
    lists.put(1, Set.of(1, 2));
    lists.put(2, Set.of(2, 3));
    lists.put(3, Set.of(2, 3));
    // The first does not know the third, which has come back since; the second is in each list.
    assertThat(connected(1)).isEqualTo(Set.of(2, 3));
    lists.put(1, Set.of(1, 2, 3));
    assertThat(connected(1)).isEqualTo(Set.of(2, 3));
  }

  @Test
  void ifOneOfThemDoesNotAnswerNothingIsKnown() {
    lists.put(1, Set.of(1, 2, 3));
    lists.put(2, Set.of(1, 2, 3));
    assertThat(answers(1, 2, 3)).isEmpty();
    // The controllers have noticed that it is down.
    lists.put(1, Set.of(1, 2));
    lists.put(2, Set.of(1, 2));
    assertThat(connected(1, 2, 3)).isEqualTo(Set.of(1, 2));
  }

  @Test
  void norIfEachHasDroppedTheOther() {
    lists.put(1, Set.of(1));
    lists.put(2, Set.of(2));
    assertThat(answers(1, 2)).isEmpty();
  }

  @Test
  void theyAgreeOnAnIdThatAllOfThemName() {
    lists.put(1, Set.of(1, 2, 3));
    lists.put(2, Set.of(2, 3));
    lists.put(3, Set.of(2, 3));
    ids.putAll(Map.of(1, OLD, 2, NEW, 3, NEW));
    assertThat(AgreedTopicIds.agreed(answers(1).orElseThrow().values()))
        .isEqualTo(Map.of("t", NEW.toString()));
  }

  @Test
  void theyDoNotIfOneIsBehindOrDoesNotKnowTheTopic() {
    lists.put(1, Set.of(1, 2));
    lists.put(2, Set.of(1, 2));
    ids.putAll(Map.of(1, OLD, 2, NEW));
    assertThat(AgreedTopicIds.agreed(answers(1).orElseThrow().values())).isEmpty();
    ids.remove(1);
    assertThat(AgreedTopicIds.agreed(answers(1).orElseThrow().values())).isEmpty();
  }

  @Test
  void leadersAreNotComparedWhileBrokersKnowDifferentTopicsOfOneName() {
    for (int broker : List.of(1, 2, 3)) {
      lists.put(broker, Set.of(1, 2, 3));
    }
    ids.putAll(Map.of(1, OLD, 2, NEW));
    assertThat(NewestLeaders.agreeOnIds(answers(1).orElseThrow().values())).isFalse();
    ids.put(1, NEW);
    // The third one does not know the topic yet.
    assertThat(NewestLeaders.agreeOnIds(answers(1).orElseThrow().values())).isTrue();
  }
}
