package io.eoskafka.source;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.entry;

import io.eoskafka.config.SourceOptions;
import io.eoskafka.decision.Decision;
import io.eoskafka.task.SlotCommit;
import io.eoskafka.task.SlotRange;
import io.eoskafka.task.SlotWork;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.LongRange;
import net.jqwik.api.constraints.Size;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.Test;

/** What a batch's tasks read, with a group that answers from memory. */
class BatchPlannerTest {
  private static final TopicPartition A = new TopicPartition("t", 0);
  private static final TopicPartition B = new TopicPartition("t", 1);
  private static final TopicPartition C = new TopicPartition("t", 2);
  private static final long SHARED_PLAN = 42;

  /** How far the logs reach. */
  private final Map<TopicPartition, Long> logs = new HashMap<>();

  private final Set<TopicPartition> recreated = new HashSet<>();
  private final Set<TopicPartition> movedByTasks = new HashSet<>();
  private final Map<TopicPartition, Long> restarts = new HashMap<>();
  private final Set<TopicPartition> notInLastPlanned = new HashSet<>();
  private final Map<TopicPartition, Long> starts = new HashMap<>();
  private Optional<Decision.Input> decided = Optional.empty();
  private boolean sinkIsOurs = true;
  private Collection<SlotWork> begun;

  private final BatchPlanner.Group group =
      new BatchPlanner.Group() {
        @Override
        public void reportMissing(Collection<TopicPartition> needed) {
          starts.keySet().removeIf(p -> needed.contains(p) && topicId(p).isEmpty());
        }

        @Override
        public Map<TopicPartition, Long> keepEndsWithinLog(Map<TopicPartition, Long> logged) {
          Map<TopicPartition, Long> kept = new HashMap<>(logged);
          kept.replaceAll((p, end) -> Math.min(end, logs.getOrDefault(p, end)));
          return kept;
        }

        @Override
        public Optional<Decision.Input> decidedInput() {
          return decided;
        }

        @Override
        public boolean isRecreated(TopicPartition partition) {
          return recreated.contains(partition);
        }

        @Override
        public String topicId(TopicPartition partition) {
          return partition.topic().equals("deleted") ? "" : "id";
        }

        @Override
        public boolean sinkIsOurs() {
          return sinkIsOurs;
        }

        @Override
        public long begin(TopicPartition partition, long logged) {
          return restarts.getOrDefault(partition, logged);
        }

        @Override
        public Set<TopicPartition> notInLastPlanned() {
          return notInLastPlanned;
        }

        @Override
        public boolean isMovedByTasks(TopicPartition partition) {
          return movedByTasks.contains(partition);
        }

        @Override
        public long beginShared(Collection<SlotWork> work) {
          begun = work;
          return SHARED_PLAN;
        }
      };

  private final TaskScopeLedger ledger = new TaskScopeLedger(new ExclusiveGroup());

  private BatchPlanner planner(Map<String, String> given) {
    Map<String, String> options =
        new HashMap<>(
            Map.of("kafka.bootstrap.servers", "broker:9092", "subscribe", "t", "slots", "2"));
    options.putAll(given);
    SourceOptions parsed = SourceOptions.parse(new CaseInsensitiveStringMap(options));
    return new BatchPlanner(parsed, GroupSharing.of(parsed.isShared()), group, ledger);
  }

  /** A batch of this run's own. */
  private PlannedBatch plan(
      BatchPlanner by, Map<TopicPartition, Long> logged, Map<TopicPartition, Long> ends) {
    return by.plan(
        starts, PartitionOffsets.of(logged), ends, PlannedBatch.none(), true, false, false);
  }

  /** A batch that a former run has logged. */
  private PlannedBatch planAgain(
      BatchPlanner by, Map<TopicPartition, Long> logged, Map<TopicPartition, Long> ends) {
    return by.plan(
        starts, PartitionOffsets.of(logged), ends, PlannedBatch.none(), false, false, false);
  }

  private static Map<Integer, List<SlotRange>> ranges(PlannedBatch batch) {
    Map<Integer, List<SlotRange>> found = new TreeMap<>();
    batch.work().forEach((slot, work) -> found.put(slot, work.ranges()));
    return found;
  }

