package io.eoskafka.spark;

import java.util.Optional;
import java.util.Set;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionOperation;

/**
 * What a streaming query's logical plan shows before its first batch is planned. It knows the usual
 * operators that shuffle or keep state, so that they are refused early. Each batch's physical plan
 * is what decides.
 */
final class LogicalShape {
  /** By name, since Spark adds and removes some from version to version. */
  private static final Set<String> GATHERS =
      Set.of(
          "Aggregate",
          "Distinct",
          "Deduplicate",
          "DeduplicateWithinWatermark",
          "FlatMapGroupsWithState",
          "FlatMapGroupsInPandasWithState",
          "TransformWithState",
          "TransformWithStateInPySpark",
          "FlatMapGroupsInPandas",
          "FlatMapGroupsInArrow",
          "MapGroups",
          "RebalancePartitions",
          "GlobalLimit",
          "Sort",
          "Window");

  private LogicalShape() {}

  /** An operator over a stream that brings together what several tasks have read, or empty. */
  static Optional<String> gathers(LogicalPlan plan) {
    if (!plan.isStreaming()) {
      return Optional.empty();
    }
    boolean gathers =
        GATHERS.contains(plan.getClass().getSimpleName())
            || plan instanceof RepartitionOperation repartition && repartition.shuffle()
            || plan instanceof Join join && join.left().isStreaming() && join.right().isStreaming();
    return gathers
        ? Optional.of(plan.nodeName())
        : NamedMethod.CHILDREN.listOf(plan, LogicalPlan.class).stream()
            .flatMap(child -> gathers(child).stream())
            .findFirst();
  }
}
