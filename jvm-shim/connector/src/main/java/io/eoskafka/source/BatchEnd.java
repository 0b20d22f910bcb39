package io.eoskafka.source;

import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.function.Function;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.streaming.CompositeReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMinRows;

/** How far the next batch reads. Called on the query's thread, between batches. */
final class BatchEnd {

  /** What it needs of the group and of this driver's place in it. */
  interface Group {
    /** See {@link GroupProgress#isHandedOver}. */
    boolean isHandedOver();

    /** See {@link GroupProgress#commitSourceOnly}. */
    void commitSourceOnly(Map<TopicPartition, Long> ends);

    /** See {@link GroupProgress#refresh}. */
    Map<TopicPartition, Long> refresh(PartitionOffsets sparkStart, boolean discover);

    /** See {@link OwnedPartitions#refuseTruncated}. */
    Map<TopicPartition, Long> refuseTruncated(Set<TopicPartition> suspects);

    /** See {@link OwnedPartitions#takeProducersFenced}. */
    boolean takeProducersFenced();

    /** See {@link GroupProgress#sinkIsOurs}. */
    boolean sinkIsOurs();

    /** Whether Spark's log has the former end of a partition: see {@link RestartedPartitions}. */
    boolean hasRestarts();

    /** See {@link GroupProgress#hasReached}. */
    boolean hasReached(Map<TopicPartition, Long> ends);

    /** All partitions of the source's topics, whoever owns them. */
    Set<TopicPartition> partitions();
  }

  private final GroupSharing sharing;
  private final Group group;
  private final Supplier<Set<TopicPartition>> discover;
  private final Function<Collection<TopicPartition>, Map<TopicPartition, Long>> stillReadable;
  private final TaskScopeLedger ledger;
  private final Runnable stopQuery;
  private final LongSupplier nanoTime;

  /** When a batch began last, with {@code minOffsetsPerTrigger}. */
  private OptionalLong triggeredNanos = OptionalLong.empty();

  /** How far partitions could be read when they were looked at last. */
  private Map<TopicPartition, Long> latest = Map.of();

  private Map<TopicPartition, Long> availableNow;
  private boolean isHandedOver;

  /** Whether the last batch had records. */
  private boolean hadRecords;

  /**
   * @param discover the source's partitions, asked for anew
   * @param stillReadable see {@link Topics#stillReadable}
   * @param stopQuery stops the query when another driver has taken over from it
   */
  BatchEnd(
      GroupSharing sharing,
      Group group,
      Supplier<Set<TopicPartition>> discover,
      Function<Collection<TopicPartition>, Map<TopicPartition, Long>> stillReadable,
      TaskScopeLedger ledger,
      Runnable stopQuery,
      LongSupplier nanoTime) {
    this.sharing = sharing;
    this.group = group;
    this.discover = discover;
    this.stillReadable = stillReadable;
    this.ledger = ledger;
    this.stopQuery = stopQuery;
    this.nanoTime = nanoTime;
  }

  /**
   * The end of the batch that begins here.
   *
   * @param isAvailableNow whether the query reads what is there when it first asks, and ends
   * @return the start itself if there is no batch to run; empty if it is too early to say
   */
  Optional<PartitionOffsets> next(PartitionOffsets start, ReadLimit limit, boolean isAvailableNow) {
    if (!isHandedOver && group.isHandedOver()) {
      isHandedOver = true;
      stopQuery.run();
    }
    if (isHandedOver) {
      return Optional.of(start);
    }
    if (isAvailableNow && availableNow == null) {
      availableNow = new HashMap<>(stillReadable.apply(discover.get()));
    }
    // Spark tells of a batch's end at the start of the next one, so not of the last; it asks here.
    group.commitSourceOnly(start.offsets());
    // If the last batch had records, there are probably more. Then one look is enough.
    boolean isDiscovered = hadRecords;
    Map<TopicPartition, Long> from = group.refresh(start, isDiscovered);
    Map<TopicPartition, Long> until = readable(from);
    List<ReadLimit> limits =
        limit instanceof CompositeReadLimit several
            ? List.of(several.getReadLimits())
            : List.of(limit);
    for (ReadLimit one : limits) {
      if (one instanceof ReadMinRows min && !isAvailableNow && isTooEarly(min, from, until)) {
        hadRecords = false;
        return Optional.of(start);
      }
    }
    hadRecords = !until.equals(from);
    // Looks again if something was deleted meanwhile: a batch without it must not be logged before
    // the loss has been reported.
    while (hadRecords && !(isDiscovered && until.keySet().containsAll(from.keySet()))) {
      isDiscovered = true;
      from = group.refresh(start, true);
      until = readable(from);
    }
    if (group.takeProducersFenced()) {
      // Idle producers on executors were fenced: no task continues without a stable fetch.
      ledger.forgetOwners();
    }
    return inSparksLog(start, from, RateLimit.apply(limits, from, until), isAvailableNow);
  }

