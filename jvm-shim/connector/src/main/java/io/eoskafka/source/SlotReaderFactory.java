package io.eoskafka.source;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.config.SourceOptions;
import io.eoskafka.spark.SparkVersion;
import io.eoskafka.task.SlotRange;
import io.eoskafka.task.TaskAttempts;
import io.eoskafka.task.TaskScope;
import io.eoskafka.task.TaskTransaction;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;

/**
 * Makes the readers of one batch. The scope is set on the driver after Spark has planned and before
 * any task of the writing stage is serialized; readers of a batch without it read Spark's whole
 * range and open no transaction.
 */
public final class SlotReaderFactory implements PartitionReaderFactory {
  private static final long serialVersionUID = 1L;

  private final String sourceRun;
  private final int reading;
  private final ClientSettings client;
  private final String group;
  private final boolean includeHeaders;
  private final boolean failOnDataLoss;
  private final long pollTimeoutMs;
  private final ReadCounts counts;
  private volatile TaskScope scope;

  /**
   * @param sourceRun unique per run of a source or batch query; names its resting consumers
   * @param reading see {@link OwnedPartitions#reading}
   * @param group the source's, or null for a batch query
   * @param counts of the run, or null for a batch query
   */
  SlotReaderFactory(
      String sourceRun, int reading, String group, SourceOptions options, ReadCounts counts) {
    this.sourceRun = sourceRun;
    this.reading = reading;
    this.group = group;
    this.client = options.client();
    this.includeHeaders = options.includeHeaders();
    this.failOnDataLoss = options.failOnDataLoss();
    this.pollTimeoutMs = options.pollTimeoutMs();
    this.counts = counts;
  }

  /** Called once per batch, on the driver. */
  public void runInTaskScope(TaskScope fixed) {
    scope = fixed;
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    SlotPartition slot = (SlotPartition) partition;
    TaskContext task = TaskContext.get();
    Map<TopicPartition, OffsetAndMetadata> start = new HashMap<>();
    TaskTransaction transaction = null;
    if (scope == null) {
      slot.work()
          .ranges()
          .forEach(r -> start.put(r.topicPartition(), new OffsetAndMetadata(r.epochStart())));
    } else {
      transaction = TaskAttempts.enter(scope, slot.work(), task);
      start.putAll(transaction.start(slot.work()));
    }
    SlotConsumer consumer =
        start.isEmpty()
            ? null
            : SlotConsumer.open(
                new ReadRequest(
                    sourceRun + "-" + slot.work().slot(),
                    reading,
                    client,
                    group,
                    new DataLossPolicy(failOnDataLoss),
                    pollTimeoutMs,
                    start,
                    slot.work().ranges(),
                    task.attemptNumber() > 0 || task.stageAttemptNumber() > 0,
                    // Spark takes the order for fixed. If it loses the output of a shuffle, it runs
                    // a task again, and not those that have read its rows. (A range without an end,
                    // of real-time mode, would keep all others back.)
                    scope == null && slot.work().ranges().stream().noneMatch(SlotRange::isOpen)));
    RecordRow row = RecordRow.create(includeHeaders);
    return SparkVersion.hasRealTime()
        ? new RealTimeSlotReader(consumer, transaction, slot.work(), row, counts, slot.rests())
        : new SlotReader(consumer, transaction, slot.work(), row, counts, slot.rests());
  }
}
