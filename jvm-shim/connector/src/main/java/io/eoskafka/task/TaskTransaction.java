package io.eoskafka.task;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.faults.FaultPoint;
import io.eoskafka.group.GroupInspector;
import io.eoskafka.group.GroupOffsets;
import io.eoskafka.identity.Fence;
import io.eoskafka.transaction.ExecutorClients;
import io.eoskafka.transaction.TransactionCounts;
import io.eoskafka.transaction.TransactionalId;
import io.eoskafka.transaction.TransactionalProducer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;

/**
 * Connects the readers and the writer of one task attempt: the input ranges of the task's slots and
 * the output made from them, in one transaction, or in several one after the other.
 *
 * <p>A reader enters before it reads, because only the group's stable offset says where to start.
 * The hazard is an earlier attempt, on this or another executor, that has committed the range, is
 * still committing it, or is paused and will try later:
 *
 * <ul>
 *   <li>committed: a plain fetch shows it, and this attempt does nothing;
 *   <li>still committing, or paused: {@code initTransactions} fences it, and the stable fetch that
 *       follows waits for its outcome (KIP-447). Fetching before {@code initTransactions} would
 *       read an offset that the earlier attempt may yet move.
 * </ul>
 *
 * An attempt skips this only if the driver has planned it to follow its own slot's last commit in
 * the same JVM.
 *
 * <p>A task has one slot, or after {@code coalesce} several of one source. Then the first one names
 * the transactional id. Every attempt of the task reads the same slots in the same order, so a
 * retry has the same id and fences the earlier attempt.
 */
public final class TaskTransaction {
  private final TaskScope scope;
  private final String transactionalId;
  private final Thread thread = Thread.currentThread();
  private final CommitSchedule schedule;
  private final FenceSource fences;
  private final List<SlotInput> slots = new CopyOnWriteArrayList<>();
  private final StartConfirmation confirmation;
  private final StableOffsets stable;
  private final AttemptOffsets offsets = new AttemptOffsets();
  private TransactionCounts counts = TransactionCounts.NONE;
  private TransactionalProducer producer;

  /**
   * False as long as all ranges that were entered had already been committed. The reader's thread
   * writes it last, so that the writer's thread sees what it has prepared.
   */
  private volatile boolean hasWork;

  /** What the producer committed before this attempt, if it continues without a stable fetch. */
  private Map<TopicPartition, OffsetAndMetadata> goingOnFrom = Map.of();

  private boolean ended;

  /** The group's offsets before those of the open transaction, if any were sent. */
  private Map<TopicPartition, Long> sentFrom = Map.of();

  /**
   * Whether a shared group's driver has lost partitions of this task: then the task does nothing.
   */
  private volatile boolean abandoned;

  /**
   * @param first the slot that names the transactional id
   */
  TaskTransaction(TaskScope scope, SlotWork first) {
    this.scope = scope;
    this.confirmation = new StartConfirmation(scope.identity().group());
    this.stable = new StableOffsets(scope);
    this.transactionalId =
        TransactionalId.ofSlot(
            scope.transactionalIdPrefix(),
            scope.identity().group(),
            scope.identity().producersId(),
            first.slot());
    this.fences =
        FenceSource.of(
            scope, transactionalId, () -> slots.stream().map(s -> s.work().slot()).toList());
    this.schedule =
        new CommitSchedule(System.nanoTime(), scope.commitIntervalMs(), scope.endAfterMs());
  }

  boolean isOf(TaskScope other) {
    return scope.equals(other);
  }

  public String token() {
    return scope.token();
  }

  /**
   * Where reading of a slot starts, by topic-partition; empty if an earlier attempt has committed
   * the slot's ranges: then nothing is read.
   */
  public Map<TopicPartition, OffsetAndMetadata> start(SlotWork work) {
    return abandoned || offsets.isCommitted(work) ? Map.of() : offsets.starts(work);
  }

  /** How long a reader that has entered had to wait for stable offsets, in milliseconds. */
  public long stableWaitMs(SlotWork work) {
    return SlotInput.of(work, slots).stableWaitMs();
  }

  /** A reader of this task enters, before it reads. */
  void join(SlotWork work) {
    for (SlotRange range : work.ranges()) {
      if (range.epochStart() != range.groupStart()) {
        throw EosKafkaException.of(
            "EOSKAFKA_SCOPE_BROKEN", Map.of("detail", "a task has a piece of " + range));
      }
    }
    if (slots.isEmpty()) {
      SlotProducers.take(transactionalId, scope, work)
          .ifPresent(
              idle -> {
                producer = idle.producer();
                goingOnFrom = idle.committed();
                confirmation.carriedOver(idle.unconfirmed());
              });
    }
    SlotInput input = new SlotInput(work);
    slots.add(input);
    if (abandoned) {
      input.endUnread();
      return;
    }
    if (producer != null && SlotProducers.follows(goingOnFrom, work)) {
      offsets.beginAfter(goingOnFrom, work);
    } else {
      try {
        findStart(input);
      } catch (TimeoutException | EosKafkaException e) {
        // The coordinator may be a former one: the next attempt looks it up again.
        ExecutorClients.forget(scope.source());
        ExecutorClients.forget(scope.sink());
        throw e;
      }
    }
    if (abandoned || offsets.isCommitted(work)) {
      input.endUnread();
    } else {
      hasWork = true;
    }
  }

