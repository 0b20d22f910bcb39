package io.eoskafka.task;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.group.GroupOffsets;
import io.eoskafka.stamp.Stamp;
import io.eoskafka.transaction.TransactionalId;
import io.eoskafka.transaction.TransactionalProducer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;

/**
 * Where reader and writer of one task attempt meet: the slot's input range and the output made from
 * it, in one transaction.
 *
 * <p>The reader enters first, because only the group's stable offset says where reading starts. The
 * hazard is an earlier attempt, on this or another executor, that has committed the range, is still
 * committing it, or is paused and will try later:
 *
 * <ul>
 *   <li>committed: a plain fetch shows it, and this attempt does nothing;
 *   <li>still committing, or paused: {@code initTransactions} fences it, and the stable fetch that
 *       follows waits for its outcome (KIP-447). Fetching before {@code initTransactions} would read
 *       an offset that the earlier attempt may yet move.
 * </ul>
 *
 * Only the attempt that follows its own slot's last commit in the same JVM, by the driver's word,
 * skips this.
 */
public final class TaskTransaction {
  /** Names this JVM for the driver; executor ids repeat across runs of a query. */
  private static final String JVM = java.util.UUID.randomUUID().toString();

  /** Markers of a transaction arrive within a second; a broker that restarts may need more. */
  private static final Duration STABLE_TIMEOUT = Duration.ofSeconds(60);

  private static final Map<Long, TaskTransaction> BY_ATTEMPT = new ConcurrentHashMap<>();
  private static final IdlePool<SlotProducer> PRODUCERS =
      new IdlePool<>(resting -> resting.producer.close());

  /** A producer and what it last committed. */
  private record SlotProducer(
      TransactionalProducer producer, Map<TopicPartition, Long> committed) {}

  private final TaskScope scope;
  private final SlotWork work;
  private final String transactionalId;
  private final Map<TopicPartition, OffsetAndMetadata> start = new HashMap<>();

  /** Null where an earlier attempt has committed the whole range. */
  private TransactionalProducer producer;

  private Map<TopicPartition, Long> producerCommitted = Map.of();

  /** Set by the thread that reads, which may be a Python runner's, and seen by the one that writes. */
  private volatile Map<TopicPartition, Optional<Integer>> drained;

  private boolean ended;

  private TaskTransaction(TaskScope scope, SlotWork work) {
    this.scope = scope;
    this.work = work;
    this.transactionalId =
        TransactionalId.ofSlot(
            scope.transactionalIdPrefix(),
            scope.identity().group(),
            scope.identity().id(),
            work.slot());
  }

  /**
   * Called by the reader, before it reads. The transaction ends with the task: one that was not
   * committed is aborted when the task completes, whatever happened to the writer.
   */
  public static TaskTransaction enter(TaskScope scope, SlotWork work, TaskContext task) {
    TaskTransaction entered = new TaskTransaction(scope, work);
    if (BY_ATTEMPT.putIfAbsent(task.taskAttemptId(), entered) != null) {
      throw EosKafkaException.of("EOSKAFKA_SCOPE_BROKEN", Map.of("detail", "two slots in a task"));
    }
    task.addTaskCompletionListener(
        (org.apache.spark.util.TaskCompletionListener)
            ended -> {
              BY_ATTEMPT.remove(ended.taskAttemptId());
              entered.abort();
            });
    entered.openProducer();
    return entered;
  }

  /** The transaction of the running task, or null where no reader has entered. */
  public static TaskTransaction current() {
    return BY_ATTEMPT.get(TaskContext.get().taskAttemptId());
  }

  /** Closes resting producers, at the executor's end. */
  public static void closeResting() {
    PRODUCERS.closeAll();
  }

  public String token() {
    return scope.token();
  }

  /** Whether an earlier attempt has committed the range: nothing is read, nothing is sent. */
  public boolean alreadyCommitted() {
    return producer == null;
  }

  /** Where reading starts, by topic-partition. */
  public Map<TopicPartition, OffsetAndMetadata> start() {
    return start;
  }

  private void openProducer() {
    SlotProducer resting = PRODUCERS.take(transactionalId);
    if (resting != null) {
      if (goesOn(resting)) {
        producer = resting.producer;
        producerCommitted = resting.committed;
        work.ranges()
            .forEach(r -> start.put(r.topicPartition(), new OffsetAndMetadata(r.groupStart())));
        return;
      }
      resting.producer.close();
    }
    GroupOffsets offsets =
        new GroupOffsets(ExecutorAdmin.of(scope.source()), scope.identity().group());
    List<TopicPartition> partitions = new ArrayList<>();
    work.ranges().forEach(r -> partitions.add(r.topicPartition()));
    takeStart(offsets.committed(partitions));
    if (isCommitted()) {
      return;
    }
    producer =
        TransactionalProducer.init(transactionalId, scope.sink(), scope.transactionTimeoutMs());
    FaultPoint.AFTER_INIT.reach();
    try {
      takeStart(offsets.stable(partitions, STABLE_TIMEOUT));
    } catch (TimeoutException e) {
      throw GroupOffsets.stillUnstable(scope.identity().group(), STABLE_TIMEOUT, e);
    }
    if (isCommitted()) {
      producer.close();
      producer = null;
    }
  }