  /** The end as Spark's log is to have it. */
  private Optional<PartitionOffsets> inSparksLog(
      PartitionOffsets start,
      Map<TopicPartition, Long> from,
      Map<TopicPartition, Long> until,
      boolean isAvailableNow) {
    Map<TopicPartition, Long> ends = new HashMap<>(sharing.endsOfOthers(start, group.partitions()));
    ends.putAll(until);
    PartitionOffsets end = PartitionOffsets.of(ends);
    if (group.sinkIsOurs()) {
      end = end.ours();
    }
    if (isAvailableNow
        && sharing.waitsForOthers()
        && until.equals(from)
        && !group.hasReached(availableNow)) {
      // Spark ends the query where nothing is left to do here. Others may have looked later, and
      // wait for what has come to this driver's partitions since.
      latest.forEach((partition, now) -> availableNow.merge(partition, now, Math::max));
      return Optional.empty();
    }
    boolean hasMoved = !end.offsets().equals(start.offsets());
    // A batch without records, so that Spark's log says from then on that it is ours.
    boolean mustClaimLog = end.isOurs() && !start.isOurs();
    if (hasMoved || mustClaimLog) {
      return Optional.of(end);
    }
    // By the numbers alone, Spark would see no batch.
    boolean isBehind = !until.equals(from) && (group.sinkIsOurs() || group.hasRestarts());
    return Optional.of(isBehind ? end.respelled(start.json()) : start);
  }

  /** Whether a batch is to wait for more records. The first one of a run does not. */
  private boolean isTooEarly(
      ReadMinRows min, Map<TopicPartition, Long> from, Map<TopicPartition, Long> until) {
    long records = 0;
    for (Map.Entry<TopicPartition, Long> end : until.entrySet()) {
      records += end.getValue() - from.get(end.getKey());
    }
    long now = nanoTime.getAsLong();
    boolean isDue =
        triggeredNanos.isEmpty()
            || now - triggeredNanos.getAsLong() >= min.maxTriggerDelayMs() * 1_000_000;
    if (records > 0 && (isDue || records >= min.minRows())) {
      triggeredNanos = OptionalLong.of(now);
      return false;
    }
    // With nothing to read it is not too early: there is no batch. Nor where Spark's log has a
    // former end, which the next batch is to replace, whichever source it is for.
    return records > 0 && !group.hasRestarts();
  }

  /** How far each partition could be read now. */
  private Map<TopicPartition, Long> readable(Map<TopicPartition, Long> from) {
    Map<TopicPartition, Long> until = stillReadable.apply(from.keySet());
    latest = Map.copyOf(until);
    Set<TopicPartition> behind = new HashSet<>(until.keySet());
    behind.removeIf(p -> until.get(p) >= from.get(p));
    ledger.movedBack(group.refuseTruncated(behind));
    until.keySet().retainAll(from.keySet());
    if (availableNow != null) {
      // A partition that came after the trigger waits for the next one.
      until.replaceAll((p, end) -> Math.min(end, availableNow.getOrDefault(p, from.get(p))));
    }
    // Never behind what is committed: a stable offset may lie beyond the readable end while a
    // transaction of the input is open.
    until.replaceAll((p, end) -> Math.max(end, from.get(p)));
    return until;
  }

  /** Looks how far these partitions could be read now, for {@link #latest}. */
  void look(Set<TopicPartition> partitions) {
    latest = Map.copyOf(stillReadable.apply(partitions));
  }

  /** How far partitions could be read when they were looked at last. */
  Map<TopicPartition, Long> latest() {
    return latest;
  }
}
