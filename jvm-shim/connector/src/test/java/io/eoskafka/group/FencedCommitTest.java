package io.eoskafka.group;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.identity.Fence;
import io.eoskafka.wire.BrokerRequests;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupAuthorizationException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.FindCoordinatorRequest;
import org.apache.kafka.common.requests.FindCoordinatorResponse;
import org.apache.kafka.common.requests.OffsetCommitRequest;
import org.apache.kafka.common.requests.OffsetCommitResponse;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Who is asked to commit, and what the answers mean. */
class FencedCommitTest {
  private static final Node BROKER = new Node(1, "one", 9092);
  private static final Node COORDINATOR = new Node(2, "two", 9092);
  private static final TopicPartition PARTITION = new TopicPartition("t", 0);
  private static final Map<TopicPartition, OffsetAndMetadata> OFFSETS =
      Map.of(PARTITION, new OffsetAndMetadata(7));
  private static final Fence FENCE = new Fence("g", 3, "member", null);

  /** None: the connection breaks. */
  private final Deque<Errors> found = new ArrayDeque<>();

  private final Deque<Errors> committed = new ArrayDeque<>();
  private final List<Node> asked = new ArrayList<>();

  private final FencedCommit commit =
      new FencedCommit(
          () -> List.of(BROKER),
          () ->
              new FencedCommit.Requests() {
                @Override
                public AbstractResponse ask(Node broker, AbstractRequest.Builder<?> request)
                    throws IOException {
                  asked.add(broker);
                  return answer(request);
                }

                @Override
                public AbstractResponse commit(
                    Node coordinator, OffsetCommitRequest.Builder request) throws IOException {
                  asked.add(coordinator);
                  return answer(request);
                }

                @Override
                public void close() {}
              });

  private AbstractResponse answer(AbstractRequest.Builder<?> request) throws IOException {
    if (request instanceof FindCoordinatorRequest.Builder find) {
      assertThat(find.data().coordinatorKeys()).containsExactly("g");
      Errors error = found.isEmpty() ? Errors.NETWORK_EXCEPTION : found.remove();
      if (error == Errors.NETWORK_EXCEPTION) {
        throw new IOException();
      }
      return FindCoordinatorResponse.prepareResponse(
          error, "g", error == Errors.NONE ? COORDINATOR : Node.noNode());
    }
    assertThat(request).isInstanceOf(OffsetCommitRequest.Builder.class);
    Errors error = committed.remove();
    if (error == Errors.NETWORK_EXCEPTION) {
      throw new BrokerRequests.UnansweredException("the connection broke");
    }
    if (error == Errors.BROKER_NOT_AVAILABLE) {
      throw new IOException("no connection");
    }
    return new OffsetCommitResponse(0, Map.of(PARTITION, error));
  }

  private void commit() {
    commit.commit(OFFSETS, FENCE);
  }

  @Test
  void theCoordinatorThatAnyBrokerNamesIsAsked() {
    found.add(Errors.NONE);
    committed.add(Errors.NONE);
    commit();
    assertThat(asked).containsExactly(BROKER, COORDINATOR);
  }

  @Test
  void aCoordinatorThatIsNotThereYetIsLookedForAgain() {
    found.addAll(
        List.of(
            Errors.COORDINATOR_NOT_AVAILABLE, Errors.NETWORK_EXCEPTION, Errors.NONE, Errors.NONE));
    committed.addAll(List.of(Errors.NOT_COORDINATOR, Errors.NONE));
    commit();
    assertThat(asked).endsWith(BROKER, COORDINATOR, BROKER, COORDINATOR).hasSize(6);
  }

  @ParameterizedTest
  @EnumSource(
      value = Errors.class,
      names = {
        "ILLEGAL_GENERATION",
        "STALE_MEMBER_EPOCH",
        "FENCED_MEMBER_EPOCH",
        "UNKNOWN_MEMBER_ID",
        "REBALANCE_IN_PROGRESS",
        "GROUP_ID_NOT_FOUND"
      })
  void aMemberThatTheGroupDoesNotHaveAnyMoreIsFenced(Errors refusal) {
    found.add(Errors.NONE);
    committed.add(refusal);
    assertThatThrownBy(this::commit).isInstanceOf(CommitFailedException.class);
  }

  @Test
  void aCommitWithoutAnAnswerIsNotSentAgain() {
    found.addAll(List.of(Errors.NONE, Errors.NONE));
    committed.addAll(List.of(Errors.NETWORK_EXCEPTION, Errors.NONE));
    assertThatThrownBy(this::commit)
        .isInstanceOf(EosKafkaException.class)
        .hasMessageContaining("[EOSKAFKA_COMMIT_UNANSWERED]")
        .hasMessageContaining("'g'")
        .hasMessageContaining("two:9092");
    assertThat(asked).containsExactly(BROKER, COORDINATOR);
  }

  @Test
  void aCommitThatWasAnsweredOrNeverSentIsSentAgain() {
    found.addAll(List.of(Errors.NETWORK_EXCEPTION, Errors.NONE, Errors.NONE, Errors.NONE));
    committed.addAll(
        List.of(Errors.BROKER_NOT_AVAILABLE, Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.NONE));
    commit();
    assertThat(committed).isEmpty();
  }

  @Test
  void theCoordinatorThatHasAcceptedACommitIsAskedAgainUntilItRefuses() {
    found.addAll(List.of(Errors.NONE, Errors.NONE));
    committed.addAll(List.of(Errors.NONE, Errors.NONE, Errors.NOT_COORDINATOR, Errors.NONE));
    commit();
    commit();
    assertThat(asked).containsExactly(BROKER, COORDINATOR, COORDINATOR);
    commit();
    assertThat(asked).endsWith(COORDINATOR, BROKER, COORDINATOR).hasSize(6);
  }

  @Test
  void aRightThatIsMissingIsNamed() {
    found.addAll(List.of(Errors.NONE, Errors.NONE));
    committed.addAll(List.of(Errors.TOPIC_AUTHORIZATION_FAILED, Errors.GROUP_AUTHORIZATION_FAILED));
    assertThatThrownBy(this::commit)
        .isInstanceOfSatisfying(
            TopicAuthorizationException.class,
            refused -> assertThat(refused.unauthorizedTopics()).containsExactly("t"));
    assertThatThrownBy(this::commit)
        .isInstanceOfSatisfying(
            GroupAuthorizationException.class,
            refused -> assertThat(refused.groupId()).isEqualTo("g"));
  }

  @Test
  void aGroupThatTheUserMayNotUseIsNotAskedForAgain() {
    found.add(Errors.GROUP_AUTHORIZATION_FAILED);
    assertThatThrownBy(this::commit).isInstanceOf(GroupAuthorizationException.class);
    assertThat(asked).containsExactly(BROKER);
  }
}