  private void findStart(SlotInput input) {
    SlotWork work = input.work();
    List<TopicPartition> partitions = new ArrayList<>();
    work.ranges().forEach(r -> partitions.add(r.topicPartition()));
    GroupOffsets group =
        new GroupOffsets(ExecutorClients.admin(scope.source()), scope.identity().group());
    takeStart(input, group.committed(partitions), false);
    if (offsets.isCommitted(work) && !input.hasGone()) {
      confirmation.requireCommitted(scope, offsets.atTheirEnds(input));
      return;
    }
    if (!fences.isOwned()) {
      abandoned = true;
      return;
    }
    if (producer == null) {
      fences.requireMember();
      FaultPoint.BEFORE_INIT.reach();
      try {
        producer =
            TransactionalProducer.init(transactionalId, scope.sink(), scope.transactionTimeoutMs());
      } catch (EosKafkaException e) {
        if (!fences.isLost(e)) {
          throw e;
        }
        abandoned = true;
        return;
      }
      FaultPoint.AFTER_INIT.reach();
    }
    long began = System.nanoTime();
    takeStart(input, stable.fetch(partitions), true);
    input.setStableWaitMs((System.nanoTime() - began) / 1_000_000);
    confirmation.requireCommitted(scope, offsets.atTheirEnds(input));
  }

  private Set<TopicPartition> gone(List<SlotRange> ranges) {
    return GoneRanges.of(scope.source(), scope.identity().group(), ranges);
  }

  private GroupInspector members() {
    return new GroupInspector(ExecutorClients.admin(scope.source()), scope.identity().group());
  }

  /**
   * Uses the group's offsets as the start, if this query has committed them.
   *
   * @param isStable as in {@link StartOffsets#of}
   */
  private void takeStart(
      SlotInput input, Map<TopicPartition, OffsetAndMetadata> fetched, boolean isStable) {
    if (scope.skipsDeleted() && fetched.size() < input.work().ranges().size()) {
      // A topic's offsets are deleted with it.
      input.addGone(gone(input.work().ranges()));
    }
    Map<TopicPartition, OffsetAndMetadata> starts =
        StartOffsets.of(scope, input, fetched, isStable);
    if (isStable) {
      starts.forEach(
          (partition, start) -> {
            if (fetched.get(partition) != null) {
              confirmation.fetched(partition, start.offset());
            }
          });
    }
    offsets.begin(starts);
  }

  /**
   * Called by a reader once it has handed out its slot's last record.
   *
   * @param ends how far each partition's records were handed out, with the leader epoch, if known
   * @param gone partitions that were deleted before they were read to their ends
   * @param early whether it has stopped because of {@link #endNanos}
   */
  public void inputEnded(
      SlotWork work,
      Map<TopicPartition, OffsetAndMetadata> ends,
      Set<TopicPartition> gone,
      boolean early) {
    SlotInput.of(work, slots).end(ends, gone, early);
  }

  /** When the reader is to commit what it has handed out, see {@link CommitSchedule}. */
  public long commitDueNanos() {
    return schedule.dueNanos();
  }

  /** When the reader is to stop, so that the transaction of its records ends in time. */
  public long endNanos() {
    return schedule.endNanos();
  }

  /**
   * Commits all records that have been handed out, with their offsets, and continues in another
   * transaction. Called by a reader before it hands out its next record: the driver has found every
   * operator between reader and writer to be synchronous, so these records have been written.
   *
   * @param ends as in {@link #inputEnded}
   * @param gone as there
   * @return false if nothing was handed out since the last commit
   */
  public boolean commitSoFar(
      SlotWork work, Map<TopicPartition, OffsetAndMetadata> ends, Set<TopicPartition> gone) {
    if (Thread.currentThread() != thread) {
      throw EosKafkaException.of(
          "EOSKAFKA_SCOPE_BROKEN",
          Map.of("detail", "a task reads on another thread than it writes on"));
    }
    SlotInput.of(work, slots).handedOut(ends, gone);
    long began = System.nanoTime();
    long before = counts.committed();
    abandoned = !tryCommit();
    if (counts.committed() == before) {
      return false;
    }
    schedule.committed(began, System.nanoTime());
    return true;
  }

  /** Fails in time if the transaction nears its timeout. */
  public void checkTime() {
    if (producer != null) {
      producer.checkTime();
    }
  }

  public void send(ProducerRecord<byte[], byte[]> record) {
    if (!hasWork || abandoned) {
      // An operator that makes rows without input has made this row again; it is already committed.
      return;
    }
    try {
      begin();
      producer.send(record);
    } catch (EosKafkaException e) {
      if (!fences.isLost(e)) {
        throw named(e);
      }
      abandoned = true;
    }
  }

