package io.eoskafka.spark;

import io.eoskafka.config.EosKafkaException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Explode;
import org.apache.spark.sql.catalyst.plans.InnerLike;
import org.apache.spark.sql.catalyst.plans.LeftAnti$;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.catalyst.plans.logical.Statistics;
import org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.execution.CoalesceExec;
import org.apache.spark.sql.execution.GenerateExec;
import org.apache.spark.sql.execution.LocalTableScanExec;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.UnionExec;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanExecBase;
import org.apache.spark.sql.execution.datasources.v2.MicroBatchScanExec;
import org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2Exec;
import org.apache.spark.sql.execution.exchange.BroadcastExchangeLike;
import org.apache.spark.sql.execution.exchange.Exchange;
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec;
import org.apache.spark.sql.execution.joins.BroadcastHashJoinExec;
import org.apache.spark.sql.execution.joins.BroadcastNestedLoopJoinExec;
import org.apache.spark.sql.execution.joins.CartesianProductExec;
import org.apache.spark.sql.execution.metric.SQLMetric;
import scala.math.BigInt;

/**
 * Decides by a batch's physical plan whether it can be in task scope. Task scope requires that one
 * task reads and writes the same records: anything in the writing stage that this class does not
 * know to be safe puts the batch in epoch scope.
 *
 * @param <S> the class of the connector's sources
 * @param epoch the micro-batch
 * @param scans every scan of a source of ours; one source may have several
 * @param notTaskScope why the batch is not in task scope, or empty: then each scan is in the
 *     writing stage, and no source is read twice
 * @param notSynchronous in task scope an operator that may hold rows back while it reads on, or
 *     empty: then all records that a reader has handed out are written when it is asked for more
 * @param putsSlotsTogether whether one task may read several slots, one after the other
 * @param isStateful whether the plan keeps state from batch to batch
 * @param write the plan node that shows the batch's metrics
 */
