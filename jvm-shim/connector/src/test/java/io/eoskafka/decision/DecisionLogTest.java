package io.eoskafka.decision;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.eoskafka.identity.Identity;
import io.eoskafka.transaction.TransactionRef;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Runs of one owner that claim numbers and decide, against a broker in memory. */
class DecisionLogTest {
  private static final String ID = Identity.digest("owner");
  private static final String DECISION_ID = MemoryBroker.decisionId("p", ID);

  private final MemoryBroker broker = new MemoryBroker();

  private DecisionLog open(String decisionId, boolean isKnown) {
    return DecisionLog.open(
        broker,
        () -> broker.producer(decisionId),
        ID,
        decisionId,
        0,
        isKnown,
        () -> broker.highestRun(ID));
  }

  private DecisionLog start() {
    DecisionLog log = open(DECISION_ID, !broker.keys().isEmpty());
    log.claimRun();
    return log;
  }

  private static Decision decision(DecisionLog by, long epoch) {
    TransactionRef transaction =
        new TransactionRef("p-" + ID + "-w" + by.run() + ".0.0", 1, (short) 0, true);
    return new Decision(
        by.run(),
        epoch,
        epoch - 1,
        new Decision.Plan("before", "of"),
        List.of(
            new WriterOutput(0, transaction, 1, 7, 5, 77),
            WriterOutput.withoutTransaction(1, 0, 0)),
        Map.of());
  }

  private static void decide(DecisionLog log, long epoch) {
    log.decide(decision(log, epoch), () -> {}, producer -> {});
  }

  @Test
  void aStartFencesTheFormerDriverBeforeItReadsAndClaimsItsNumberLast() {
    start();
    assertThat(broker.calls)
        .containsExactly(
            "init",
            "begin",
            "remove fence",
            "flush",
            "commit",
            "read",
            "list runs",
            "begin",
            "send run",
            "commit");
  }

  @Test
  void theFirstRunsNumberIsTheTimeAndAboveWhatBrokersKnow() {
    long before = System.currentTimeMillis();
    assertThat(start().run()).isGreaterThanOrEqualTo(before);
    MemoryBroker other = new MemoryBroker();
    long later = System.currentTimeMillis() + 1_000_000;
    other.prepare("p-" + ID + "-w" + later + ".0.0");
    DecisionLog log =
        DecisionLog.open(
            other,
            () -> other.producer(DECISION_ID),
            ID,
            DECISION_ID,
            0,
            false,
            () -> other.highestRun(ID));
    assertThat(log.run()).isEqualTo(later + 1);
    assertThat(log.isNew()).isTrue();
  }

  @Test
  void eachRunHasTheNextNumberAndFindsTheLastDecision() {
    DecisionLog first = start();
    assertThat(first.last()).isEmpty();
    decide(first, 0);
    decide(first, 1);
    DecisionLog second = start();
    assertThat(second.run()).isEqualTo(first.run() + 1);
    assertThat(second.isNew()).isFalse();
    assertThat(second.last()).contains(decision(first, 1));
  }

  @Test
  void anOwnerThatWasHereBeforeMustHaveAnEntry() {
    assertThatThrownBy(() -> open(DECISION_ID, true))
        .hasMessageContaining("[EOSKAFKA_DECISIONS_GONE]");
  }

  @Test
  void anOwnerHasOneDecisionIdForGood() {
    start();
    assertThatThrownBy(() -> open(MemoryBroker.decisionId("other", ID), true))
        .hasMessageContaining("[EOSKAFKA_DECISION_ID_CHANGED]");
  }

  @Test
  void aFormerDriverCannotDecide() {
    DecisionLog former = start();
    DecisionLog next = start();
    assertThatThrownBy(() -> decide(former, 0)).hasMessageContaining("[EOSKAFKA_DECISION_FENCED]");
    assertThat(former.isUnclear()).isFalse();
    assertThat(start().last()).isEmpty();
    assertThat(next.run()).isEqualTo(former.run() + 1);
  }

  @Test
  void theTimeIsCheckedInTheOpenTransactionAndOffsetsComeAfterIt() {
    DecisionLog log = start();
    broker.restart();
    log.decide(
        decision(log, 0),
        () -> broker.calls.add("check"),
        producer -> producer.sendOffsets(Map.of(), null, null));
    assertThat(broker.calls)
        .containsExactly("begin", "send decision", "flush", "check", "offsets", "commit");
  }

  @Test
  void aDecisionThatWasNotSentIsNotUnclearAndEndsTheRun() {
    DecisionLog log = start();
    RuntimeException late = new IllegalStateException("too late");
    assertThatThrownBy(
            () ->
                log.decide(
                    decision(log, 0),
                    () -> {
                      throw late;
                    },
                    producer -> {}))
        .isSameAs(late);
    assertThat(log.hasFailed()).isTrue();
    assertThat(log.isUnclear()).isFalse();
    assertThatThrownBy(() -> decide(log, 0)).isInstanceOf(IllegalStateException.class);
    assertThat(start().last()).isEmpty();
  }

  @Test
  void aDecisionWhoseCommitHasNoAnswerIsUnclear() {
    DecisionLog log = start();
    broker.crashAt(4, true);
    assertThatThrownBy(() -> decide(log, 0)).hasMessageContaining("[EOSKAFKA_DECISION_UNKNOWN]");
    assertThat(log.isUnclear()).isTrue();
    broker.restart();
    assertThat(start().last()).isPresent();
  }

  @Test
  void aForgottenOwnerLeavesNoEntry() {
    DecisionLog log = start();
    decide(log, 0);
    assertThat(broker.keys()).containsExactlyInAnyOrder("run:" + ID, "decision:" + ID + ":0");
    log.forget();
    assertThat(broker.keys()).isEmpty();
  }
}
