package io.eoskafka.source;

import static org.assertj.core.api.Assertions.assertThat;

import io.eoskafka.task.SlotCommit;
import io.eoskafka.task.SlotRange;
import io.eoskafka.task.SlotWork;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** How far the next batch reads, with a group and a cluster that answer from memory. */
class BatchEndTest {
  private static final TopicPartition A = new TopicPartition("t", 0);
  private static final TopicPartition B = new TopicPartition("t", 1);
  private static final ReadLimit ALL = ReadLimit.allAvailable();

  /** What the group has of the partitions that this driver owns. */
  private final Map<TopicPartition, Long> reached = new HashMap<>(Map.of(A, 5L));

  /** How far the logs can be read. */
  private final Map<TopicPartition, Long> logs = new HashMap<>(Map.of(A, 9L));

  /** What happens while the cluster is asked, one for each time. */
  private final Deque<Runnable> meanwhile = new ArrayDeque<>();

  private final List<Map<TopicPartition, Long>> sourceOnly = new ArrayList<>();
  private final List<Set<TopicPartition>> suspects = new ArrayList<>();
  private final Map<TopicPartition, Long> movedBack = new HashMap<>();
  private final List<Boolean> discovers = new ArrayList<>();
  private boolean isHandedOver;
  private boolean isSettled;
  private boolean sinkIsOurs = true;
  private boolean hasRestarts;
  private boolean othersAreDone;
  private boolean isStopped;
  private long now = 1;

  private final BatchEnd.Group group =
      new BatchEnd.Group() {
        @Override
        public boolean isHandedOver() {
          return isHandedOver;
        }

        @Override
        public void commitSourceOnly(Map<TopicPartition, Long> ends) {
          sourceOnly.add(ends);
        }

        @Override
        public Map<TopicPartition, Long> refresh(PartitionOffsets sparkStart, boolean discover) {
          discovers.add(discover);
          return reached;
        }

        @Override
        public Map<TopicPartition, Long> refuseTruncated(Set<TopicPartition> behind) {
          suspects.add(behind);
          return movedBack;
        }

        @Override
        public boolean takeProducersFenced() {
          return isSettled;
        }

        @Override
        public boolean sinkIsOurs() {
          return sinkIsOurs;
        }

        @Override
        public boolean hasRestarts() {
          return hasRestarts;
        }

        @Override
        public boolean hasReached(Map<TopicPartition, Long> ends) {
          return othersAreDone;
        }

        @Override
        public Set<TopicPartition> partitions() {
          return Set.copyOf(logs.keySet());
        }
      };

  private final TaskScopeLedger ledger = new TaskScopeLedger(new ExclusiveGroup());

  private BatchEnd batchEnd(GroupSharing sharing) {
    return new BatchEnd(
        sharing,
        group,
        () -> Set.copyOf(logs.keySet()),
        asked -> {
          Optional.ofNullable(meanwhile.poll()).ifPresent(Runnable::run);
          Map<TopicPartition, Long> found = new HashMap<>(logs);
          found.keySet().retainAll(asked);
          return found;
        },
        ledger,
        () -> isStopped = true,
        () -> now);
  }

  private final BatchEnd alone = batchEnd(new ExclusiveGroup());

  private static PartitionOffsets at(Map<TopicPartition, Long> offsets) {
    return PartitionOffsets.of(offsets).ours();
  }

  private static Map<TopicPartition, Long> next(
      BatchEnd of, PartitionOffsets start, ReadLimit limit, boolean isAvailableNow) {
    return of.next(start, limit, isAvailableNow).orElseThrow().offsets();
  }

  /** How far partition A is read whose group has 5 and whose log ends at 9. */
  record Limit(ReadLimit limit, long end) {}

