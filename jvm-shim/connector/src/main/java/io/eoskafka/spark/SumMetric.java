package io.eoskafka.spark;

import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/**
 * A number that Spark's SQL view sums up. Spark instantiates each metric by its class name, so each
 * is a public class with a constructor without parameters.
 */
public abstract class SumMetric extends CustomSumMetric {
  private final String name;
  private final String description;

  protected SumMetric(String name, String description) {
    this.name = name;
    this.description = description;
  }

  @Override
  public final String name() {
    return name;
  }

  @Override
  public final String description() {
    return description;
  }

  /** The value of the metric in one task, or on the driver. */
  public record Value(String name, long value) implements CustomTaskMetric {}
}
