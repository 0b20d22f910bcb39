package io.eoskafka.spark;

import java.util.HashSet;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.sql.execution.SparkPlan;

/**
 * The operators of one Spark version that may stand between the reader and the writer of a task in
 * task scope. Each of them makes a partition of rows from the partition of the same number and asks
 * for all of its rows. Any other operator, from a plug-in or a newer Spark, may behave differently,
 * so the batch is in epoch scope.
 *
 * <p>They are identified by the full name of their class, because a subclass may behave
 * differently.
 *
 * @param fit the operators that task scope allows
 * @param synchronous those that pass on all rows made from a row before they ask for another one. A
 *     join's other side is a static table, which has already been read. Each of them has a test
 *     (tests/integration/test_rotation.py); any other operator may hold rows back.
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

  /** They may hold rows back, in column batches, for Python, or to sort them. */
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
   * In Spark 3.5 another thread reads the input of a Python function. It is not proven that the
   * task's own thread sees in time what this thread has entered, so such plans are in epoch scope
   * there.
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
   * Before Spark 4.2, without generated code, it asks for the next row before it has passed on the
   * last row that it made from the present one. So what was read by then must not be committed.
   */
  private static final Set<String> EXPAND = named("ExpandExec");

  /** Spark 4.1 has real-time mode, and different packages for streaming. */
  private static final Set<String> SYNCHRONOUS_SINCE_4_1 =
      named(
          "datasources.v2.RealTimeStreamScanExec",
          "streaming.operators.stateful.EventTimeWatermarkExec");

  /** A version that is newer than all tested ones has the operators of the newest tested one. */
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