  static List<Limit> limits() {
    return List.of(
        new Limit(ALL, 9),
        new Limit(ReadLimit.maxRows(3), 8),
        new Limit(ReadLimit.maxRows(100), 9),
        new Limit(new RateLimit.PerPartition(3), 8),
        new Limit(ReadLimit.minRows(100, 1_000), 9),
        new Limit(
            ReadLimit.compositeLimit(
                new ReadLimit[] {new RateLimit.PerPartition(1), ReadLimit.maxRows(3)}),
            6),
        new Limit(
            ReadLimit.compositeLimit(
                new ReadLimit[] {ReadLimit.minRows(2, 1_000), ReadLimit.maxRows(1)}),
            6));
  }

  @ParameterizedTest
  @MethodSource("limits")
  void theFirstBatchReadsWhatIsThereWithinItsLimit(Limit expected) {
    PartitionOffsets end = alone.next(at(Map.of(A, 5L)), expected.limit(), false).orElseThrow();
    assertThat(end.offsets()).isEqualTo(Map.of(A, expected.end()));
    assertThat(end.isOurs()).isTrue();
    assertThat(alone.latest()).isEqualTo(Map.of(A, 9L));
  }

  @Test
  void withoutNewRecordsThereIsNoBatch() {
    logs.put(A, 5L);
    PartitionOffsets start = at(Map.of(A, 5L));
    assertThat(alone.next(start, ALL, false)).containsSame(start);
    assertThat(discovers).containsExactly(false);
  }

  @Test
  void aNewTopicThatEndsWhereTheFormerOneDidIsRead() {
    sinkIsOurs = false;
    PartitionOffsets start = PartitionOffsets.of(Map.of(A, 9L));
    assertThat(alone.next(start, ALL, false)).containsSame(start);
    hasRestarts = true;
    PartitionOffsets end = alone.next(start, ALL, false).orElseThrow();
    // Spark compares the texts.
    assertThat(end.json()).isNotEqualTo(start.json());
    assertThat(end.offsets()).isEqualTo(Map.of(A, 9L));
    // With too few records as well: a batch of another source must not come first.
    next(alone, start, ReadLimit.minRows(100, 1_000), false);
    assertThat(alone.next(start, ReadLimit.minRows(100, 1_000), false).orElseThrow().json())
        .isNotEqualTo(start.json());
    // Where nothing is there yet, Spark's log gets the start.
    logs.put(A, 5L);
    assertThat(next(alone, start, ALL, false)).isEqualTo(Map.of(A, 5L));
  }

  @Test
  void partitionsAreLookedForBeforeRecordsArePlanned() {
    next(alone, at(Map.of(A, 5L)), ALL, false);
    assertThat(discovers).containsExactly(false, true);
  }

  @Test
  void aBatchWithoutAPartitionThatWasDeletedMeanwhileIsNotPlanned() {
    reached.put(B, 1L);
    logs.put(B, 3L);
    meanwhile.add(() -> {});
    meanwhile.add(() -> logs.remove(B));
    // What the group's next look does about the loss.
    meanwhile.add(() -> reached.remove(B));
    assertThat(next(alone, at(Map.of(A, 5L, B, 1L)), ALL, false)).isEqualTo(Map.of(A, 9L));
    assertThat(discovers).containsExactly(false, true, true);
  }

  /** The second batch of a run whose first one began at 0 ms. */
  record Wait(long records, long ms, boolean isTooEarly) {}

  static List<Wait> waits() {
    return List.of(
        new Wait(0, 0, false),
        new Wait(9, 0, true),
        new Wait(9, 999, true),
        new Wait(9, 1_000, false),
        new Wait(10, 0, false));
  }

  @ParameterizedTest
  @MethodSource("waits")
  void aLaterBatchWaitsForTheRecordsOrForTheTime(Wait expected) {
    ReadLimit min = ReadLimit.minRows(10, 1_000);
    next(alone, at(Map.of(A, 5L)), min, false);
    reached.put(A, 9L);
    logs.put(A, 9 + expected.records());
    now += TimeUnit.MILLISECONDS.toNanos(expected.ms());
    PartitionOffsets start = at(Map.of(A, 9L));
    long end = expected.isTooEarly() ? 9 : 9 + expected.records();
    assertThat(next(alone, start, min, false)).isEqualTo(Map.of(A, end));
  }

