package io.eoskafka.source;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.task.CommitSchedule;
import io.eoskafka.task.GoneRanges;
import io.eoskafka.task.IdlePool;
import io.eoskafka.task.SlotRange;
import io.eoskafka.task.TaskTransaction;
import io.eoskafka.wire.AuthorizationErrors;
import io.eoskafka.wire.FetchedTopics;
import io.eoskafka.wire.KafkaCalls;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.RetriableException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads a slot's ranges with one assigned consumer, which rests between batches and keeps what it
 * has fetched beyond a batch's end.
 *
 * <p>{@link PartitionCursor} says when a partition is drained.
 */
final class SlotConsumer {
  private static final Logger LOG = LoggerFactory.getLogger(SlotConsumer.class);
  private static final IdlePool<SlotConsumer> RESTING =
      new IdlePool<>(resting -> resting.closeNow());

  private final Consumer<byte[], byte[]> consumer;
  private final Supplier<Map<String, Uuid>> topicIds;
  private final Map<TopicPartition, PartitionCursor> cursors = new HashMap<>();
  private final ArrayDeque<PartitionCursor> ready = new ArrayDeque<>();
  private int reading;
  private PartitionCursor current;

  /** What the batch asks for that is read now, or was read last. */
  private ReadRequest request;

  /** Of this batch, if it is read in order: how many of its first ranges are drained. */
  private int drainedFirst;

  /** Of this batch: partitions whose topics were deleted. */
  private final Set<TopicPartition> gone = new HashSet<>();

  private final PollTimer timer = new PollTimer();
  private boolean released;

  /** Of this batch. */
  private OutOfRangePositions outOfRange;

  SlotConsumer(Consumer<byte[], byte[]> consumer, Supplier<Map<String, Uuid>> topicIds) {
    this.consumer = consumer;
    this.topicIds = topicIds;
  }

  private static SlotConsumer connect(ReadRequest first) {
    KafkaConsumer<byte[], byte[]> consumer =
        new KafkaConsumer<>(first.client().dataConsumer(first.consumer()));
    return new SlotConsumer(consumer, new FetchedTopics(consumer)::ids);
  }

  static SlotConsumer open(ReadRequest request) {
    SlotConsumer opened = RESTING.take(request.consumer());
    // What has failed may have been the resting one, or its log-in.
    if (opened != null && (request.isRetry() || !opened.mayGoOnWith(request))) {
      opened.closeNow();
      opened = null;
    }
    if (opened == null) {
      opened = connect(request);
    }
    try {
      opened.begin(request);
      if (request.isRetry()) {
        GoneRanges.of(request.client(), request.group(), request.ranges())
            .forEach(opened::skipGone);
      }
      return opened;
    } catch (RuntimeException e) {
      opened.closeNow();
      throw e;
    }
  }

  /** Not where it may hold records of a log that was cut, or of a former topic. */
  private boolean mayGoOnWith(ReadRequest next) {
    return request.reading() == next.reading()
        && next.ranges().stream()
            .allMatch(
                range -> {
                  PartitionCursor cursor = cursors.get(range.topicPartition());
                  return cursor == null || cursor.isOf(range.topicId());
                });
  }

  static void closeResting() {
    RESTING.closeIf(name -> true);
  }

  /** Those of a run of a source that has ended, in this JVM. */
  static void closeResting(String sourceRun) {
    RESTING.closeIf(name -> name.startsWith(sourceRun));
  }

  void begin(ReadRequest next) {
    released = false;
    gone.clear();
    drainedFirst = 0;
    request = next;
    outOfRange = new OutOfRangePositions(consumer, next, cursors::get, this::finishIfDrained);
    timer.restart();
    Set<TopicPartition> assignment = new HashSet<>(cursors.keySet());
    if (assignment.addAll(request.starts().keySet())) {
      consumer.assign(assignment);
      assignment.forEach(p -> cursors.computeIfAbsent(p, PartitionCursor::new));
    }
    for (SlotRange range : request.ranges()) {
      TopicPartition partition = range.topicPartition();
      OffsetAndMetadata from = request.starts().get(partition);
      PartitionCursor cursor = cursors.get(partition);
      if (!cursor.begin(range, from.offset())) {
        // With its leader epoch, so that the consumer notices a log that was truncated.
        consumer.seek(partition, from);
      }
      reading++;
      if (!cursor.isBufferEmpty()) {
        addReady(cursor);
      } else {
        finishIfDrained(cursor);
      }
    }
    // assign() keeps the paused state of partitions it had: say for each what it shall be.
    List<TopicPartition> paused = new ArrayList<>();
    List<TopicPartition> resumed = new ArrayList<>();
    cursors.forEach((p, cursor) -> (isFetched(cursor) ? resumed : paused).add(p));
    consumer.pause(paused);
    consumer.resume(resumed);
  }

