package io.eoskafka.source;

import io.eoskafka.config.SourceOptions;
import io.eoskafka.decision.Decision;
import io.eoskafka.spark.RunningQuery;
import io.eoskafka.task.SlotCommit;
import io.eoskafka.task.SlotRange;
import io.eoskafka.task.SlotWork;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.SparkContext;

/** Divides a batch into what each of its tasks reads. */
final class BatchPlanner {

  /** What it needs of the group and of this driver's place in it. */
  interface Group {
    /** See {@link OwnedPartitions#reportMissing}. */
    void reportMissing(Collection<TopicPartition> needed);

    /** See {@link OwnedPartitions#keepEndsWithinLog}. */
    Map<TopicPartition, Long> keepEndsWithinLog(Map<TopicPartition, Long> logged);

    /** See {@link DecidedEpochs#input}. */
    Optional<Decision.Input> decidedInput();

    /** See {@link TopicTracker#isRecreated}. */
    boolean isRecreated(TopicPartition partition);

    /** See {@link TopicTracker#id}. */
    String topicId(TopicPartition partition);

    /** See {@link GroupProgress#sinkIsOurs}. */
    boolean sinkIsOurs();

    /** See {@link RestartedPartitions#begin}. */
    long begin(TopicPartition partition, long logged);

    /** See {@link RestartedPartitions#notInLastPlanned}. */
    Set<TopicPartition> notInLastPlanned();

    /** See {@link OwnedPartitions#isMovedByTasks}. */
    boolean isMovedByTasks(TopicPartition partition);

    /** See {@link GroupProgress#beginShared}. */
    long beginShared(Collection<SlotWork> work);
  }

  private final SourceOptions options;
  private final GroupSharing sharing;
  private final Group group;
  private final TaskScopeLedger ledger;
  private final SlotShares slotShares;

  BatchPlanner(SourceOptions options, GroupSharing sharing, Group group, TaskScopeLedger ledger) {
    this.options = options;
    this.sharing = sharing;
    this.group = group;
    this.ledger = ledger;
    slotShares = new SlotShares(sharing.keepsSlots());
  }

  /**
   * Plans a batch.
   *
   * @param starts what {@link GroupProgress#resume} returns: partitions that turn out to be deleted
   *     disappear from it
   * @param sparkStart where the batch starts by Spark's log
   * @param plannedEnds where it is to end
   * @param former the last one that this run has planned
   * @param isOwn whether this run has chosen the ends, not a former run that has logged them
   * @param isOfOthers whether Spark's log has the batch as others have planned it
   * @param isRealTime whether time ends the batch, and all its tasks run at once
   */
  PlannedBatch plan(
      Map<TopicPartition, Long> starts,
      PartitionOffsets sparkStart,
      Map<TopicPartition, Long> plannedEnds,
      PlannedBatch former,
      boolean isOwn,
      boolean isOfOthers,
      boolean isRealTime) {
    NavigableMap<TopicPartition, Long> ends = endsWithinLog(starts, plannedEnds, isOwn);
    Optional<Decision.Input> decided = isOwn ? Optional.empty() : group.decidedInput();
    Layout layout = layout(ends.size(), decided, former, isRealTime);
    Ranges ranges = ranges(starts, sparkStart, ends, decided);
    List<SlotRange> pieces = RangeSplit.cut(ranges.all(), layout.split());
    boolean isSplit = pieces.size() > ranges.all().size();
    Map<TopicPartition, Integer> slotOf =
        slotShares.of(ends.navigableKeySet(), layout.slots(), layout.asBefore());
    ledger.planned(slotOf);
    SortedMap<Integer, SlotWork> work = work(pieces, isSplit, slotOf);
    return new PlannedBatch(
        work.values().stream().map(ofSlot -> partition(ofSlot, isSplit)).toList(),
        work,
        layout.slots(),
        layout.split(),
        isSplit,
        ranges.otherStarts(),
        isOwn,
        isOfOthers,
        sharing.begin(group, work.values()));
  }

  /** Where the batch ends, of what is there and this driver's. */
  private NavigableMap<TopicPartition, Long> endsWithinLog(
      Map<TopicPartition, Long> starts, Map<TopicPartition, Long> plannedEnds, boolean isOwn) {
    NavigableMap<TopicPartition, Long> ends = new TreeMap<>(PartitionOffsets.ORDER);
    ends.putAll(plannedEnds);
    if (!isOwn) {
      ends.keySet().removeAll(group.notInLastPlanned());
    }
    group.reportMissing(ends.keySet());
    if (!isOwn) {
      ends.putAll(group.keepEndsWithinLog(ends));
    }
    sharing.keepOwned(ends, starts.keySet());
    return ends;
  }

  /**
   * How a batch is shared out.
   *
   * @param asBefore whether each partition stays in its slot
   */
  private record Layout(int slots, SourceOptions.Split split, boolean asBefore) {}

