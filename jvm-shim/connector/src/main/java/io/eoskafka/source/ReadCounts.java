package io.eoskafka.source;

import java.io.Serializable;
import org.apache.spark.SparkContext;
import org.apache.spark.util.LongAccumulator;

/**
 * What the readers of a run count, for its progress reports: Spark gives a scan's own metrics to
 * its SQL view only. Attempts that fail do not count.
 *
 * @param outOfRange how often a partition could not be read where it was to be
 * @param losses how often that meant that records are gone, and were skipped
 */
record ReadCounts(LongAccumulator outOfRange, LongAccumulator losses) implements Serializable {
  static ReadCounts of(SparkContext spark) {
    return new ReadCounts(spark.longAccumulator(), spark.longAccumulator());
  }

  void add(SlotConsumer consumer) {
    outOfRange.add(consumer.outOfRange());
    losses.add(consumer.losses());
  }
}
