package io.eoskafka.wire;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.FindCoordinatorRequest;
import org.apache.kafka.common.requests.FindCoordinatorResponse;
import org.junit.jupiter.api.Test;

class GroupCoordinatorTest {
  private static final Node ONE = new Node(1, "one", 9092);
  private static final Node TWO = new Node(2, "two", 9092);

  private final Set<Node> asked = new HashSet<>();

  private GroupCoordinator find(Errors error, Node coordinator) throws IOException {
    return GroupCoordinator.find(
        List.of(ONE, TWO), "g", (broker, request) -> answer(broker, request, error, coordinator));
  }

  private AbstractResponse answer(
      Node broker, AbstractRequest.Builder<?> request, Errors error, Node coordinator) {
    asked.add(broker);
    FindCoordinatorRequest.Builder find = (FindCoordinatorRequest.Builder) request;
    assertThat(find.data().keyType()).isEqualTo(FindCoordinatorRequest.CoordinatorType.GROUP.id());
    return FindCoordinatorResponse.prepareResponse(error, "g", coordinator);
  }

  @Test
  void itIsTheBrokerThatAnyOtherNames() throws IOException {
    assertThat(find(Errors.NONE, TWO)).isEqualTo(new GroupCoordinator(Errors.NONE, TWO));
    assertThat(asked).hasSize(1).isSubsetOf(ONE, TWO);
  }

  @Test
  void aBrokerThatGivesNoAnswerIsNotTheOnlyOneThatIsAsked() throws IOException {
    // With probability 2^-99 one of them is never asked.
    for (int i = 0; i < 100; i++) {
      find(Errors.NONE, TWO);
    }
    assertThat(asked).containsExactlyInAnyOrder(ONE, TWO);
  }

  @Test
  void aRefusalIsHandedOn() throws IOException {
    assertThat(find(Errors.COORDINATOR_NOT_AVAILABLE, Node.noNode()).error())
        .isEqualTo(Errors.COORDINATOR_NOT_AVAILABLE);
  }

  @Test
  void withoutBrokersNobodyIsAsked() {
    assertThatThrownBy(
            () ->
                GroupCoordinator.find(
                    List.of(), "g", (broker, request) -> answer(broker, request, null, null)))
        .isInstanceOf(IOException.class);
    assertThat(asked).isEmpty();
  }
}