  /**
   * Whether its records are fetched now. In order, something of each range is fetched ahead, since
   * a broker that has no record yet answers late, and only then a request for other partitions.
   */
  private boolean isFetched(PartitionCursor cursor) {
    return cursor.isReading()
        && (!request.inOrder() || cursor.isBufferEmpty() || cursor == first());
  }

  /** The cursor of the first range that is not drained. There is one, and all before have begun. */
  private PartitionCursor first() {
    while (true) {
      PartitionCursor cursor = cursors.get(request.ranges().get(drainedFirst).topicPartition());
      if (cursor.isReading()) {
        return cursor;
      }
      drainedFirst++;
    }
  }

  private void addReady(PartitionCursor cursor) {
    if (!request.inOrder()) {
      ready.add(cursor);
    }
  }

  /** The cursor whose records come next, or null if they have not been fetched yet. */
  private PartitionCursor nextReady() {
    if (!request.inOrder()) {
      return ready.poll();
    }
    return isReady() ? first() : null;
  }

  private boolean isReady() {
    return request.inOrder() ? reading > 0 && !first().isBufferEmpty() : !ready.isEmpty();
  }

  /**
   * The next record, or null when every range is drained, or none has come in time.
   *
   * @param transaction told of the time that passes while waiting; may be null
   * @param untilNanos how long to wait, as {@link TaskTransaction#endNanos} has it
   */
  ConsumerRecord<byte[], byte[]> next(TaskTransaction transaction, long untilNanos) {
    while (true) {
      if (current != null) {
        ConsumerRecord<byte[], byte[]> record = current.nextRecord();
        if (record != null) {
          return record;
        }
        finishIfDrained(current);
      }
      current = nextReady();
      if (current == null) {
        if (reading == 0 || !poll(transaction, untilNanos)) {
          return null;
        }
      }
    }
  }

  /** Whether every range is drained. */
  boolean isDrained() {
    return reading == 0;
  }

  private void finishIfDrained(PartitionCursor cursor) {
    if (cursor.isDrained()) {
      finish(cursor);
    }
  }

  private void finish(PartitionCursor cursor) {
    if (cursor.isReading()) {
      cursor.stopReading();
      reading--;
      consumer.pause(List.of(cursor.partition()));
      if (request.inOrder() && reading > 0) {
        consumer.resume(List.of(first().partition()));
      }
    }
  }

  /** Whether something has come, or nothing will, before the time is over. */
  private boolean poll(TaskTransaction transaction, long untilNanos) {
    while (!isReady() && reading > 0) {
      if (transaction != null) {
        transaction.checkTime();
      }
      long left = Long.MAX_VALUE;
      if (untilNanos != CommitSchedule.NEVER) {
        left = untilNanos - System.nanoTime();
        if (left <= 0) {
          return false;
        }
      }
      long began = System.nanoTime();
      ConsumerRecords<byte[], byte[]> polled;
      try {
        polled = consumer.poll(PollTimer.nextPoll(left));
      } catch (OffsetOutOfRangeException e) {
        outOfRange.resolve(e, topicIds.get());
        continue;
      } catch (AuthenticationException | AuthorizationException e) {
        throw AuthorizationErrors.or(e, "Read");
      } catch (InterruptException e) {
        throw KafkaCalls.asJava(e);
      }
      Map<String, Uuid> ids = topicIds.get();
      polled.nextOffsets().forEach((p, next) -> advance(p, next, polled.records(p), ids));
      if (!polled.nextOffsets().isEmpty()) {
        timer.restart();
        continue;
      }
      timer.waited(System.nanoTime() - began);
      long leftMs = request.isOpen() ? Long.MAX_VALUE : timer.leftMs(request.pollTimeoutMs());
      if (leftMs <= 0) {
        throw timedOut();
      }
      if (timer.isLookDue()) {
        long looked = System.nanoTime();
        goneAsFarAsKnown(leftMs).forEach(this::skipGone);
        timer.looked(System.nanoTime() - looked);
      }
    }
    return true;
  }

  /** None where brokers do not answer: what is waited for may come when they do. */
  private Set<TopicPartition> goneAsFarAsKnown(long mostMs) {
    List<SlotRange> reading =
        request.ranges().stream()
            .filter(range -> cursors.get(range.topicPartition()).isReading())
            .toList();
    try {
      return GoneRanges.within(mostMs, request.client(), request.group(), reading);
    } catch (EosKafkaException | RetriableException e) {
      LOG.info(
          "{}: which topics are gone could not be found out: {}", request.consumer(), e.toString());
      return Set.of();
    }
  }

