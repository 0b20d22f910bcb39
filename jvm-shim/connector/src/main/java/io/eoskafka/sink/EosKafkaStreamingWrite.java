package io.eoskafka.sink;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SinkOptions;
import io.eoskafka.source.EosKafkaMicroBatchStream;
import io.eoskafka.task.SlotCommit;
import io.eoskafka.wire.KafkaCalls;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.kafka.clients.admin.Admin;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The driver's side of the sink: fixes the scope of each batch, and closes the batch's account. */
final class EosKafkaStreamingWrite implements StreamingWrite {
  private static final Logger LOG = LoggerFactory.getLogger(EosKafkaStreamingWrite.class);

  private final SinkOptions options;
  private final OutputColumns columns;
  private List<EosKafkaMicroBatchStream> sources = List.of();

  EosKafkaStreamingWrite(SinkOptions options, OutputColumns columns) {
    this.options = options;
    this.columns = columns;
  }

  @Override
  public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
    SparkContext spark = SparkContext.getOrCreate();
    BatchPlan plan = BatchPlan.ofRunningBatch(spark, info.numPartitions());
    sources = plan.scans().stream().map(BatchPlan.ScanOfBatch::source).toList();
    sources.forEach(this::requireSameCluster);
    String token = UUID.randomUUID() + "/" + plan.epoch();
    for (BatchPlan.ScanOfBatch scan : plan.scans()) {
      scan.readers().runInTaskScope(scan.source().taskScope(token, plan.epoch(), options));
    }
    return new TaskScopeWriterFactory(token, columns);
  }

  private void requireSameCluster(EosKafkaMicroBatchStream source) {
    if (source.isOn(options.client())) {
      return;
    }
    String cluster;
    try (Admin admin = Admin.create(options.client().admin("eoskafka-driver-sink"))) {
      cluster = KafkaCalls.reach(admin.describeCluster().clusterId(), options.client());
    }
    if (!cluster.equals(source.clusterId())) {
      throw EosKafkaException.of(
          "EOSKAFKA_SCOPE_REFUSED",
          Map.of(
              "reason",
              "its source is on cluster " + source.clusterId() + " and its sink on " + cluster));
    }
    source.isAlsoOn(options.client());
  }

  /** The group coordinator and the producers' ids decide between attempts, not Spark's driver. */
  @Override
  public boolean useCommitCoordinator() {
    return false;
  }

  @Override
  public void commit(long epochId, WriterCommitMessage[] messages) {
    List<SlotCommit> commits = new ArrayList<>();
    for (WriterCommitMessage message : messages) {
      commits.addAll(((SlotCommitMessage) message).commits());
    }
    sources.forEach(source -> source.taskScopeCommitted(epochId, commits));
  }

  /** Tasks end their own transactions; those of lost executors end when the query stops. */
  @Override
  public void abort(long epochId, WriterCommitMessage[] messages) {
    LOG.warn(
        "Batch {} failed; what its tasks have committed is skipped when it runs again", epochId);
  }
}