public record BatchPlan<S extends MicroBatchStream>(
    long epoch,
    List<ScanOfBatch<S>> scans,
    Optional<String> notTaskScope,
    Optional<String> notSynchronous,
    boolean putsSlotsTogether,
    boolean isStateful,
    SparkPlan write) {

  private static final Operators OPERATORS = Operators.of(SparkVersion.running());
  private static final BigInt NOTHING = BigInt.apply(0);

  /** Says why a plan is not suitable for task scope. */
  private static final class UnfitException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    UnfitException(String reason) {
      super(reason);
    }
  }

  /**
   * @param readers the factory of the batch's readers, not serialized yet
   */
  public record ScanOfBatch<S>(S source, PartitionReaderFactory readers) {}

  /**
   * Called on the query's thread, between planning and the start of the writing stage.
   *
   * @param type the class of the connector's sources
   * @param tasks of the writing stage
   */
  public static <S extends MicroBatchStream> BatchPlan<S> ofRunningBatch(
      Class<S> type, SparkContext spark, int tasks) {
    String execution = spark.getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
    String epoch =
        spark.getLocalProperty(MovedClass.MICRO_BATCH_EXECUTION.constant("BATCH_ID_KEY"));
    QueryExecution query =
        execution == null ? null : SQLExecution.getQueryExecution(Long.parseLong(execution));
    if (query == null || epoch == null) {
      throw broken("no running batch on this thread");
    }
    List<SparkPlan> writes = collect(query.executedPlan(), WriteToDataSourceV2Exec.class);
    if (writes.size() != 1) {
      throw broken("the plan has " + writes.size() + " writes: " + query.executedPlan());
    }
    SparkPlan stage = ((WriteToDataSourceV2Exec) writes.get(0)).query();
    List<ScanOfBatch<S>> scans = new ArrayList<>();
    for (DataSourceV2ScanExecBase scan : scans(stage)) {
      if (type.isInstance(streamOf(scan))) {
        scans.add(new ScanOfBatch<>(type.cast(streamOf(scan)), scan.readerFactory()));
      }
    }
    return new BatchPlan<>(
        Long.parseLong(epoch),
        scans,
        whyNotTaskScope(type, stage, tasks),
        whyNotSynchronous(stage),
        !collect(stage, CoalesceExec.class).isEmpty(),
        !collect(stage, MovedClass.STATEFUL_OPERATOR.type()).isEmpty(),
        writes.get(0));
  }

  /** Shows metrics of the write, by name, in Spark's SQL view. */
  public void report(Map<String, Long> metrics) {
    scala.collection.immutable.Map<String, SQLMetric> shown = write.metrics();
    List<SQLMetric> changed = new ArrayList<>();
    metrics.forEach(
        (name, value) -> {
          if (shown.contains(name)) {
            SQLMetric metric = shown.apply(name);
            metric.set(value);
            changed.add(metric);
          }
        });
    SparkContext spark = write.sparkContext();
    NamedMethod.POST_METRICS.callStatic(
        spark,
        spark.getLocalProperty(SQLExecution.EXECUTION_ID_KEY()),
        ScalaCollections.sequence(changed));
  }

  /** Its eoskafka sources, each once. */
  public List<S> sources() {
    Set<S> sources = Collections.newSetFromMap(new IdentityHashMap<>());
    scans.forEach(scan -> sources.add(scan.source()));
    return List.copyOf(sources);
  }

  private static Optional<String> whyNotTaskScope(Class<?> type, SparkPlan stage, int tasks) {
    try {
      List<DataSourceV2ScanExecBase> scans = new ArrayList<>();
      walk(type, stage, scans);
      if (scans.isEmpty()) {
        throw unfit("its plan reads no topic");
      }
      requireSlotsOfTheirOwn(stage, scans, tasks);
      return Optional.empty();
    } catch (UnfitException e) {
      return Optional.of(e.getMessage());
    }
  }

  /** Requires that each source is read once, and that each slot is read by one task. */
  private static void requireSlotsOfTheirOwn(
      SparkPlan stage, List<DataSourceV2ScanExecBase> scans, int tasks) {
    Set<Object> sources = Collections.newSetFromMap(new IdentityHashMap<>());
    int slots = 0;
    for (DataSourceV2ScanExecBase scan : scans) {
      if (!sources.add(streamOf(scan))) {
        throw unfit("it reads a source twice (" + scan.scan().description() + ")");
      }
      slots += slots(scan).size();
    }
    List<SparkPlan> coalesced = collect(stage, CoalesceExec.class);
    // Spark runs one task for a batch with no input partition.
    if (coalesced.isEmpty() && tasks != Math.max(slots, 1)) {
      throw unfit(tasks + " tasks read " + slots + " slots");
    }
    for (SparkPlan union : collect(stage, UnionExec.class)) {
      // Spark reads the corresponding partitions of such a union's branches in one task.
      if (!(union.outputPartitioning() instanceof UnknownPartitioning) && scans.size() > 1) {
        throw unfit("union would put slots of several sources in one task");
      }
    }
    for (SparkPlan coalesce : coalesced) {
      if (scans(coalesce).size() != 1) {
        throw unfit("coalesce would put slots of several sources in one task");
      }
    }
  }

  /** Follows the writing stage down to its scans. */
  private static void walk(Class<?> type, SparkPlan node, List<DataSourceV2ScanExecBase> scans) {
    if (MovedClass.STATEFUL_OPERATOR.type().isInstance(node)) {
      throw unfit("it keeps state (" + node.nodeName() + ")");
    }
    if (node instanceof DataSourceV2ScanExecBase scan && streamOf(scan) != null) {
      if (!type.isInstance(streamOf(scan))) {
        throw unfit("it reads from another source (" + scan.scan().description() + ")");
      }
      scans.add(scan);
      return;
    }
    if (node instanceof BroadcastExchangeLike || node instanceof ReusedExchangeExec) {
      requireStaticBroadcast(node);
      return;
    }
    if (node instanceof Exchange) {
      throw unfit("it shuffles (" + node.nodeName() + ")");
    }
    if (node instanceof LocalTableScanExec
        && NamedMethod.ROWS.listOf(node, InternalRow.class).isEmpty()) {
      // Spark puts this in the place of a union's source without new records.
      return;
    }
    if (node instanceof CartesianProductExec) {
      throw unfit("it joins a table that is not broadcast (" + node.nodeName() + ")");
    }
    List<SparkPlan> children = children(node);
    if (children.isEmpty()) {
      throw unfit("it reads from something else than eoskafka (" + node.nodeName() + ")");
    }
    // First: what is below an operator may have a reason that says more.
    children.forEach(child -> walk(type, child, scans));
    if (!OPERATORS.isFit(node)) {
      throw unfit(
          "it has an operator that is not known to be fit for task scope ("
              + node.nodeName()
              + ")");
    }
    if (isJoinOfNothing(node) && hasNews(node)) {
      throw unfit("it leaves its records unread, since no row passes its join with a static table");
    }
  }

  /**
   * Whether a join drops all rows because of what was broadcast. Generated code reads the rows, but
   * the operator itself does not even ask for them. Spark may run the operator although the plan
   * shows generated code, because it finds out later that the code is too large or does not
   * compile.
   */
  private static boolean isJoinOfNothing(SparkPlan node) {
    if (node instanceof BroadcastHashJoinExec join) {
      if (join.isNullAwareAntiJoin()) {
        return isListWithNull(join.buildPlan());
      }
      return (join.joinType() instanceof InnerLike || join.joinType() == LeftSemi$.MODULE$)
          && isEmptyBroadcast(join.buildPlan());
    }
    if (node instanceof BroadcastNestedLoopJoinExec join && join.condition().isEmpty()) {
      return join.joinType() == LeftSemi$.MODULE$ && isEmptyBroadcast(join.right())
          || join.joinType() == LeftAnti$.MODULE$ && !isEmptyBroadcast(join.right());
    }
    return false;
  }

  private static boolean hasNews(SparkPlan node) {
    return scans(node).stream().anyMatch(scan -> !slots(scan).isEmpty());
  }

  private static boolean isEmptyBroadcast(SparkPlan node) {
    return broadcast(node).filter(BatchPlan::isEmpty).isPresent();
  }

  /**
   * Whether Spark has kept no row of a list that had rows: it had a null, so NOT IN is never true.
   */
  private static boolean isListWithNull(SparkPlan node) {
    return broadcast(node)
        .filter(list -> !isEmpty(list) && list.sizeInBytes().equals(NOTHING))
        .isPresent();
  }

  /** The metrics of what was broadcast. The table itself would have to be read from its blocks. */
  private static Optional<Statistics> broadcast(SparkPlan node) {
    SparkPlan exchange = node instanceof ReusedExchangeExec reused ? reused.child() : node;
    if (exchange instanceof BroadcastExchangeLike broadcast) {
      return Optional.of(broadcast.runtimeStatistics());
    }
    return children(exchange).stream().flatMap(child -> broadcast(child).stream()).findFirst();
  }

  private static boolean isEmpty(Statistics table) {
    return table.rowCount().contains(NOTHING);
  }

  private static void requireStaticBroadcast(SparkPlan node) {
    SparkPlan exchange = node instanceof ReusedExchangeExec reused ? reused.child() : node;
    if (!(exchange instanceof BroadcastExchangeLike)) {
      throw unfit("it shuffles (" + exchange.nodeName() + ")");
    }
    if (!scans(exchange).isEmpty()) {
      throw unfit("it broadcasts a stream");
    }
  }

  private static Optional<String> whyNotSynchronous(SparkPlan node) {
    if (node instanceof Exchange || node instanceof ReusedExchangeExec) {
      // In task scope this is a broadcast of a static table, which has already been read.
      return Optional.empty();
    }
    boolean isWrapper = node instanceof AdaptiveSparkPlanExec || node instanceof QueryStageExec;
    // Hive's generators may keep rows for later.
    boolean isForeign =
        node instanceof GenerateExec generate
            && !generate.generator().getClass().getPackage().equals(Explode.class.getPackage());
    if (isForeign || !isWrapper && !OPERATORS.isSynchronous(node)) {
      return Optional.of(node.nodeName());
    }
    return children(node).stream().flatMap(child -> whyNotSynchronous(child).stream()).findFirst();
  }

  /** All scans of streams. */
  private static List<DataSourceV2ScanExecBase> scans(SparkPlan node) {
    return collect(node, DataSourceV2ScanExecBase.class).stream()
        .map(DataSourceV2ScanExecBase.class::cast)
        .filter(scan -> streamOf(scan) != null)
        .toList();
  }

  private static List<InputPartition> slots(DataSourceV2ScanExecBase scan) {
    return NamedMethod.INPUT_PARTITIONS.listOf(scan, InputPartition.class);
  }

  /** The stream that a scan reads, or null if it reads no stream. */
  private static MicroBatchStream streamOf(DataSourceV2ScanExecBase scan) {
    if (scan instanceof MicroBatchScanExec ofMicroBatch) {
      return ofMicroBatch.stream();
    }
    return SparkVersion.hasRealTime() ? RealTimePlans.streamOf(scan) : null;
  }

  private static List<SparkPlan> collect(SparkPlan node, Class<?> type) {
    List<SparkPlan> found = new ArrayList<>();
    if (type.isInstance(node)) {
      found.add(node);
    }
    children(node).forEach(child -> found.addAll(collect(child, type)));
    return found;
  }

  /** The children, without the wrappers of adaptive execution. */
  private static List<SparkPlan> children(SparkPlan node) {
    if (node instanceof AdaptiveSparkPlanExec adaptive) {
      return List.of(adaptive.executedPlan());
    }
    if (node instanceof QueryStageExec stage) {
      return List.of(stage.plan());
    }
    return NamedMethod.CHILDREN_OF_PLAN.listOf(node, SparkPlan.class);
  }

  private static UnfitException unfit(String reason) {
    return new UnfitException(reason);
  }

  private static EosKafkaException broken(String detail) {
    return EosKafkaException.of("EOSKAFKA_SCOPE_BROKEN", Map.of("detail", detail));
  }
}
