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
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/** What is needed of Spark's {@code StreamExecution}: a run of a streaming query. */
interface StreamRun {
  UUID id();

  UUID runId();

  void stop() throws TimeoutException;

  /** The session that the query was started in. */
  SparkSession sparkSession();

  /** The query's own copy of it. */
  SparkSession sparkSessionForStream();

  Thread queryExecutionThread();

  String resolvedCheckpointRoot();

  Trigger trigger();

  Table sink();

  LogicalPlan logicalPlan();

  Seq<SparkDataStream> sources();

  QueryExecution lastExecution();

  /** Null before the first batch. {@link #latestBatch} views it. */
  Object getLatestExecutionContext();

  /** What is needed of Spark's {@code StreamExecutionContext}: the running batch. */
  interface Batch {
    long batchId();

    Map<SparkDataStream, Offset> startOffsets();

    Map<SparkDataStream, Offset> endOffsets();
  }

  /** The batch that a run is in, or null before its first one. */
  static Batch latestBatch(StreamRun run) {
    return MovedClass.EXECUTION_CONTEXT.view(run.getLatestExecutionContext());
  }
}