  private static SlotRange range(TopicPartition of, long epochStart, long groupStart, long end) {
    return new SlotRange(of.topic(), of.partition(), epochStart, groupStart, end, "id");
  }

  @Test
  void partitionsAreSharedOutWholeAndThoseWithoutRecordsAreNotRead() {
    starts.putAll(Map.of(A, 1L, B, 5L, C, 2L));
    PlannedBatch batch =
        plan(planner(Map.of()), Map.of(A, 1L, B, 5L, C, 2L), Map.of(A, 3L, B, 5L, C, 9L));
    assertThat(ranges(batch))
        .containsExactly(entry(0, List.of(range(A, 1, 1, 3), range(C, 2, 2, 9))));
    assertThat(batch.slots()).isEqualTo(2);
    assertThat(batch.isSplit()).isFalse();
    assertThat(batch.isOwn()).isTrue();
    assertThat(batch.sharedPlan()).isZero();
  }

  @Test
  void theLedgerKnowsInWhichSlotAPartitionIs() {
    starts.putAll(Map.of(A, 1L, B, 1L));
    BatchPlanner planner = planner(Map.of());
    plan(planner, Map.of(), Map.of(A, 3L, B, 3L));
    committed(1, B, 2, false);
    ledger.movedBack(Map.of(B, 3L));
    // Without A it is in the first slot.
    starts.remove(A);
    plan(planner, Map.of(), Map.of(B, 3L));
    assertThatThrownBy(() -> ledger.movedBack(Map.of(B, 2L)))
        .hasMessageContaining("[EOSKAFKA_LOG_TRUNCATED]");
  }

  @Test
  void aPartitionThatIsMissingIsNotRead() {
    TopicPartition deleted = new TopicPartition("deleted", 0);
    starts.putAll(Map.of(A, 1L, deleted, 1L));
    PlannedBatch batch = plan(planner(Map.of()), Map.of(), Map.of(A, 3L, deleted, 7L));
    assertThat(batch.ranges()).containsExactly(range(A, 1, 1, 3));
  }

  @Test
  void theGroupSaysWhereABatchStartsIfOurSinkCommitsItsOffsets() {
    starts.put(A, 5L);
    movedByTasks.add(A);
    PlannedBatch batch = plan(planner(Map.of()), Map.of(A, 2L), Map.of(A, 9L));
    assertThat(batch.ranges()).containsExactly(range(A, 5, 5, 9));
    // State that was kept for the batch has rows from offset 2 on.
    assertThat(batch.otherStarts()).containsExactly(entry(A, 2L));
    movedByTasks.clear();
    assertThat(plan(planner(Map.of()), Map.of(A, 2L), Map.of(A, 9L)).otherStarts()).isEmpty();
  }

  @Test
  void withoutOurSinkSparksLogSaysWhereABatchStarts() {
    sinkIsOurs = false;
    starts.put(A, 5L);
    PlannedBatch batch = plan(planner(Map.of()), Map.of(A, 2L), Map.of(A, 9L));
    assertThat(batch.ranges()).containsExactly(range(A, 2, 5, 9));
    assertThat(batch.otherStarts()).isEmpty();
  }

  @Test
  void withoutOurSinkABatchBeginsWhereAPartitionContinuesOfWhichSparksLogHasTheFormerEnd() {
    sinkIsOurs = false;
    starts.put(A, 0L);
    restarts.put(A, 0L);
    assertThat(plan(planner(Map.of()), Map.of(A, 5L), Map.of(A, 9L)).ranges())
        .containsExactly(range(A, 0, 0, 9));
    assertThat(planAgain(planner(Map.of()), Map.of(A, 5L), Map.of(A, 3L)).ranges())
        .containsExactly(range(A, 0, 0, 3));
  }

  @Test
  void aLoggedBatchReadsNothingOfAPartitionThatContinuesElsewhereSince() {
    sinkIsOurs = false;
    starts.putAll(Map.of(A, 0L, B, 2L));
    restarts.put(A, 0L);
    notInLastPlanned.add(A);
    assertThat(planAgain(planner(Map.of()), Map.of(A, 2L, B, 2L), Map.of(A, 9L, B, 9L)).ranges())
        .containsExactly(range(B, 2, 2, 9));
  }