  /** Counts a partition as read whose topic was deleted. */
  void skipGone(TopicPartition partition) {
    PartitionCursor cursor = cursors.get(partition);
    if (!cursor.isReading()) {
      return;
    }
    finishAsGone(cursor);
  }

  private void finishAsGone(PartitionCursor cursor) {
    request.dataLoss().skipPartition(cursor.partition(), cursor.position());
    cursor.giveUp(request.isOpen());
    finish(cursor);
    gone.add(cursor.partition());
  }

  /**
   * Called before anything is committed: what was read must be of the topics that were planned. The
   * client goes on by itself with a topic that was deleted and created again, whose records another
   * batch reads from their beginning.
   *
   * @throws EosKafkaException {@code EOSKAFKA_TOPIC_REPLACED}
   */
  void requireSameTopics() {
    Map<String, Uuid> ids = topicIds.get();
    for (SlotRange range : request.ranges()) {
      PartitionCursor cursor = cursors.get(range.topicPartition());
      if (!cursor.isReplaced(ids)) {
        continue;
      }
      // Also if the topic is known to be deleted: its successor may have given records before that.
      if (request.dataLoss().failOnDataLoss() || cursor.hasGiven()) {
        throw replaced(cursor);
      }
      if (gone.contains(cursor.partition())) {
        continue;
      }
      // The consumer may have asked a broker that is behind, and then the planned topic is there.
      if (!GoneRanges.of(request.client(), request.group(), List.of(range))
          .contains(cursor.partition())) {
        throw replaced(cursor);
      }
      finishAsGone(cursor);
    }
  }

  private static EosKafkaException replaced(PartitionCursor cursor) {
    return EosKafkaException.of("EOSKAFKA_TOPIC_REPLACED", Map.of("partition", cursor.partition()));
  }

  private void advance(
      TopicPartition partition,
      OffsetAndMetadata next,
      List<ConsumerRecord<byte[], byte[]>> records,
      Map<String, Uuid> ids) {
    PartitionCursor cursor = cursors.get(partition);
    cursor.fetched(records, next, ids);
    if (records.isEmpty()) {
      finishIfDrained(cursor);
    } else {
      addReady(cursor);
      if (!isFetched(cursor)) {
        consumer.pause(List.of(partition));
      }
    }
  }

  private EosKafkaException timedOut() {
    StringBuilder waiting = new StringBuilder();
    for (SlotRange range : request.ranges()) {
      TopicPartition partition = range.topicPartition();
      PartitionCursor cursor = cursors.get(partition);
      if (cursor.isReading() && waiting.length() < 1_000) {
        waiting
            .append(partition)
            .append(" at ")
            .append(cursor.position())
            .append(" of ")
            .append(cursor.end())
            .append("; ");
      }
    }
    return EosKafkaException.of(
        "EOSKAFKA_POLL_TIMEOUT",
        Map.of(
            "timeout",
            request.pollTimeoutMs(),
            "waiting",
            waiting,
            "servers",
            request.client().bootstrapServers()));
  }

  /** Partitions of this batch whose topics were deleted, so that nothing is committed of them. */
  Set<TopicPartition> gone() {
    return Set.copyOf(gone);
  }

  /** How often a position of this batch was not in its log. */
  long outOfRange() {
    return outOfRange.count();
  }

  /** How often records of this batch were gone, and skipped. */
  long losses() {
    return outOfRange.losses() + gone.size();
  }

  /** How far the records of each range are out, as {@link PartitionCursor#reached} has it. */
  Map<TopicPartition, OffsetAndMetadata> reached() {
    Map<TopicPartition, OffsetAndMetadata> reached = new HashMap<>();
    for (SlotRange range : request.ranges()) {
      TopicPartition partition = range.topicPartition();
      reached.put(partition, cursors.get(partition).reached(range.end()));
    }
    return reached;
  }

  /**
   * @param rests whether the consumer stays open for the next batch. Must be false if this batch
   *     did not end normally, because positions are then unclear. A consumer that would keep asking
   *     for a deleted topic is closed in any case
   */
  void release(boolean rests) {
    if (released) {
      return;
    }
    released = true;
    current = null;
    if (!rests || !gone.isEmpty()) {
      closeNow();
      return;
    }
    ready.clear();
    for (PartitionCursor cursor : cursors.values()) {
      if (cursor.isReading()) {
        cursor.endHere();
        finish(cursor);
      }
    }
    RESTING.put(request.consumer(), this);
  }

  /** Without a word to the brokers: one that hangs would be waited for. */
  private void closeNow() {
    consumer.close(CloseOptions.timeout(Duration.ZERO));
  }
}
