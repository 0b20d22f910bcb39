package io.eoskafka.task;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.identity.Fence;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.TimeoutException;
import org.junit.jupiter.api.Test;

/** What an attempt of a shared group makes of a refusal, by what its driver says. */
class LeasedFenceTest {
  private static final Fence FENCE = new Fence("g", 4, "member", null);
  private static final EosKafkaException FENCED =
      EosKafkaException.of(
          "EOSKAFKA_ATTEMPT_FENCED", Map.of("transactionalId", "id-0", "timeout", 60_000));

  private static EosKafkaException refusal(RuntimeException cause) {
    return EosKafkaException.of(
        "EOSKAFKA_FENCED_BY_GROUP",
        Map.of(
            "group",
            "g",
            "instance",
            "none",
            "member",
            "member",
            "generation",
            4,
            "owner",
            "other"),
        cause);
  }

  /** A driver that owns its partitions until it is asked for the n-th time. */
  private static final class Driver implements LeasedFence.Driver {
    final List<String> asked = new ArrayList<>();
    final int staysFor;

    Driver(int staysFor) {
      this.staysFor = staysFor;
    }

    private boolean stays(String question) {
      asked.add(question);
      return asked.size() <= staysFor;
    }

    @Override
    public boolean isOwned() {
      return stays("owned");
    }

    @Override
    public boolean hasMoved() {
      return !stays("moved");
    }

    @Override
    public Optional<Fence> lease() {
      return stays("lease") ? Optional.of(FENCE) : Optional.empty();
    }

    @Override
    public void ended() {
      asked.add("ended");
    }
  }

  private static LeasedFence fence(Driver driver) {
    return new LeasedFence(null, driver, Duration.ofMillis(50), Duration.ofMillis(50));
  }

  @Test
  void soIsAnAttemptWhoseOffsetsAreNotPendingAnyMore() {
    EosKafkaException unconfirmed =
        EosKafkaException.of(
            "EOSKAFKA_START_NOT_CONFIRMED",
            Map.of(
                "group", "g",
                "partition", "t-0",
                "start", 1,
                "broker", "b",
                "stable", "1",
                "found", "1"));
    assertThat(fence(new Driver(2)).isLost(unconfirmed)).isTrue();
  }

  @Test
  void aFencedProducerIsLostOnceItsDriverHasHeardOfTheLoss() {
    Driver driver = new Driver(2);
    assertThat(fence(driver).isLost(FENCED)).isTrue();
    assertThat(driver.asked).containsExactly("moved", "moved", "moved");
  }

  @Test
  void aFencedProducerWhosePartitionsStayHasFailed() {
    assertThat(fence(new Driver(Integer.MAX_VALUE)).isLost(FENCED)).isFalse();
  }

  @Test
  void anyOtherErrorIsNoLossAndNothingIsAsked() {
    Driver driver = new Driver(0);
    assertThat(fence(driver).isLost(refusal(null))).isFalse();
    assertThat(driver.asked).isEmpty();
  }

  @Test
  void aRefusalWithoutANewGenerationFailsTheAttempt() {
    EosKafkaException late = refusal(new TimeoutException("x"));
    assertThatThrownBy(() -> fence(new Driver(0)).commitRefused(null, Map.of(), FENCE, late, null))
        .isSameAs(late);
    // Another driver has taken the instance id, and this one has not lost its partitions.
    EosKafkaException taken = refusal(new FencedInstanceIdException("x"));
    assertThatThrownBy(() -> fence(new Driver(9)).commitRefused(null, Map.of(), FENCE, taken, null))
        .isSameAs(taken);
  }

  @Test
  void aRefusalIsALossIfThePartitionsHaveMoved() {
    EosKafkaException moving = refusal(new CommitFailedException());
    assertThat(fence(new Driver(0)).commitRefused(null, Map.of(), FENCE, moving, null)).isFalse();
    EosKafkaException taken = refusal(new FencedInstanceIdException("x"));
    assertThat(fence(new Driver(0)).commitRefused(null, Map.of(), FENCE, taken, null)).isFalse();
  }

  @Test
  void theRefusedFenceIsNotSentAgain() {
    Driver driver = new Driver(Integer.MAX_VALUE);
    EosKafkaException moving = refusal(new CommitFailedException());
    // No producer: it would be asked for with another fence alone.
    assertThat(fence(driver).commitRefused(null, Map.of(), FENCE, moving, null)).isFalse();
    assertThat(driver.asked).isNotEmpty().containsOnly("lease");
  }
}