  private void begin() {
    if (!producer.isOpen()) {
      producer.begin(
          scope.registerTopics(),
          Map.of(),
          scope.identity().group(),
          ExecutorClients.admin(scope.sink()),
          ExecutorClients.coordinators(scope.sink()));
    }
  }

  /** The error of a failed attempt. If another driver has caused it, it names that driver. */
  private EosKafkaException named(EosKafkaException e) {
    return FenceSource.mayHaveEnded(e) && members().isTakenOver(scope.fence())
        ? TransactionalProducer.fencedByGroup(scope.fence(), members(), e)
        : e;
  }

  /**
   * Commits records and offsets together; a batch whose records were all dropped too. Where the
   * driver of a shared group has lost partitions since they were planned it aborts: their new owner
   * makes these records, and what was planned with them comes with the next batch.
   */
  public TaskReport commit() {
    if (slots.stream().anyMatch(input -> !input.hasEnded())) {
      throw EosKafkaException.of(
          "EOSKAFKA_INPUT_NOT_DRAINED", Map.of("transactionalId", transactionalId));
    }
    boolean isCommitted = !abandoned;
    if (hasWork && !abandoned) {
      isCommitted = tryCommit();
      if (isCommitted) {
        ended = true;
        if (!producer.isSpent()) {
          SlotProducers.rest(
              transactionalId,
              producer,
              offsets.known(goingOnFrom, slots),
              confirmation.unconfirmed());
        }
      }
    }
    if (!isCommitted) {
      abort();
    }
    fences.ended();
    stable.awaitAborted(producer, sentFrom);
    return TaskReport.of(
        scope.identity().producersId(),
        slots,
        isCommitted,
        offsets,
        counts.plus(TransactionCounts.takeFailed(scope.identity().producersId())));
  }

  /**
   * Whether the records handed out so far were committed. If not, the driver gave no fence, or
   * another driver owns the partitions by now.
   */
  private boolean tryCommit() {
    long began = System.nanoTime();
    Map<TopicPartition, OffsetAndMetadata> toCommit = offsetsToCommit();
    if (toCommit.isEmpty() && !producer.isOpen()) {
      return true;
    }
    if (toCommit.isEmpty()) {
      // All partitions were deleted meanwhile: nothing would check the fence and the starts.
      throw StartOffsets.changed(scope, slots.get(0).work().ranges().get(0), null);
    }
    try {
      if (!end(toCommit)) {
        return false;
      }
    } catch (EosKafkaException e) {
      if (!fences.isLost(e)) {
        throw named(e);
      }
      return false;
    }
    offsets.committed(toCommit);
    sentFrom = Map.of();
    long tookMs = (System.nanoTime() - began) / 1_000_000;
    counts = counts.plus(new TransactionCounts(1, 0, 0, tookMs));
    FaultPoint.AFTER_COMMIT.reach();
    stable.awaitCommitted(producer, offsets.last(toCommit.keySet()));
    return true;
  }

  /** Whether it was committed; otherwise the driver gave no fence. */
  private boolean end(Map<TopicPartition, OffsetAndMetadata> toCommit) {
    begin();
    FaultPoint.BEFORE_FLUSH.reach();
    producer.flush();
    FaultPoint.AFTER_FLUSH.reach();
    Optional<Fence> fence = fences.fence();
    if (fence.isEmpty()) {
      return false;
    }
    FaultPoint.AFTER_LEASE.reach();
    sentFrom = offsets.last(toCommit.keySet());
    try {
      producer.sendOffsets(toCommit, fence.get(), members());
    } catch (EosKafkaException e) {
      return fences.commitRefused(
          producer,
          toCommit,
          fence.get(),
          e,
          coordinator -> confirmation.require(scope, toCommit.keySet(), coordinator));
    }
    confirmation.require(scope, toCommit.keySet(), producer.offsetsCoordinator());
    FaultPoint.AFTER_OFFSETS.reach();
    producer.commit();
    return true;
  }

  private Map<TopicPartition, OffsetAndMetadata> offsetsToCommit() {
    Map<TopicPartition, OffsetAndMetadata> toCommit =
        offsets.toCommit(slots, scope.skipsDeleted(), range -> scope.stamp(range).encode());
    if (scope.skipsDeleted() && !toCommit.isEmpty()) {
      // The producer would retry the offset of a deleted partition until its timeout.
      List<SlotRange> all =
          slots.stream()
              .flatMap(
                  input ->
                      input.work().ranges().stream()
                          .filter(range -> !input.isGone(range.topicPartition())))
              .toList();
      toCommit.keySet().removeAll(gone(all));
    }
    return toCommit;
  }

  /** Ends an attempt that was not committed; does nothing after a commit. */
  public synchronized void abort() {
    if (producer != null && !ended) {
      ended = true;
      boolean aborted = producer.abortAndClose();
      TransactionCounts.failed(scope.identity().producersId(), aborted, producer.wasFenced());
    }
  }
}