  @Test
  void aBatchWaitsForAllNewRecordsAndNotForThoseThatThePartitionsLimitAllows() {
    ReadLimit both =
        ReadLimit.compositeLimit(
            new ReadLimit[] {ReadLimit.minRows(10, 1_000), new RateLimit.PerPartition(3)});
    next(alone, at(Map.of(A, 5L)), both, false);
    reached.put(A, 9L);
    logs.put(A, 19L);
    assertThat(next(alone, at(Map.of(A, 9L)), both, false)).isEqualTo(Map.of(A, 12L));
    // Seven are left, which are too few until the time is over.
    reached.put(A, 12L);
    assertThat(next(alone, at(Map.of(A, 12L)), both, false)).isEqualTo(Map.of(A, 12L));
    now += TimeUnit.SECONDS.toNanos(1);
    assertThat(next(alone, at(Map.of(A, 12L)), both, false)).isEqualTo(Map.of(A, 15L));
  }

  @Test
  void aQueryThatReadsWhatIsThereDoesNotWaitForMore() {
    ReadLimit min = ReadLimit.minRows(100, 1_000);
    next(alone, at(Map.of(A, 0L)), min, false);
    assertThat(next(alone, at(Map.of(A, 5L)), min, true)).isEqualTo(Map.of(A, 9L));
  }

  @Test
  void aQueryThatReadsWhatIsThereReadsNothingThatComesLater() {
    assertThat(next(alone, at(Map.of(A, 5L)), ALL, true)).isEqualTo(Map.of(A, 9L));
    reached.putAll(Map.of(A, 9L, B, 0L));
    logs.putAll(Map.of(A, 20L, B, 3L));
    assertThat(next(alone, at(Map.of(A, 9L)), ALL, true)).isEqualTo(Map.of(A, 9L, B, 0L));
  }

  @Test
  void aQueryThatReadsWhatIsThereReadsAllOfItWithinTheLimitOfEachPartition() {
    ReadLimit three = new RateLimit.PerPartition(3);
    assertThat(next(alone, at(Map.of(A, 5L)), three, true)).isEqualTo(Map.of(A, 8L));
    reached.put(A, 8L);
    logs.put(A, 20L);
    assertThat(next(alone, at(Map.of(A, 8L)), three, true)).isEqualTo(Map.of(A, 9L));
    reached.put(A, 9L);
    PartitionOffsets start = at(Map.of(A, 9L));
    assertThat(alone.next(start, three, true)).containsSame(start);
  }

  @Test
  void aDriverOfASharedGroupWaitsUntilTheOthersHaveReadWhatIsThereToo() {
    BatchEnd shared = batchEnd(new SharedGroup());
    reached.put(A, 9L);
    PartitionOffsets start = at(Map.of(A, 9L));
    assertThat(shared.next(start, ALL, true)).isEmpty();
    othersAreDone = true;
    assertThat(shared.next(start, ALL, true)).containsSame(start);
  }

  @Test
  void driversThatWaitForEachOtherReadWhatHasComeToTheirOwnPartitionsSince() {
    BatchEnd shared = batchEnd(new SharedGroup());
    reached.put(A, 9L);
    PartitionOffsets start = at(Map.of(A, 9L));
    assertThat(shared.next(start, ALL, true)).isEmpty();
    // Another driver has looked when this was there, and waits for it.
    logs.put(A, 12L);
    assertThat(shared.next(start, ALL, true)).isEmpty();
    assertThat(shared.next(start, ALL, true).map(PartitionOffsets::offsets))
        .contains(Map.of(A, 12L));
  }

