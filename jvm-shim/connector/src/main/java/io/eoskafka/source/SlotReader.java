package io.eoskafka.source;

import io.eoskafka.task.CommitSchedule;
import io.eoskafka.task.SlotWork;
import io.eoskafka.task.TaskTransaction;
import java.util.HashMap;
import java.util.Map;
import java.util.OptionalLong;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.TimestampType;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;

/**
 * Hands a slot's records to Spark. If a commit is due, it commits the records handed out so far
 * before it hands out the next one. After the last record, it notifies the task's transaction.
 *
 * <p>In a micro-batch Spark asks until there is no record; in real-time mode until the batch's time
 * is over, and then how far the slot was read.
 */
class SlotReader implements PartitionReader<InternalRow> {
  /** The clock is read once for so many records, since on some machines that takes long. */
  private static final int RECORDS_PER_LOOK = 4;

  /** Where a record takes so long, the clock is read for each. */
  private static final long SLOW_NANOS = 50_000_000;

  private final SlotConsumer consumer;
  private final TaskTransaction transaction;
  private final SlotWork work;
  private final RecordRow row;
  private final ReadCounts counts;
  private final boolean rests;
  private ConsumerRecord<byte[], byte[]> record;
  private int handedOut;
  // Until a record shows that it is not.
  private boolean isSlow = true;
  private long lookedNanos = System.nanoTime();
  private boolean hasEnded;
  private boolean isClosed;

  /**
   * @param consumer null where nothing is to be read
   * @param transaction null outside task scope
   * @param counts told at the end, or null
   * @param rests whether the consumer is to rest for it
   */
  SlotReader(
      SlotConsumer consumer,
      TaskTransaction transaction,
      SlotWork work,
      RecordRow row,
      ReadCounts counts,
      boolean rests) {
    this.consumer = consumer;
    this.transaction = transaction;
    this.work = work;
    this.row = row;
    this.counts = counts;
    this.rests = rests;
  }

  @Override
  public boolean next() {
    if (consumer == null || hasEnded) {
      return false;
    }
    // Not before there is a record: a partition that gives none has a timeout of its own.
    boolean mayEnd = transaction != null && record != null;
    long end = mayEnd ? transaction.endNanos() : CommitSchedule.NEVER;
    boolean looks = record != null && (isSlow || ++handedOut % RECORDS_PER_LOOK == 0);
    if (looks) {
      long now = System.nanoTime();
      isSlow = now - lookedNanos > SLOW_NANOS * (isSlow ? 1 : RECORDS_PER_LOOK);
      lookedNanos = now;
    }
    if (looks && isPast(end) || !advance(end, looks)) {
      end(!consumer.isDrained());
      return false;
    }
    return true;
  }

  /** Goes to the next record, in real-time mode; whether there is one in time. */
  final boolean nextWithin(long timeoutMs) {
    return consumer != null
        && !hasEnded
        && advance(System.nanoTime() + timeoutMs * 1_000_000, true);
  }

  /** When the record came to its topic, or empty if nobody says. */
  final OptionalLong arrivalTimeMs() {
    return record.timestampType() == TimestampType.NO_TIMESTAMP_TYPE
        ? OptionalLong.empty()
        : OptionalLong.of(record.timestamp());
  }

  /**
   * Goes to the next record.
   *
   * @param looks whether to look first if a commit is due
   * @return whether there is one in time
   */
  private boolean advance(long untilNanos, boolean looks) {
    while (true) {
      long due = transaction == null ? CommitSchedule.NEVER : transaction.commitDueNanos();
      if (looks && isPast(due)) {
        consumer.requireSameTopics();
        boolean isCommitted = transaction.commitSoFar(work, consumer.reached(), consumer.gone());
        // With nothing to commit it stays due: the next record does not wait for an interval.
        due = isCommitted ? transaction.commitDueNanos() : CommitSchedule.NEVER;
      }
      record = consumer.next(transaction, earlier(due, untilNanos));
      if (record != null) {
        return true;
      }
      if (consumer.isDrained() || isPast(untilNanos)) {
        return false;
      }
      looks = true;
    }
  }

  private static boolean isPast(long nanos) {
    return nanos != CommitSchedule.NEVER && System.nanoTime() - nanos >= 0;
  }

  private static long earlier(long one, long other) {
    if (one == CommitSchedule.NEVER || other == CommitSchedule.NEVER) {
      return one == CommitSchedule.NEVER ? other : one;
    }
    return one - other < 0 ? one : other;
  }

  private void end(boolean early) {
    consumer.requireSameTopics();
    hasEnded = true;
    if (transaction != null) {
      transaction.inputEnded(work, consumer.reached(), consumer.gone(), early);
    }
  }

  /** Spark asks once, when the batch's time is over and nothing more is read. */
  public PartitionOffset getOffset() {
    Map<TopicPartition, Long> reached = new HashMap<>();
    if (consumer != null) {
      if (!hasEnded) {
        end(false);
      }
      consumer.reached().forEach((partition, next) -> reached.put(partition, next.offset()));
    }
    return new SlotOffset(reached);
  }

  @Override
  public InternalRow get() {
    return row.of(record);
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    return ScanMetrics.ofTask(
        consumer == null ? 0 : consumer.outOfRange(),
        consumer == null ? 0 : consumer.losses(),
        transaction == null ? 0 : transaction.stableWaitMs(work));
  }

  @Override
  public void close() {
    if (consumer != null) {
      if (counts != null && !isClosed) {
        counts.add(consumer);
      }
      isClosed = true;
      consumer.release(hasEnded && rests);
    }
  }
}
