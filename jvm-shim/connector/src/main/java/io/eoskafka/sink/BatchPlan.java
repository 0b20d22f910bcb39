package io.eoskafka.sink;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.source.EosKafkaMicroBatchStream;
import io.eoskafka.source.SlotReaderFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.execution.CoalesceExec;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.UnionExec;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.datasources.v2.MicroBatchScanExec;
import org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2Exec;
import org.apache.spark.sql.execution.exchange.BroadcastExchangeLike;
import org.apache.spark.sql.execution.exchange.Exchange;
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperator;
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The look at a batch's physical plan that decides its scope; every use of Spark's plan classes is
 * here. Task scope holds where one task reads and writes the same records: anything in the writing
 * stage that this class does not know to be safe refuses it.
 *
 * @param epoch the micro-batch
 * @param source the only source that the plan reads
 * @param readers what will make the batch's readers, not serialized yet
 */
record BatchPlan(long epoch, EosKafkaMicroBatchStream source, SlotReaderFactory readers) {

  /** Called on the query's thread, between planning and the start of the writing stage. */
  static BatchPlan ofRunningBatch(SparkContext spark) {
    String execution = spark.getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
    String epoch = spark.getLocalProperty(MicroBatchExecution.BATCH_ID_KEY());
    QueryExecution query =
        execution == null ? null : SQLExecution.getQueryExecution(Long.parseLong(execution));
    if (query == null || epoch == null) {
      throw broken("no running batch on this thread");
    }
    List<SparkPlan> writes = new ArrayList<>();
    collect(query.executedPlan(), WriteToDataSourceV2Exec.class, writes);
    if (writes.size() != 1) {
      throw broken("the plan has " + writes.size() + " writes: " + query.executedPlan());
    }
    List<MicroBatchScanExec> scans = new ArrayList<>();
    walk(((WriteToDataSourceV2Exec) writes.get(0)).query(), scans);
    if (scans.size() != 1) {
      throw refused("the stage that writes has " + scans.size() + " scans; it needs exactly one");
    }
    MicroBatchScanExec scan = scans.get(0);
    return new BatchPlan(
        Long.parseLong(epoch),
        (EosKafkaMicroBatchStream) scan.stream(),
        (SlotReaderFactory) scan.readerFactory());
  }

  /** Follows the writing stage down to its scans. */
  private static void walk(SparkPlan node, List<MicroBatchScanExec> scans) {
    if (node instanceof StatefulOperator) {
      throw refused("it keeps state (" + node.nodeName() + ")");
    }
    if (node instanceof MicroBatchScanExec scan) {
      if (!(scan.stream() instanceof EosKafkaMicroBatchStream)) {
        throw refused("it reads from another source (" + scan.scan().description() + ")");
      }
      scans.add(scan);
      return;
    }
    if (node instanceof BroadcastExchangeLike || node instanceof ReusedExchangeExec) {
      requireStaticBroadcast(node);
      return;
    }
    if (node instanceof Exchange) {
      throw refused("it shuffles (" + node.nodeName() + ")");
    }
    if (node instanceof CoalesceExec || node instanceof UnionExec) {
      throw refused("a task would hold several slots (" + node.nodeName() + ")");
    }
    List<SparkPlan> children = children(node);
    if (children.isEmpty()) {
      throw refused("it reads from something else than eoskafka (" + node.nodeName() + ")");
    }
    children.forEach(child -> walk(child, scans));
  }

  private static void requireStaticBroadcast(SparkPlan node) {
    SparkPlan exchange = node instanceof ReusedExchangeExec reused ? reused.child() : node;
    if (!(exchange instanceof BroadcastExchangeLike)) {
      throw refused("it shuffles (" + exchange.nodeName() + ")");
    }
    List<SparkPlan> scans = new ArrayList<>();
    collect(exchange, MicroBatchScanExec.class, scans);
    if (!scans.isEmpty()) {
      throw refused("it broadcasts a stream");
    }
  }

  private static void collect(SparkPlan node, Class<?> type, List<SparkPlan> found) {
    if (type.isInstance(node)) {
      found.add(node);
    }
    children(node).forEach(child -> collect(child, type, found));
  }

  /** The children, through the wrappers of adaptive execution. */
  private static List<SparkPlan> children(SparkPlan node) {
    if (node instanceof AdaptiveSparkPlanExec adaptive) {
      return List.of(adaptive.executedPlan());
    }
    if (node instanceof QueryStageExec stage) {
      return List.of(stage.plan());
    }
    return CollectionConverters.asJava(node.children());
  }

  private static EosKafkaException refused(String reason) {
    return EosKafkaException.of("EOSKAFKA_SCOPE_REFUSED", Map.of("reason", reason));
  }

  private static EosKafkaException broken(String detail) {
    return EosKafkaException.of("EOSKAFKA_SCOPE_BROKEN", Map.of("detail", detail));
  }
}
