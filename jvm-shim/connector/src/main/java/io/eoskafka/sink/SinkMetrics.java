package io.eoskafka.sink;

import io.eoskafka.transaction.TransactionCounts;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomSumMetric;

/**
 * What the last batch of a query has committed: {@code sink.metrics} of its progress, and metrics
 * of the batch's write in Spark's SQL view.
 *
 * <p>Shared by the writes of a query; used on its thread.
 */
public final class SinkMetrics {
  private Map<String, Long> numbers = Map.of();
  private String scope;

  /**
   * @param scope of the batch: task or epoch
   * @param counts of its transactions
   */
  void batch(String scope, TransactionCounts counts) {
    this.scope = scope;
    numbers =
        Map.of(
            TransactionsCommitted.NAME, counts.committed(),
            TransactionsAborted.NAME, counts.aborted(),
            FencedAttempts.NAME, counts.fenced(),
            CommitLatency.NAME, counts.commitMs());
  }

  /** By name, in the order in which a progress report shows them. */
  public Map<String, String> values() {
    Map<String, String> values = new TreeMap<>();
    if (scope != null) {
      values.put("transactionScope", scope);
    }
    numbers.forEach((name, number) -> values.put(name, number.toString()));
    return values;
  }

  Map<String, Long> numbers() {
    return numbers;
  }

  static CustomMetric[] ofWrite() {
    return List.of(
            new TransactionsCommitted(),
            new TransactionsAborted(),
            new FencedAttempts(),
            new CommitLatency())
        .toArray(CustomMetric[]::new);
  }

  /** Spark makes each of these by its name. */
  public static final class TransactionsCommitted extends CustomSumMetric {
    static final String NAME = "transactionsCommitted";

    @Override
    public String name() {
      return NAME;
    }

    @Override
    public String description() {
      return "transactions committed";
    }
  }

  /** Given up by attempts that failed, as far as their executors live. */
  public static final class TransactionsAborted extends CustomSumMetric {
    static final String NAME = "transactionsAborted";

    @Override
    public String name() {
      return NAME;
    }

    @Override
    public String description() {
      return "transactions aborted";
    }
  }

  /** Attempts whose producer another attempt, or a timeout, has fenced. */
  public static final class FencedAttempts extends CustomSumMetric {
    static final String NAME = "fencedAttempts";

    @Override
    public String name() {
      return NAME;
    }

    @Override
    public String description() {
      return "attempts fenced";
    }
  }

  /**
   * In task scope from a task's last record until its transaction had ended, of the slowest task;
   * in epoch scope from the last writer's report until all had.
   */
  public static final class CommitLatency extends CustomSumMetric {
    static final String NAME = "commitLatencyMs";

    @Override
    public String name() {
      return NAME;
    }

    @Override
    public String description() {
      return "commit latency (ms)";
    }
  }
}
