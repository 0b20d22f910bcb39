package io.eoskafka.source;

import io.eoskafka.spark.SumMetric;
import java.util.List;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** What readers count, in Spark's SQL view; the first two are the built-in connector's. */
public final class ScanMetrics {
  private ScanMetrics() {}

  static CustomMetric[] ofScan() {
    return List.of(new OffsetOutOfRange(), new DataLoss(), new StableOffsetWait())
        .toArray(CustomMetric[]::new);
  }

  static CustomTaskMetric[] ofTask(long offsetOutOfRange, long dataLoss, long stableWaitMs) {
    return new CustomTaskMetric[] {
      new SumMetric.Value(OffsetOutOfRange.NAME, offsetOutOfRange),
      new SumMetric.Value(DataLoss.NAME, dataLoss),
      new SumMetric.Value(StableOffsetWait.NAME, stableWaitMs)
    };
  }

  /** How often a partition could not be read where it was to be. */
  public static final class OffsetOutOfRange extends SumMetric {
    static final String NAME = "offsetOutOfRange";

    public OffsetOutOfRange() {
      super(NAME, "number of fetches out of a log's range");
    }
  }

  /** How often that meant that records are gone, and were skipped. */
  public static final class DataLoss extends SumMetric {
    static final String NAME = "dataLoss";

    public DataLoss() {
      super(NAME, "number of ranges with lost records");
    }
  }

  /** How long tasks had to wait until the offsets at their starts were stable. */
  public static final class StableOffsetWait extends SumMetric {
    static final String NAME = "stableOffsetWaitMs";

    public StableOffsetWait() {
      super(NAME, "wait for stable offsets (ms)");
    }
  }
}
