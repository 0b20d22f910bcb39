package io.eoskafka.source;

import io.eoskafka.config.SourceOptions;
import io.eoskafka.spark.RunningQuery;
import org.apache.spark.sql.connector.read.streaming.AcceptsLatestSeenOffset;
import org.apache.spark.sql.connector.read.streaming.Offset;

/**
 * A source in Spark 4.3, which refuses real-time mode for a checkpoint that micro-batches began:
 * its state store has format 1 there. A query without state has no state store.
 */
final class CheckpointV1Stream extends RealTimeMicroBatchStream implements AcceptsLatestSeenOffset {
  CheckpointV1Stream(SourceOptions options, String sourcePath) {
    super(options, sourcePath);
  }

  /** Called once the query's plan is known, and just before Spark looks at the format. */
  @Override
  public void setLatestSeenOffset(Offset offset) {
    if (isRealTime()) {
      RunningQuery.ofThisThread().allowCheckpointV1();
    }
  }
}