  @Test
  void aSharedGroupsOtherPartitionsStayInSparksLogWhileTheyExist() {
    logs.put(B, 30L);
    TopicPartition deleted = new TopicPartition("deleted", 0);
    assertThat(next(batchEnd(new SharedGroup()), at(Map.of(A, 5L, B, 7L, deleted, 1L)), ALL, false))
        .isEqualTo(Map.of(A, 9L, B, 7L));
  }

  @Test
  void aLogThatEndsBeforeWhatWasReadIsSuspect() {
    logs.put(A, 4L);
    assertThat(next(alone, at(Map.of(A, 5L)), ALL, false)).isEqualTo(Map.of(A, 5L));
    assertThat(suspects).containsExactly(Set.of(A));
    assertThat(ledger.hasLeft()).isFalse();
  }

  @Test
  void whatATaskHadCommittedBeforeALogWasCutIsLeft() {
    SlotWork work = new SlotWork(0, List.of(new SlotRange("t", 0, 2, 2, 5, "id")), null);
    SlotCommit commit = new SlotCommit("p", 0, "jvm", "1", "host", Map.of(A, 5L), false, 0);
    ledger.planned(Map.of(A, 0));
    ledger.record(1, List.of(work), Map.of(0, commit));
    movedBack.put(A, 4L);
    logs.put(A, 4L);
    next(alone, at(Map.of(A, 5L)), ALL, false);
    assertThat(ledger.hasLeft()).isTrue();
  }

  @Test
  void aGroupThatIsBehindSparksLogHasABatchInAnotherText() {
    PartitionOffsets start = at(Map.of(A, 9L));
    PartitionOffsets end = alone.next(start, ALL, false).orElseThrow();
    assertThat(end.offsets()).isEqualTo(start.offsets());
    assertThat(end.json()).isNotEqualTo(start.json());
    assertThat(end.isOurs()).isTrue();
  }

  @Test
  void theFirstBatchAfterThoseOfOthersSaysWhoseTheLogIs() {
    reached.put(A, 9L);
    PartitionOffsets start = PartitionOffsets.of(Map.of(A, 9L));
    PartitionOffsets end = alone.next(start, ALL, false).orElseThrow();
    assertThat(end.offsets()).isEqualTo(start.offsets());
    assertThat(end.isOurs()).isTrue();
  }

  @Test
  void withoutOurSinkTheGroupFollowsTheLogAndTheTextIsTheBuiltInConnectors() {
    sinkIsOurs = false;
    PartitionOffsets end = alone.next(PartitionOffsets.of(Map.of(A, 5L)), ALL, false).orElseThrow();
    assertThat(end.isOurs()).isFalse();
    assertThat(sourceOnly).containsExactly(Map.of(A, 5L));
  }

  @Test
  void aQueryThatWasHandedOverStopsAndPlansNothing() {
    isHandedOver = true;
    PartitionOffsets start = at(Map.of(A, 5L));
    assertThat(alone.next(start, ALL, false)).containsSame(start);
    assertThat(isStopped).isTrue();
    isHandedOver = false;
    isStopped = false;
    assertThat(alone.next(start, ALL, false)).containsSame(start);
    assertThat(isStopped).isFalse();
    assertThat(discovers).isEmpty();
  }

  @Test
  void afterProducersWereFencedNoSlotContinuesWithoutAStableFetch() {
    SlotCommit commit = new SlotCommit("p", 0, "jvm", "1", "host", Map.of(A, 5L), false, 0);
    ledger.record(
        1,
        List.of(new SlotWork(0, List.of(new SlotRange("t", 0, 0, 0, 5, "id")), null)),
        Map.of(0, commit));
    next(alone, at(Map.of(A, 5L)), ALL, false);
    assertThat(ledger.owner(0)).isEqualTo(commit);
    isSettled = true;
    next(alone, at(Map.of(A, 5L)), ALL, false);
    assertThat(ledger.owner(0)).isNull();
  }
}
