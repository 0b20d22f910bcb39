package io.eoskafka.task;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.transaction.CoordinatorCalls.FetchedOffset;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.Errors;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** What the coordinator that has accepted the offsets must say of a task's start. */
class StartConfirmationTest {
  private static final TopicPartition ONE = new TopicPartition("t", 0);
  private static final TopicPartition OTHER = new TopicPartition("t", 1);
  private static final FetchedOffset PENDING = new FetchedOffset(Errors.UNSTABLE_OFFSET_COMMIT, -1);

  private final StartConfirmation confirmation = new StartConfirmation("g");
  private FetchedOffset stable = PENDING;
  private FetchedOffset plain = new FetchedOffset(Errors.NONE, 7);
  private int asked;

  @BeforeEach
  void fetched() {
    confirmation.fetched(ONE, 7);
  }

  private void require(Set<TopicPartition> pending) {
    confirmation.require(
        pending,
        "broker:1",
        (partitions, requireStable) -> {
          asked++;
          Map<TopicPartition, FetchedOffset> answer = new HashMap<>();
          partitions.forEach(partition -> answer.put(partition, requireStable ? stable : plain));
          return answer;
        });
  }

  private void assertRefused() {
    assertThatThrownBy(() -> require(Set.of(ONE)))
        .isInstanceOfSatisfying(
            EosKafkaException.class,
            e -> assertThat(e.condition()).isEqualTo("EOSKAFKA_START_NOT_CONFIRMED"));
  }

  @Test
  void aStartThatTheCoordinatorStillHasIsConfirmed() {
    assertThatCode(() -> require(Set.of(ONE))).doesNotThrowAnyException();
  }

  @Test
  void anOffsetThatHasMovedSinceIsNot() {
    plain = new FetchedOffset(Errors.NONE, 9);
    assertRefused();
  }

  @Test
  void aBrokerThatHasNothingPendingHasNotAcceptedTheOffsets() {
    stable = new FetchedOffset(Errors.NONE, 7);
    assertRefused();
  }

  @Test
  void norDoesABrokerCountThatIsNotTheCoordinatorAnyMore() {
    stable = new FetchedOffset(Errors.NOT_COORDINATOR, -1);
    assertRefused();
    stable = PENDING;
    plain = new FetchedOffset(Errors.NOT_COORDINATOR, -1);
    assertRefused();
  }

  @Test
  void aStartIsAskedAboutOnce() {
    require(Set.of(ONE));
    plain = new FetchedOffset(Errors.NONE, 9);
    require(Set.of(ONE));
    assertThat(asked).isEqualTo(2);
  }

  @Test
  void whatTheProducerHasCommittedItselfIsNotAskedAbout() {
    require(Set.of(OTHER));
    assertThat(asked).isZero();
  }

  @Test
  void aStartIsAskedAboutWhenItsOffsetIsPending() {
    require(Set.of(OTHER));
    plain = new FetchedOffset(Errors.NONE, 9);
    assertRefused();
  }

  @Test
  void aStartThatNobodyWasAskedAboutIsCarriedOverToTheNextAttempt() {
    StartConfirmation next = new StartConfirmation("g");
    next.carriedOver(confirmation.unconfirmed());
    assertThat(next.unconfirmed()).isEqualTo(Map.of(ONE, 7L));
    require(Set.of(ONE));
    assertThat(confirmation.unconfirmed()).isEmpty();
  }

  @Test
  void aProducerWithoutOffsetsHasNoCoordinatorAndNeedsNone() {
    assertThatCode(() -> confirmation.require(null, Set.of(), null)).doesNotThrowAnyException();
    assertThatCode(() -> confirmation.require(null, Set.of(OTHER), null))
        .doesNotThrowAnyException();
  }

  private static Map<Node, Map<TopicPartition, FetchedOffset>> answers(FetchedOffset... found) {
    Map<Node, Map<TopicPartition, FetchedOffset>> answers = new HashMap<>();
    for (int id = 0; id < found.length; id++) {
      answers.put(new Node(id, "broker" + id, 9092), Map.of(ONE, found[id]));
    }
    return answers;
  }

  private static FetchedOffset at(long offset) {
    return new FetchedOffset(Errors.NONE, offset);
  }

  private static FetchedOffset failed(Errors error) {
    return new FetchedOffset(error, -1);
  }

  @SafeVarargs
  private static void requireCommitted(Map<Node, Map<TopicPartition, FetchedOffset>>... answers) {
    Deque<Map<Node, Map<TopicPartition, FetchedOffset>>> next = new ArrayDeque<>(List.of(answers));
    new StartConfirmation("g", Duration.ofMillis(answers.length > 1 ? 60_000 : 0))
        .requireCommitted(
            Map.of(ONE, 9L), asked -> next.size() > 1 ? next.remove() : next.element());
  }

  @Test
  void aRangeIsCommittedIfTheOnlyCoordinatorSaysSo() {
    assertThatCode(() -> requireCommitted(answers(at(9), failed(Errors.NOT_COORDINATOR), at(10))))
        .doesNotThrowAnyException();
  }

  /** One is a former coordinator, from before the offset was moved back. */
  @Test
  void itIsNotIfAnotherBrokerHasAnEarlierOffset() {
    assertThatThrownBy(() -> requireCommitted(answers(at(9), at(5))))
        .hasMessageContaining("[EOSKAFKA_COMMIT_NOT_CONFIRMED]")
        .hasMessageContaining("broker1:9092 (id: 1 rack: null isFenced: false)=5");
  }

  @ParameterizedTest
  @EnumSource(
      names = {"NETWORK_EXCEPTION", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE"})
  void norIfABrokerThatMayBeTheCoordinatorDoesNotSay(Errors error) {
    assertThatThrownBy(() -> requireCommitted(answers(at(9), failed(error))))
        .hasMessageContaining("[EOSKAFKA_COMMIT_NOT_CONFIRMED]");
  }

  @Test
  void norIfNobodyIsTheCoordinator() {
    assertThatThrownBy(() -> requireCommitted(answers(failed(Errors.NOT_COORDINATOR))))
        .hasMessageContaining("[EOSKAFKA_COMMIT_NOT_CONFIRMED]");
    assertThatThrownBy(() -> requireCommitted(answers()))
        .hasMessageContaining("[EOSKAFKA_COMMIT_NOT_CONFIRMED]")
        .hasMessageContaining("not all brokers can be asked");
  }

  @Test
  void brokersThatContradictEachOtherAreAskedAgain() {
    assertThatCode(() -> requireCommitted(answers(at(9), at(5)), answers(), answers(at(9))))
        .doesNotThrowAnyException();
  }

  @Test
  void aRangeThatIsReadIsNotAskedAbout() {
    new StartConfirmation("g")
        .requireCommitted(
            Map.of(),
            asked -> {
              throw new AssertionError("asked");
            });
  }
}
