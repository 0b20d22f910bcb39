package io.eoskafka.decision;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.eoskafka.transaction.TransactionRef;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.errors.TimeoutException;
import org.junit.jupiter.api.Test;

/** A decision's transactions are committed, though their coordinators answer late or wrongly. */
class RollForwardTest {
  private static final int TIMEOUT_MS = 60_000;

  private final List<Duration> waits = new ArrayList<>();
  private int deafAnswers;
  private long nowNanos;

  /**
   * The topic hides a presence record while its transaction is open, and coordinators may not know
   * that transaction at first, as a former one does not.
   */
  private final MemoryBroker broker =
      new MemoryBroker() {
        @Override
        public Set<Integer> lost(Collection<WriterOutput> outputs, Duration timeout) {
          waits.add(timeout);
          nowNanos += timeout.toNanos();
          if (outputs.stream().anyMatch(each -> open().contains(id(each)))) {
            throw new TimeoutException("an open transaction hides it");
          }
          return super.lost(outputs, timeout);
        }

        @Override
        public Set<TransactionRef> commit(
            Collection<TransactionRef> wanted,
            Map<TransactionRef, Integer> openAt,
            Duration timeout) {
          return deafAnswers-- > 0 ? Set.copyOf(wanted) : super.commit(wanted, openAt, timeout);
        }
      };

  private final TransactionRef prepared = broker.prepare("eoskafka-q-w1.0.0");

  private static String id(WriterOutput output) {
    return output.transaction().transactionalId();
  }

  private Set<Integer> rollForward() {
    Decision decision =
        new Decision(
            1,
            0,
            -1,
            new Decision.Plan("before", "of"),
            List.of(new WriterOutput(0, prepared, 1, 7, 5, 77)),
            Map.of());
    return new RollForward(broker, broker, () -> nowNanos, TIMEOUT_MS).of(decision, Map.of());
  }

  @Test
  void aCoordinatorThatDidNotKnowAnOpenTransactionIsAskedAgain() {
    deafAnswers = 2;
    assertThat(rollForward()).isEmpty();
    assertThat(broker.committed()).containsExactly(prepared.transactionalId());
    assertThat(waits).containsExactly(seconds(5), seconds(10), seconds(20));
  }

  @Test
  void aTransactionThatWasAbortedIsFoundAtOnce() {
    broker.timeOut(prepared.transactionalId());
    assertThat(rollForward()).containsExactly(0);
    assertThat(waits).containsExactly(seconds(5));
  }

  @Test
  void afterTheTimeoutTheNextStartHasToAsk() {
    deafAnswers = Integer.MAX_VALUE;
    assertThatThrownBy(this::rollForward).hasMessageContaining("[EOSKAFKA_EPOCH_UNSETTLED]");
    assertThat(TimeUnit.NANOSECONDS.toMillis(nowNanos)).isGreaterThan(TIMEOUT_MS);
    assertThat(broker.open()).containsExactly(prepared.transactionalId());
  }

  private static Duration seconds(int count) {
    return Duration.ofSeconds(count);
  }
}
