package io.eoskafka.spark;

import java.util.ArrayDeque;
import java.util.Collections;
import java.util.Deque;
import java.util.IdentityHashMap;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.spark.Dependency;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.ExternalRDD;
import org.apache.spark.sql.execution.LogicalRDD;

/**
 * Whether rows are made from those that a query has passed to its {@code foreachBatch} function.
 */
final class BatchRows {
  private static final String FOREACH_BATCH =
      "org.apache.spark.sql.execution.streaming.sources.ForeachBatchSink";

  private BatchRows() {}

  /**
   * Whether a query's function is running now. If not, the rows of its last batch must not be
   * requested: this would plan the next batch on the caller's thread.
   */
  static boolean isInFunction(StreamRun query) {
    return stack(query.queryExecutionThread()).anyMatch(name -> name.equals(FOREACH_BATCH));
  }

  /** Whether a query passes its batches to a function. */
  static boolean isForFunction(StreamRun query) {
    return query.sink().getClass().getName().equals(FOREACH_BATCH);
  }

  static Stream<String> stack(Thread thread) {
    return Stream.of(thread.getStackTrace()).map(StackTraceElement::getClassName);
  }

  /** Whether rows are made from those of the batch whose function is running, in any session. */
  static boolean areIn(Dataset<Row> rows, StreamRun query) {
    RDD<?> batch = query.lastExecution().toRdd();
    Set<Object> seen = Collections.newSetFromMap(new IdentityHashMap<>());
    Deque<LogicalPlan> plans = new ArrayDeque<>();
    plans.add(rows.queryExecution().analyzed());
    while (!plans.isEmpty()) {
      LogicalPlan plan = plans.pop();
      if (plan instanceof LogicalRDD leaf && isMadeFrom(leaf.rdd(), batch, seen)
          || plan instanceof ExternalRDD<?> other && isMadeFrom(other.rdd(), batch, seen)) {
        return true;
      }
      plans.addAll(NamedMethod.CHILDREN.listOf(plan, LogicalPlan.class));
      plans.addAll(NamedMethod.SUBQUERIES.listOf(plan, LogicalPlan.class));
    }
    return false;
  }

  private static boolean isMadeFrom(RDD<?> rdd, RDD<?> batch, Set<Object> seen) {
    Deque<RDD<?>> left = new ArrayDeque<>();
    left.add(rdd);
    while (!left.isEmpty()) {
      RDD<?> next = left.pop();
      if (next == batch) {
        return true;
      }
      if (seen.add(next)) {
        NamedMethod.DEPENDENCIES
            .listOf(next, Dependency.class)
            .forEach(from -> left.add(from.rdd()));
      }
    }
    return false;
  }
}
