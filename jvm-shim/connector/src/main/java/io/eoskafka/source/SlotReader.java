package io.eoskafka.source;

import io.eoskafka.task.SlotWork;
import io.eoskafka.task.TaskTransaction;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;

/** Hands a slot's records to Spark, and tells the task's transaction when the last one is out. */
final class SlotReader implements PartitionReader<InternalRow> {
  private final SlotConsumer consumer;
  private final TaskTransaction transaction;
  private final SlotWork work;
  private final RecordRow row;
  private final boolean rests;
  private ConsumerRecord<byte[], byte[]> record;
  private boolean drained;

  /**
   * @param consumer null where nothing is to be read
   * @param transaction null outside task scope
   * @param rests whether the consumer is to rest for it
   */
  SlotReader(
      SlotConsumer consumer,
      TaskTransaction transaction,
      SlotWork work,
      RecordRow row,
      boolean rests) {
    this.consumer = consumer;
    this.transaction = transaction;
    this.work = work;
    this.row = row;
    this.rests = rests;
  }

  @Override
  public boolean next() {
    if (consumer == null) {
      return false;
    }
    record = consumer.next(transaction);
    if (record != null) {
      return true;
    }
    if (!drained) {
      consumer.requireSameTopics();
      drained = true;
      if (transaction != null) {
        transaction.inputDrained(work, consumer.leaderEpochsAtEnd(), consumer.gone());
      }
    }
    return false;
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
      consumer.release(drained && rests);
    }
  }
}