  @Test
  void aLoggedBatchEndsWhereTheLogDoesNow() {
    starts.put(A, 1L);
    logs.put(A, 6L);
    assertThat(planAgain(planner(Map.of()), Map.of(A, 1L), Map.of(A, 9L)).ranges())
        .containsExactly(range(A, 1, 1, 6));
    assertThat(plan(planner(Map.of()), Map.of(A, 1L), Map.of(A, 9L)).ranges())
        .containsExactly(range(A, 1, 1, 9));
  }

  @Test
  void aDecidedBatchIsSharedOutAsItWasWhateverTheOptionsSayNow() {
    starts.putAll(Map.of(A, 0L, B, 0L, C, 0L));
    SourceOptions.Split split = new SourceOptions.Split(0, 4);
    Map<TopicPartition, Long> read = Map.of(A, 0L, B, 0L, C, 0L);
    decided = Optional.of(new Decision.Input(3, split, read, Map.of()));
    PlannedBatch batch = planAgain(planner(Map.of()), Map.of(), Map.of(A, 4L, B, 4L, C, 8L));
    assertThat(batch.slots()).isEqualTo(3);
    assertThat(batch.split()).isEqualTo(split);
    assertThat(batch.work()).hasSize(4);
    assertThat(batch.input().slots()).isEqualTo(3);
    // A batch of this run's own is not the decided one.
    assertThat(plan(planner(Map.of()), Map.of(), Map.of(A, 4L, B, 4L, C, 8L)).slots()).isEqualTo(2);
  }

  @Test
  void aDecidedBatchHasReadNothingOfATopicThatWasCreatedSince() {
    starts.putAll(Map.of(A, 0L, B, 0L));
    recreated.add(A);
    decided = decidedWith(A, B);
    assertThat(planAgain(planner(Map.of()), Map.of(), Map.of(A, 4L, B, 4L)).ranges())
        .containsExactly(range(B, 0, 0, 4));
    decided = Optional.empty();
    assertThat(planAgain(planner(Map.of()), Map.of(), Map.of(A, 4L, B, 4L)).ranges())
        .containsExactly(range(A, 0, 0, 4), range(B, 0, 0, 4));
  }

  /** Its group was moved back, to read what the batch had left out. */
  @Test
  void aDecidedBatchDoesNotReadWhatItHasNotRead() {
    starts.putAll(Map.of(A, 0L, B, 0L));
    decided = decidedWith(B);
    PlannedBatch again = planAgain(planner(Map.of()), Map.of(), Map.of(A, 4L, B, 4L));
    assertThat(again.ranges()).containsExactly(range(B, 0, 0, 4));
    assertThat(again.input().ends()).doesNotContainKey(A);
  }

  private static Optional<Decision.Input> decidedWith(TopicPartition... read) {
    Map<TopicPartition, Long> from = new HashMap<>();
    List.of(read).forEach(partition -> from.put(partition, 0L));
    return Optional.of(new Decision.Input(2, SourceOptions.Split.NONE, from, Map.of()));
  }

  @Test
  void aPieceOfAPartitionHasASlotOfItsOwnAndNoPreferredExecutor() {
    committed(0, A, 0, false);
    starts.put(A, 0L);
    PlannedBatch batch =
        plan(planner(Map.of("slots", "3", "minPartitions", "3")), Map.of(), Map.of(A, 9L));
    assertThat(batch.isSplit()).isTrue();
    assertThat(ranges(batch))
        .containsExactly(
            entry(0, List.of(range(A, 0, 0, 3))),
            entry(1, List.of(range(A, 3, 0, 6))),
            entry(2, List.of(range(A, 6, 0, 9))));
    assertThat(batch.partitions())
        .allSatisfy(
            partition -> {
              assertThat(partition.preferredLocations()).isEmpty();
              assertThat(partition.rests()).isFalse();
            });
  }

