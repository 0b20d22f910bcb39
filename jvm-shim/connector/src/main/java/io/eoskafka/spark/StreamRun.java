package io.eoskafka.spark;

import java.util.UUID;
import java.util.concurrent.TimeoutException;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.streaming.Trigger;
import scala.collection.Seq;
import scala.collection.immutable.Map;

/** The methods that are needed of Spark's {@code StreamExecution}: a run of a streaming query. */
interface StreamRun {
  UUID id();

  UUID runId();

  void stop() throws TimeoutException;

  /** The session in which the query was started. */
  SparkSession sparkSession();

  Thread queryExecutionThread();

  String resolvedCheckpointRoot();

  Trigger trigger();

  Table sink();

  LogicalPlan logicalPlan();

  Seq<SparkDataStream> sources();

  QueryExecution lastExecution();

  /** What is needed of the running batch. */
  interface Batch {
    long batchId();

    Map<SparkDataStream, Offset> startOffsets();

    Map<SparkDataStream, Offset> endOffsets();
  }

  /** In Spark 4 the batch is in a {@code StreamExecutionContext}. */
  interface WithContext {
    /** Null before the first batch. */
    Object getLatestExecutionContext();

    SparkSession sparkSessionForStream();
  }

  /** In Spark 3.5 the batch is in the run itself. */
  interface WithoutContext {
    long currentBatchId();

    Map<SparkDataStream, Offset> committedOffsets();

    Map<SparkDataStream, Offset> availableOffsets();
  }

  /** The current batch of a run, or null before its first one. */
  static Batch latestBatch(StreamRun of) {
    Object execution = MovedClass.target(of);
    if (SparkVersion.running().hasBatchContext()) {
      return MovedClass.EXECUTION_CONTEXT.view(
          MovedClass.RUN_WITH_CONTEXT.view(execution).getLatestExecutionContext());
    }
    WithoutContext run = MovedClass.RUN_WITHOUT_CONTEXT.view(execution);
    return run.currentBatchId() < 0 ? null : new Former(run);
  }

  /** The query's own copy of the session, or null before its first batch. */
  static SparkSession sessionOf(StreamRun run) {
    if (SparkVersion.running().hasBatchContext()) {
      return MovedClass.RUN_WITH_CONTEXT.view(MovedClass.target(run)).sparkSessionForStream();
    }
    QueryExecution execution = run.lastExecution();
    return execution == null ? null : (SparkSession) NamedMethod.SESSION.of(execution);
  }

  /** The running batch of Spark 3.5. */
  record Former(WithoutContext run) implements Batch {
    @Override
    public long batchId() {
      return run.currentBatchId();
    }

    @Override
    public Map<SparkDataStream, Offset> startOffsets() {
      return run.committedOffsets();
    }

    @Override
    public Map<SparkDataStream, Offset> endOffsets() {
      return run.availableOffsets();
    }
  }
}
