package io.eoskafka.source;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.task.SlotCommit;
import io.eoskafka.task.SlotRange;
import io.eoskafka.task.SlotWork;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What a driver makes of its tasks' reports. */
class TaskScopeLedgerTest {
  private static final TopicPartition PARTITION = new TopicPartition("t", 0);
  private static final int SLOT = 3;

  private static SlotWork upTo(long end) {
    return new SlotWork(SLOT, List.of(new SlotRange("t", 0, 5, 5, end, "id")), null);
  }

  private static SlotCommit committed(Map<TopicPartition, Long> offsets, boolean endedEarly) {
    return new SlotCommit("producers", SLOT, "jvm", "1", "host", offsets, endedEarly, 40);
  }

  private static Map<TopicPartition, Long> record(
      TaskScopeLedger ledger, long end, SlotCommit commit) {
    return ledger.record(7, List.of(upTo(end)), commit == null ? Map.of() : Map.of(SLOT, commit));
  }

  @Test
  void aTaskThatHasReadItsRangeLeavesNothing() {
    TaskScopeLedger ledger = new TaskScopeLedger(new ExclusiveGroup());
    SlotCommit commit = committed(Map.of(PARTITION, 9L), false);
    assertThat(record(ledger, 9, commit)).isEqualTo(Map.of(PARTITION, 9L));
    assertThat(ledger.hasLeft()).isFalse();
    assertThat(ledger.owner(SLOT)).isEqualTo(commit);
    assertThat(ledger.stableWaitMs()).isEqualTo(40);
  }

  /** An offset of 0 stands for a report without the partition, and -1 for no report at all. */
  @ParameterizedTest
  @ValueSource(longs = {8, 0, -1})
  void aRangeThatIsNotCommittedToItsEndFailsTheBatch(long offset) {
    TaskScopeLedger ledger = new TaskScopeLedger(new ExclusiveGroup());
    SlotCommit commit =
        offset < 0 ? null : committed(offset == 0 ? Map.of() : Map.of(PARTITION, offset), false);
    assertThatThrownBy(() -> record(ledger, 9, commit))
        .isInstanceOf(EosKafkaException.class)
        .hasMessageContaining("[EOSKAFKA_COMMIT_GAP]")
        .hasMessageContaining("t-0");
    assertThat(ledger.owner(SLOT)).isNull();
  }

  /** A late attempt of the task would find it not committed. */
  @Test
  void whatATaskHadCommittedBeforeItsLogWasCutCountsAsLeft() {
    TaskScopeLedger ledger = new TaskScopeLedger(new ExclusiveGroup());
    ledger.planned(Map.of(PARTITION, SLOT));
    record(ledger, 9, committed(Map.of(PARTITION, 9L), false));
    ledger.movedBack(Map.of(PARTITION, 7L));
    assertThat(ledger.hasLeft()).isTrue();
    record(ledger, 8, committed(Map.of(PARTITION, 8L), false));
    assertThat(ledger.hasLeft()).isTrue();
    record(ledger, 9, committed(Map.of(PARTITION, 9L), false));
    assertThat(ledger.hasLeft()).isFalse();
  }

  /** The partition may be in one slot only, and a late attempt of the other one would write. */
  @Test
  void aLogThatWasCutBelowWhatAnotherSlotHadStopsTheQuery() {
    TaskScopeLedger ledger = new TaskScopeLedger(new ExclusiveGroup());
    ledger.planned(Map.of(PARTITION, SLOT));
    record(ledger, 9, committed(Map.of(PARTITION, 9L), false));
    // A batch in epoch scope, say, which reports nothing.
    ledger.planned(Map.of(PARTITION, SLOT + 1));
    ledger.movedBack(Map.of(PARTITION, 9L));
    assertThat(ledger.hasLeft()).isFalse();
    assertThatThrownBy(() -> ledger.movedBack(Map.of(PARTITION, 7L)))
        .hasMessageContaining("[EOSKAFKA_LOG_TRUNCATED]")
        .hasMessageContaining("t-0");
  }

  /** It may read up to there, however early it has ended. */
  @Test
  void soDoesOneThatWasCutBelowWhatAnotherSlotWasToRead() {
    TaskScopeLedger ledger = new TaskScopeLedger(new ExclusiveGroup());
    ledger.planned(Map.of(PARTITION, SLOT));
    record(ledger, 20, committed(Map.of(PARTITION, 9L), true));
    ledger.planned(Map.of(PARTITION, SLOT + 1));
    assertThatThrownBy(() -> ledger.movedBack(Map.of(PARTITION, 15L)))
        .hasMessageContaining("[EOSKAFKA_LOG_TRUNCATED]");
  }

