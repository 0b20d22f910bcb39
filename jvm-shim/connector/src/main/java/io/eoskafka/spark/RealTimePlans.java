package io.eoskafka.spark;

import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanExecBase;
import org.apache.spark.sql.execution.datasources.v2.RealTimeStreamScanExec;
import org.apache.spark.sql.execution.streaming.RealTimeTrigger;
import org.apache.spark.sql.streaming.Trigger;

/** Spark's classes for real-time mode, which Spark 4.0 does not have: it must not load this one. */
final class RealTimePlans {
  private RealTimePlans() {}

  static boolean isRealTime(Trigger trigger) {
    return trigger instanceof RealTimeTrigger;
  }

  /** What a scan reads in real-time mode, or null. */
  static MicroBatchStream streamOf(DataSourceV2ScanExecBase scan) {
    return scan instanceof RealTimeStreamScanExec ofTime ? ofTime.stream() : null;
  }
}
