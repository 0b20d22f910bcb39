package io.eoskafka.source;

import io.eoskafka.config.SourceOptions;
import io.eoskafka.decision.Decision;
import io.eoskafka.spark.RunningQuery;
import io.eoskafka.task.FenceLeases;
import io.eoskafka.task.SlotCommit;
import io.eoskafka.task.SlotRange;
import io.eoskafka.task.SlotWork;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.SparkContext;

/** Divides a batch into what each of its tasks reads. */
final class BatchPlanner {
  private final String run;
  private final SourceOptions options;
  private final GroupProgress progress;
  private final TaskScopeLedger ledger;
  private final SlotShares slotShares;

  /**
   * @param run unique per run of the source
   */
  BatchPlanner(String run, SourceOptions options, GroupProgress progress, TaskScopeLedger ledger) {
    this.run = run;
    this.options = options;
    this.progress = progress;
    this.ledger = ledger;
    slotShares = new SlotShares(options.isShared());
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
    TreeMap<TopicPartition, Long> ends = new TreeMap<>(PartitionOffsets.ORDER);
    ends.putAll(plannedEnds);
    progress.reportMissing(ends.keySet());
    if (!isOwn) {
      ends.putAll(progress.keepEndsWithinLog(ends));
    }
    if (options.isShared()) {
      ends.keySet().retainAll(starts.keySet());
    }
    Optional<Decision.Input> decided = isOwn ? Optional.empty() : progress.epochs().input();
    SourceOptions.Split split =
        decided.map(Decision.Input::split).orElseGet(() -> splitOf(ends.size()));
    boolean asBefore = isRealTime || ledger.hasLeft();
    int wanted = decided.map(Decision.Input::slots).orElseGet(() -> slots(ends.size(), isRealTime));
    int slots = asBefore ? Math.max(former.slots(), wanted) : wanted;
    SortedMap<TopicPartition, Long> otherStarts = new TreeMap<>(PartitionOffsets.ORDER);
    List<SlotRange> ranges = new ArrayList<>();
    for (Map.Entry<TopicPartition, Long> entry : ends.entrySet()) {
      TopicPartition partition = entry.getKey();
      Long groupStart = starts.get(partition);
      if (groupStart == null || decided.isPresent() && progress.tracker().isRecreated(partition)) {
        // In the second case what the batch has read is gone, and what is there is for the next.
        continue;
      }
      long logged = sparkStart.offsets().getOrDefault(partition, groupStart);
      // Where the last batch was in epoch scope, progress has taken Spark's log for the truth.
      long from = progress.groupIsTheTruth() ? groupStart : logged;
      if (logged != from && progress.isMovedByTasks(partition)) {
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
                progress.tracker().id(partition)));
      }
    }
    List<SlotRange> pieces = RangeSplit.cut(ranges, split);
    boolean isSplit = pieces.size() > ranges.size();
    Map<TopicPartition, Integer> slotOf = slotShares.of(ends.navigableKeySet(), slots, asBefore);
    SortedMap<Integer, List<SlotRange>> shares = new TreeMap<>();
    for (SlotRange piece : pieces) {
      // Two pieces of a partition must not be in one slot, so each is in one of its own.
      int slot = isSplit ? shares.size() : slotOf.get(piece.topicPartition());
      shares.computeIfAbsent(slot, s -> new ArrayList<>()).add(piece);
    }
    SortedMap<Integer, SlotWork> work = new TreeMap<>();
    List<SlotPartition> partitions = new ArrayList<>();
    shares.forEach(
        (slot, read) -> {
          SlotCommit owner = ledger.owner(slot);
          SlotWork ofSlot = new SlotWork(slot, read, owner == null ? null : owner.jvm());
          work.put(slot, ofSlot);
          partitions.add(
              new SlotPartition(
                  ofSlot,
                  owner == null || isSplit
                      ? new String[0]
                      : new String[] {"executor_" + owner.host() + "_" + owner.executorId()},
                  !isSplit));
        });
    return new PlannedBatch(
        partitions,
        work,
        slots,
        split,
        isSplit,
        otherStarts,
        isOwn,
        isOfOthers,
        options.isShared() ? beginShared(work) : 0);
  }

  /** In a shared group partitions are not given up while a batch uses them. */
  private long beginShared(Map<Integer, SlotWork> work) {
    Map<Integer, Map<TopicPartition, Long>> used = new HashMap<>();
    work.forEach((slot, ofSlot) -> used.put(slot, progress.terms(partitions(ofSlot))));
    long plan = progress.shared().begin(used);
    FenceLeases.register(run, progress.shared().leases());
    return plan;
  }

  private static Set<TopicPartition> partitions(SlotWork work) {
    return work.ranges().stream().map(SlotRange::topicPartition).collect(Collectors.toSet());
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