  /** A decided batch that runs again is shared out as it was. */
  private Layout layout(
      int partitions, Optional<Decision.Input> decided, PlannedBatch former, boolean isRealTime) {
    SourceOptions.Split split =
        decided.map(Decision.Input::split).orElseGet(() -> splitOf(partitions));
    boolean asBefore = isRealTime || ledger.hasLeft();
    int wanted = decided.map(Decision.Input::slots).orElseGet(() -> slots(partitions, isRealTime));
    return new Layout(asBefore ? Math.max(former.slots(), wanted) : wanted, split, asBefore);
  }

  /**
   * What a batch reads.
   *
   * @param otherStarts see {@link PlannedBatch}
   */
  private record Ranges(List<SlotRange> all, SortedMap<TopicPartition, Long> otherStarts) {}

  private Ranges ranges(
      Map<TopicPartition, Long> starts,
      PartitionOffsets sparkStart,
      Map<TopicPartition, Long> ends,
      Optional<Decision.Input> decided) {
    SortedMap<TopicPartition, Long> otherStarts = new TreeMap<>(PartitionOffsets.ORDER);
    List<SlotRange> ranges = new ArrayList<>();
    for (Map.Entry<TopicPartition, Long> entry : ends.entrySet()) {
      TopicPartition partition = entry.getKey();
      Long groupStart = starts.get(partition);
      boolean isForNext =
          decided.isPresent()
              && (group.isRecreated(partition) || !decided.get().starts().containsKey(partition));
      if (groupStart == null || isForNext) {
        // A decided batch reads again what it has read. What it has not, since its topic was
        // created again or the group was moved back, is for the next batch.
        continue;
      }
      long logged = sparkStart.offsets().getOrDefault(partition, groupStart);
      // Without our sink, Spark's log says where the batch starts, whatever the group has.
      long from = group.sinkIsOurs() ? groupStart : group.begin(partition, logged);
      if (logged != from && group.isMovedByTasks(partition)) {
        otherStarts.put(partition, logged);
      }
      if (from < entry.getValue()) {
        ranges.add(
            new SlotRange(
                partition.topic(),
                partition.partition(),
                from,
                groupStart,
                entry.getValue(),
                group.topicId(partition)));
      }
    }
    return new Ranges(ranges, otherStarts);
  }

  /**
   * What each slot reads.
   *
   * @param pieces of partitions
   * @param isSplit whether any partition is in several pieces
   * @param slotOf the slot of each partition that is whole
   */
  private SortedMap<Integer, SlotWork> work(
      List<SlotRange> pieces, boolean isSplit, Map<TopicPartition, Integer> slotOf) {
    SortedMap<Integer, List<SlotRange>> shares = new TreeMap<>();
    for (SlotRange piece : pieces) {
      // Two pieces of a partition must not be in one slot, so each is in one of its own.
      int slot = isSplit ? shares.size() : slotOf.get(piece.topicPartition());
      shares.computeIfAbsent(slot, s -> new ArrayList<>()).add(piece);
    }
    SortedMap<Integer, SlotWork> work = new TreeMap<>();
    shares.forEach(
        (slot, read) -> {
          SlotCommit owner = ledger.owner(slot);
          work.put(slot, new SlotWork(slot, read, owner == null ? null : owner.jvm()));
        });
    return work;
  }

  /** A slot for Spark, which runs it where its idle producer and its consumer are. */
  private SlotPartition partition(SlotWork work, boolean isSplit) {
    SlotCommit owner = ledger.owner(work.slot());
    return new SlotPartition(
        work,
        owner == null || isSplit
            ? new String[0]
            : new String[] {"executor_" + owner.host() + "_" + owner.executorId()},
        !isSplit);
  }

  /**
   * Where there are as many partitions as there are to be tasks, slots alone make as many: the
   * scope must not change with the traffic.
   */
  private SourceOptions.Split splitOf(int partitions) {
    SourceOptions.Split wanted = options.split();
    return partitions < wanted.minPartitions()
        ? wanted
        : new SourceOptions.Split(0, wanted.maxRecords());
  }

  private int slots(int partitions, boolean isRealTime) {
    int wanted = options.slots().orElseGet(() -> defaultSlots(isRealTime));
    int least = options.split().minPartitions();
    return Math.max(1, Math.min(Math.max(wanted, least), partitions));
  }

  /** In real-time mode all sources' tasks run at a time, each on a core of its own. */
  private static int defaultSlots(boolean isRealTime) {
    int cores = isRealTime ? RunningQuery.cores() : SparkContext.getOrCreate().defaultParallelism();
    int sources =
        isRealTime ? RunningQuery.ofThisThread().sources(EosKafkaMicroBatchStream.class).size() : 1;
    return Math.max(1, cores / sources);
  }
}
