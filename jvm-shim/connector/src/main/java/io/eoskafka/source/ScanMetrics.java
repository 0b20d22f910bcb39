package io.eoskafka.source;

import java.util.List;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/**
 * What readers count, in Spark's SQL view; the first two are the built-in connector's. Spark makes
 * each of the classes by its name.
 */
public final class ScanMetrics {
  private ScanMetrics() {}

  static CustomMetric[] ofScan() {
    return List.of(new OffsetOutOfRange(), new DataLoss(), new StableOffsetWait())
        .toArray(CustomMetric[]::new);
  }

  static CustomTaskMetric[] ofTask(long offsetOutOfRange, long dataLoss, long stableWaitMs) {
    return new CustomTaskMetric[] {
      new Value(OffsetOutOfRange.NAME, offsetOutOfRange),
      new Value(DataLoss.NAME, dataLoss),
      new Value(StableOffsetWait.NAME, stableWaitMs)
    };
  }

  private record Value(String name, long value) implements CustomTaskMetric {}

  /** How often a partition could not be read where it was to be. */
  public static final class OffsetOutOfRange extends CustomSumMetric {
    static final String NAME = "offsetOutOfRange";

    @Override
    public String name() {
      return NAME;
    }

    @Override
    public String description() {
      return "number of fetches out of a log's range";
    }
  }

  /** How often that meant that records are gone, and were skipped. */
  public static final class DataLoss extends CustomSumMetric {
    static final String NAME = "dataLoss";

    @Override
    public String name() {
      return NAME;
    }

    @Override
    public String description() {
      return "number of ranges with lost records";
    }
  }

  /** How long tasks had to wait until the offsets at their starts were stable. */
  public static final class StableOffsetWait extends CustomSumMetric {
    static final String NAME = "stableOffsetWaitMs";

    @Override
    public String name() {
      return NAME;
    }

    @Override
    public String description() {
      return "wait for stable offsets (ms)";
    }
  }
}