  /** The first of them that has records names the transactional id, and may be another one next. */
  @Test
  void soDoesOneThatWasCutBelowWhatATaskWithSeveralSlotsHad() {
    TaskScopeLedger ledger = new TaskScopeLedger(new ExclusiveGroup());
    ledger.planned(Map.of(PARTITION, SLOT));
    ledger.slotsAreTogether();
    record(ledger, 9, committed(Map.of(PARTITION, 9L), false));
    ledger.movedBack(Map.of(PARTITION, 9L));
    assertThatThrownBy(() -> ledger.movedBack(Map.of(PARTITION, 7L)))
        .hasMessageContaining("[EOSKAFKA_LOG_TRUNCATED]");
  }

  @Test
  void inASharedGroupAnAttemptOfAnEarlierBatchGetsNoFence() {
    TaskScopeLedger ledger = new TaskScopeLedger(new SharedGroup());
    ledger.planned(Map.of(PARTITION, SLOT));
    record(ledger, 9, committed(Map.of(PARTITION, 9L), false));
    ledger.planned(Map.of(PARTITION, SLOT + 1));
    ledger.movedBack(Map.of(PARTITION, 7L));
    assertThat(ledger.hasLeft()).isTrue();
  }

  /** Of a batch in epoch scope no task commits late. */
  @Test
  void whatNoTaskHadCommittedDoesNotCountAsLeft() {
    TaskScopeLedger ledger = new TaskScopeLedger(new ExclusiveGroup());
    ledger.movedBack(Map.of(PARTITION, 7L));
    assertThat(ledger.hasLeft()).isFalse();
  }

  @Test
  void whatATaskHasLeftIsKnownUntilALaterOneHasReadIt() {
    TaskScopeLedger ledger = new TaskScopeLedger(new ExclusiveGroup());
    assertThat(record(ledger, 20, committed(Map.of(PARTITION, 9L), true)))
        .isEqualTo(Map.of(PARTITION, 9L));
    assertThatThrownBy(() -> ledger.requireNothingLeft(8, "it keeps state"))
        .hasMessageContaining("[EOSKAFKA_SCOPE_NEEDS_RESTART]")
        .hasMessageContaining("it keeps state");
    // The next batch is planned to less than what is left.
    record(ledger, 15, committed(Map.of(PARTITION, 15L), false));
    assertThat(ledger.hasLeft()).isTrue();
    record(ledger, 20, committed(Map.of(PARTITION, 20L), false));
    assertThat(ledger.hasLeft()).isFalse();
    ledger.requireNothingLeft(9, "it keeps state");
  }

  @Test
  void anOpenRangeHasNoPlannedEnd() {
    TaskScopeLedger ledger = new TaskScopeLedger(new ExclusiveGroup());
    assertThat(record(ledger, SlotRange.OPEN, committed(Map.of(PARTITION, 9L), false)))
        .isEqualTo(Map.of(PARTITION, 9L));
    assertThat(ledger.hasLeft()).isFalse();
  }

  @Test
  void aTaskOfASharedGroupWhosePartitionsHaveMovedHasCommittedNothing() {
    TaskScopeLedger ledger = new TaskScopeLedger(new SharedGroup());
    record(ledger, 9, committed(Map.of(PARTITION, 9L), false));
    assertThat(record(ledger, 12, committed(Map.of(), false))).isEmpty();
    assertThat(ledger.owner(SLOT)).isNull();
    assertThatThrownBy(() -> record(ledger, 12, null))
        .hasMessageContaining("[EOSKAFKA_COMMIT_GAP]");
  }

  @Test
  void fencedProducersHaveNoOwner() {
    TaskScopeLedger ledger = new TaskScopeLedger(new ExclusiveGroup());
    record(ledger, 9, committed(Map.of(PARTITION, 9L), false));
    ledger.forgetOwners(List.of(SLOT + 1));
    assertThat(ledger.owner(SLOT)).isNotNull();
    ledger.forgetOwners(List.of(SLOT));
    assertThat(ledger.owner(SLOT)).isNull();
  }
}
