package io.eoskafka.spark;

import java.util.HashSet;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.sql.execution.SparkPlan;

/**
 * The operators of one Spark version that may stand between the reader and the writer of a task in
 * task scope. Each of them makes a partition of rows from the partition of the same number and asks
 * for all of its rows. Any other operator, a plug-in's or a newer Spark's, may do otherwise, and
 * the batch is in epoch scope.
 *
 * <p>They are known by the full name of their class: a subclass may do something else.
 *
 * @param fit all of them
 * @param synchronous those that hand each row on, with all rows made of it, before they ask for
 *     another one. A join's other side is a static table, read before. Each of them has a test
 *     (tests/integration/test_rotation.py); any other one may hold rows back.
 */
record Operators(Set<String> fit, Set<String> synchronous) {
  private static final String PACKAGE = "org.apache.spark.sql.execution.";

  private static final Set<String> SYNCHRONOUS =
      named(
          "CoalesceExec",
          "CollectMetricsExec",
          "FilterExec",
          "GenerateExec",
          "InputAdapter",
          "LocalTableScanExec",
          "ProjectExec",
          "UnionExec",
          "WholeStageCodegenExec",
          "datasources.v2.MicroBatchScanExec",
          "joins.BroadcastHashJoinExec");

  /** They may hold rows back: in column batches, for Python, to sort them. */
  private static final Set<String> HOLDING =
      named(
          "ColumnarToRowExec",
          "DeserializeToObjectExec",
          "MapElementsExec",
          "MapPartitionsExec",
          "RowToColumnarExec",
          "SerializeFromObjectExec",
          "SortExec",
          "adaptive.AdaptiveSparkPlanExec",
          "adaptive.BroadcastQueryStageExec",
          "joins.BroadcastNestedLoopJoinExec");

  /**
   * Spark 3.5 has another thread read the input of a Python function. It was not shown that what
   * this thread enters is known to the task's own in time: such plans are in epoch scope there.
   */
  private static final Set<String> HOLDING_SINCE_4_0 =
      named(
          "adaptive.ResultQueryStageExec",
          "python.ArrowEvalPythonExec",
          "python.ArrowEvalPythonUDTFExec",
          "python.BatchEvalPythonExec",
          "python.BatchEvalPythonUDTFExec",
          "python.MapInArrowExec",
          "python.MapInPandasExec");

  private static final Set<String> SYNCHRONOUS_BEFORE_4_1 =
      named("streaming.EventTimeWatermarkExec");

  /**
   * Before Spark 4.2, without generated code, it asks for the next row before it has handed on the
   * last one that it made of a row. What was read by then must not be committed.
   */
  private static final Set<String> EXPAND = named("ExpandExec");

  /** Spark 4.1 has real-time mode, and other packages for streaming. */
  private static final Set<String> SYNCHRONOUS_SINCE_4_1 =
      named(
          "datasources.v2.RealTimeStreamScanExec",
          "streaming.operators.stateful.EventTimeWatermarkExec");

  /** A version that is newer than all that were tested has the newest one's. */
  static Operators of(SparkVersion version) {
    Set<String> synchronous = new HashSet<>(SYNCHRONOUS);
    synchronous.addAll(version.isAtLeast(4, 1) ? SYNCHRONOUS_SINCE_4_1 : SYNCHRONOUS_BEFORE_4_1);
    Set<String> fit = new HashSet<>(HOLDING);
    (version.isAtLeast(4, 2) ? synchronous : fit).addAll(EXPAND);
    if (version.isAtLeast(4, 0)) {
      fit.addAll(HOLDING_SINCE_4_0);
    }
    fit.addAll(synchronous);
    return new Operators(Set.copyOf(fit), Set.copyOf(synchronous));
  }

  boolean isFit(SparkPlan operator) {
    return fit.contains(operator.getClass().getName());
  }

  boolean isSynchronous(SparkPlan operator) {
    return synchronous.contains(operator.getClass().getName());
  }

  private static Set<String> named(String... names) {
    return Stream.of(names).map(name -> PACKAGE + name).collect(Collectors.toUnmodifiableSet());
  }
}
