package io.eoskafka.task;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.transaction.CoordinatorCalls.FetchedOffset;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.Errors;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

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
}
