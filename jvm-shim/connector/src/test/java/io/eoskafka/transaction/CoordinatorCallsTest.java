package io.eoskafka.transaction;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.eoskafka.identity.Fence;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidTxnStateException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.message.OffsetFetchResponseData.OffsetFetchResponseGroup;
import org.apache.kafka.common.message.OffsetFetchResponseData.OffsetFetchResponsePartitions;
import org.apache.kafka.common.message.OffsetFetchResponseData.OffsetFetchResponseTopics;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.FindCoordinatorRequest;
import org.apache.kafka.common.requests.FindCoordinatorResponse;
import org.apache.kafka.common.requests.OffsetFetchRequest;
import org.apache.kafka.common.requests.OffsetFetchResponse;
import org.apache.kafka.common.requests.TxnOffsetCommitResponse;
import org.junit.jupiter.api.Test;

/** Who accepts offsets, when several tasks of a JVM ask coordinators at a time. */
class CoordinatorCallsTest {
  private static final Node ONE = new Node(1, "one", 9092);
  private static final Node TWO = new Node(2, "two", 9092);
  private static final TopicPartition PARTITION = new TopicPartition("t", 0);
  private static final Map<TopicPartition, OffsetAndMetadata> OFFSETS =
      Map.of(PARTITION, new OffsetAndMetadata(7));
  private static final Fence FENCE = new Fence("g", 4, "member", null);
  private static final TransactionRef TRANSACTION = new TransactionRef("id-0", 1, (short) 2, true);

  /** What is looked up and answered next; {@code noNode} if no coordinator is there. */
  private final Deque<Node> coordinators = new ArrayDeque<>(List.of(ONE, TWO));

  private final Deque<Supplier<Errors>> answers = new ArrayDeque<>();

  private final List<Node> asked = new ArrayList<>();
  private Optional<Set<Node>> connected = Optional.empty();
  private final CoordinatorCalls calls = calls(Duration.ofMinutes(1));

  private CoordinatorCalls calls(Duration maxBlock) {
    return new CoordinatorCalls(
        new CoordinatorCalls.Brokers() {
          @Override
          public Node transactionCoordinator(String transactionalId) {
            throw new AssertionError("not asked for");
          }

          @Override
          public List<Node> all() {
            return List.of(ONE);
          }

          @Override
          public AbstractResponse send(Node node, AbstractRequest.Builder<?> request)
              throws IOException {
            if (request instanceof FindCoordinatorRequest.Builder) {
              Node found = coordinators.remove();
              return FindCoordinatorResponse.prepareResponse(
                  found.isEmpty() ? Errors.COORDINATOR_NOT_AVAILABLE : Errors.NONE, "g", found);
            }
            asked.add(node);
            Errors error = answers.remove().get();
            if (error == Errors.NETWORK_EXCEPTION) {
              throw new IOException("no connection to " + node);
            }
            if (request instanceof OffsetFetchRequest.Builder) {
              return fetched(error);
            }
            return new TxnOffsetCommitResponse(0, Map.of(PARTITION, error));
          }

          @Override
          public Optional<Set<Node>> connected() {
            return connected;
          }

          @Override
          public void close() {}
        },
        maxBlock);
  }

  @Test
  void theCoordinatorThatHasAcceptedOffsetsIsNotTheOneThatAnotherTaskHasFoundSince() {
    answers.add(
        () -> {
          // While the answer is on its way, another task of this JVM looks for the coordinator.
          assertThat(calls.addOffsets(TRANSACTION, OFFSETS, FENCE)).contains(TWO);
          return Errors.NONE;
        });
    answers.add(() -> Errors.NOT_COORDINATOR);
    answers.add(() -> Errors.NONE);
    assertThat(calls.addOffsets(TRANSACTION, OFFSETS, FENCE)).contains(ONE);
  }

  @Test
  void aBrokerThatDoesNotAnswerIsNotTheOneThatHasAcceptedThem() {
    answers.add(() -> Errors.NETWORK_EXCEPTION);
    answers.add(() -> Errors.COORDINATOR_LOAD_IN_PROGRESS);
    answers.add(() -> Errors.NONE);
    assertThat(calls.addOffsets(TRANSACTION, OFFSETS, FENCE)).contains(TWO);
  }

  @Test
  void aCoordinatorThatIsNotThereYetIsLookedForAgain() {
    coordinators.addFirst(Node.noNode());
    answers.add(() -> Errors.NONE);
    assertThat(calls.addOffsets(TRANSACTION, OFFSETS, FENCE)).contains(ONE);
    assertThat(asked).containsExactly(ONE);
  }

  @Test
  void nobodyHasAcceptedOffsetsWithAFenceThatIsRefused() {
    answers.add(() -> Errors.ILLEGAL_GENERATION);
    assertThat(calls.addOffsets(TRANSACTION, OFFSETS, FENCE)).isEmpty();
  }

  @Test
  void anyOtherRefusalIsAnError() {
    answers.add(() -> Errors.INVALID_TXN_STATE);
    assertThatThrownBy(() -> calls.addOffsets(TRANSACTION, OFFSETS, FENCE))
        .isInstanceOf(InvalidTxnStateException.class);
  }

  @Test
  void aCoordinatorIsAskedAgainForMaxBlockAtTheLongest() {
    answers.add(() -> Errors.COORDINATOR_LOAD_IN_PROGRESS);
    assertThatThrownBy(() -> calls(Duration.ofMillis(-1)).addOffsets(TRANSACTION, OFFSETS, FENCE))
        .isInstanceOf(TimeoutException.class);
  }

  private static OffsetFetchResponse fetched(Errors error) {
    OffsetFetchResponseGroup group =
        new OffsetFetchResponseGroup().setGroupId("g").setErrorCode(error.code());
    if (error == Errors.NONE) {
      group.setTopics(
          List.of(
              new OffsetFetchResponseTopics()
                  .setName("t")
                  .setPartitions(
                      List.of(
                          new OffsetFetchResponsePartitions()
                              .setPartitionIndex(0)
                              .setCommittedOffset(7)))));
    }
    return new OffsetFetchResponse.Builder(List.of(group)).build((short) 8);
  }

  @Test
  void everyConnectedBrokerIsAskedForOffsets() {
    connected = Optional.of(Set.of(ONE, TWO));
    answers.add(() -> Errors.NONE);
    answers.add(() -> Errors.NOT_COORDINATOR);
    assertThat(calls.fetchEverywhere("g", Set.of(PARTITION)))
        .isEqualTo(
            Map.of(
                asked.get(0),
                Map.of(PARTITION, new CoordinatorCalls.FetchedOffset(Errors.NONE, 7)),
                asked.get(1),
                Map.of(PARTITION, new CoordinatorCalls.FetchedOffset(Errors.NOT_COORDINATOR, -1))));
    assertThat(asked).containsExactlyInAnyOrder(ONE, TWO);
  }

  @Test
  void noneIsAskedForOffsetsIfNotAllOfThemCanBe() {
    assertThat(calls.fetchEverywhere("g", Set.of(PARTITION))).isEmpty();
    assertThat(asked).isEmpty();
  }
}