  private boolean goesOn(SlotProducer resting) {
    return TaskContext.get().attemptNumber() == 0
        && TaskContext.get().stageAttemptNumber() == 0
        && JVM.equals(work.owner())
        && resting.producer.hasSettings(scope.sink(), scope.transactionTimeoutMs())
        && work.ranges().stream()
            .allMatch(
                r ->
                    Long.valueOf(r.groupStart())
                        .equals(resting.committed.get(r.topicPartition())));
  }

  /** Checks each offset's stamp and takes it as the start. */
  private void takeStart(Map<TopicPartition, OffsetAndMetadata> fetched) {
    for (SlotRange range : work.ranges()) {
      TopicPartition partition = range.topicPartition();
      OffsetAndMetadata offset = fetched.get(partition);
      Optional<Stamp> stamp =
          offset == null ? Optional.empty() : Stamp.parse(offset.metadata());
      if (stamp.isEmpty()
          || !stamp.get().identity().equals(scope.identity().id())
          || offset.offset() < range.groupStart()) {
        throw EosKafkaException.of(
            "EOSKAFKA_OFFSETS_CHANGED",
            Map.of(
                "group", scope.identity().group(),
                "partition", partition,
                "planned", range.groupStart(),
                "found", offset == null ? "none" : offset.offset(),
                "stamp", offset == null ? "none" : offset.metadata()));
      }
      start.put(partition, offset);
    }
  }

  private boolean isCommitted() {
    return work.ranges().stream()
        .allMatch(r -> start.get(r.topicPartition()).offset() >= r.end());
  }

  /**
   * Called by the reader once it has handed out its last record.
   *
   * @param leaderEpochs for each partition the leader epoch at its planned end, where known
   */
  public void inputDrained(Map<TopicPartition, Optional<Integer>> leaderEpochs) {
    drained = leaderEpochs;
  }

  /** Fails while there is time to, if the transaction nears its timeout. */
  public void checkTime() {
    if (producer != null) {
      producer.checkTime();
    }
  }

  public void send(ProducerRecord<byte[], byte[]> record) {
    if (producer == null) {
      // An operator that makes rows from no input made this one again; its first form is committed.
      return;
    }
    begin();
    producer.send(record);
  }

  private void begin() {
    if (!producer.isOpen()) {
      producer.begin();
    }
  }

  /** Commits records and offsets together; a batch whose records were all dropped too. */
  public SlotCommit commit() {
    if (producer != null) {
      if (drained == null) {
        throw EosKafkaException.of(
            "EOSKAFKA_INPUT_NOT_DRAINED", Map.of("transactionalId", transactionalId));
      }
      begin();
      FaultPoint.BEFORE_FLUSH.reach();
      producer.flush();
      FaultPoint.AFTER_FLUSH.reach();
      producer.sendOffsets(offsetsToCommit(), scope.fence());
      FaultPoint.AFTER_OFFSETS.reach();
      producer.commit();
      rest();
      FaultPoint.AFTER_COMMIT.reach();
    }
    Map<TopicPartition, Long> reached = new HashMap<>();
    for (SlotRange range : work.ranges()) {
      TopicPartition partition = range.topicPartition();
      reached.put(partition, Math.max(range.end(), start.get(partition).offset()));
    }
    SparkEnv env = SparkEnv.get();
    return new SlotCommit(
        work.slot(), JVM, env.executorId(), env.blockManager().blockManagerId().host(), reached);
  }

  private Map<TopicPartition, OffsetAndMetadata> offsetsToCommit() {
    Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
    for (SlotRange range : work.ranges()) {
      TopicPartition partition = range.topicPartition();
      if (start.get(partition).offset() < range.end()) {
        Stamp stamp =
            new Stamp(
                Stamp.Scope.TASK,
                scope.identity().id(),
                range.topicId(),
                Stamp.SAME_CLUSTER,
                scope.epoch());
        // The planned end, not the last record + 1: control records lie between.
        offsets.put(
            partition,
            new OffsetAndMetadata(
                range.end(),
                drained.getOrDefault(partition, Optional.empty()),
                stamp.encode()));
      }
    }
    return offsets;
  }

  private void rest() {
    ended = true;
    Map<TopicPartition, Long> known = new HashMap<>(producerCommitted);
    work.ranges().forEach(r -> known.put(r.topicPartition(), r.end()));
    PRODUCERS.put(transactionalId, new SlotProducer(producer, known));
  }

  /** Ends an attempt that was not committed; does nothing after a commit. */
  public synchronized void abort() {
    if (producer != null && !ended) {
      ended = true;
      producer.abortAndClose();
    }
  }
}