  @Test
  void aSlotPrefersTheExecutorThatHasItsIdleProducer() {
    committed(0, A, 5, false);
    starts.putAll(Map.of(A, 5L, B, 0L));
    PlannedBatch batch = plan(planner(Map.of()), Map.of(), Map.of(A, 9L, B, 9L));
    assertThat(batch.partitions().get(0).preferredLocations()).containsExactly("executor_host_7");
    assertThat(batch.work().get(0).owner()).isEqualTo("jvm");
    assertThat(batch.partitions().get(1).preferredLocations()).isEmpty();
    assertThat(batch.work().get(1).owner()).isNull();
  }

  @Test
  void partitionsKeepTheirSlotsWhileATaskHasLeftSomething() {
    BatchPlanner planner = planner(Map.of());
    starts.putAll(Map.of(A, 0L, B, 0L));
    Map<TopicPartition, Long> ends = Map.of(A, 9L, B, 9L);
    PlannedBatch first = plan(planner, Map.of(), ends);
    committed(0, A, 4, true);
    starts.put(C, 0L);
    starts.remove(A);
    // Shared out anew, B would come to slot 0.
    assertThat(
            planner
                .plan(
                    starts,
                    PartitionOffsets.of(Map.of()),
                    Map.of(B, 12L, C, 3L),
                    first,
                    true,
                    false,
                    false)
                .work()
                .get(1)
                .ranges())
        .contains(range(B, 0, 0, 12));
  }

  @Test
  void aDriverOfASharedGroupPlansWhatItOwnsAndHoldsIt() {
    starts.put(A, 0L);
    Map<String, String> shared = Map.of("kafka.group.id", "g", "ownership", "shared");
    PlannedBatch batch = plan(planner(shared), Map.of(B, 3L), Map.of(A, 9L, B, 9L));
    assertThat(batch.ranges()).containsExactly(range(A, 0, 0, 9));
    assertThat(batch.sharedPlan()).isEqualTo(SHARED_PLAN);
    assertThat(begun).containsExactlyElementsOf(batch.work().values());
  }

  /** Every record between start and end is read by one task, and no other record. */
  @Property
  void theSlotsReadEachRecordOfABatchOnce(
      @ForAll @Size(min = 1, max = 6) List<@LongRange(min = 0, max = 50) Long> sizes,
      @ForAll @IntRange(min = 1, max = 5) int slots,
      @ForAll @IntRange(min = 0, max = 8) int minPartitions,
      @ForAll @IntRange(min = 0, max = 20) int maxRecords) {
    Map<String, String> given =
        new HashMap<>(Map.of("slots", Integer.toString(Math.max(slots, minPartitions))));
    if (minPartitions > 0) {
      given.put("minPartitions", Integer.toString(minPartitions));
    }
    if (maxRecords > 0) {
      given.put("maxRecordsPerPartition", Integer.toString(maxRecords));
    }
    Map<TopicPartition, Long> ends = new HashMap<>();
    starts.clear();
    for (int partition = 0; partition < sizes.size(); partition++) {
      TopicPartition of = new TopicPartition("t", partition);
      starts.put(of, 10L);
      ends.put(of, 10L + sizes.get(partition));
    }
    PlannedBatch batch = plan(planner(given), Map.of(), ends);
    Map<TopicPartition, Set<Long>> read = new HashMap<>();
    batch
        .ranges()
        .forEach(
            range -> {
              for (long offset = range.epochStart(); offset < range.end(); offset++) {
                assertThat(
                        read.computeIfAbsent(range.topicPartition(), p -> new HashSet<>())
                            .add(offset))
                    .isTrue();
              }
            });
    ends.forEach(
        (partition, end) ->
            assertThat(read.getOrDefault(partition, Set.of())).hasSize((int) (end - 10)));
    if (!batch.isSplit()) {
      assertThat(batch.ranges().map(SlotRange::topicPartition).collect(Collectors.toList()))
          .doesNotHaveDuplicates();
    }
  }

  /** A task's report. */
  private void committed(int slot, TopicPartition partition, long offset, boolean endedEarly) {
    ledger.record(
        1,
        List.of(new SlotWork(slot, List.of(range(partition, 0, 0, offset + 1)), null)),
        Map.of(
            slot,
            new SlotCommit(
                "p",
                slot,
                "jvm",
                "7",
                "host",
                Map.of(partition, endedEarly ? offset : offset + 1),
                endedEarly,
                0)));
  }
}
