package io.eoskafka.sink;

import io.eoskafka.spark.SumMetric;
import io.eoskafka.transaction.TransactionCounts;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.TreeMap;
import org.apache.spark.sql.connector.metric.CustomMetric;

/**
 * What a query's last batch has committed, for {@code sink.metrics} in its progress and for the
 * metrics of the batch's write in Spark's SQL view.
 *
 * <p>Shared by the writes of a query; used on its thread.
 */
public final class SinkMetrics {
  private Map<String, Long> numbers = Map.of();
  private String scope;
  private OptionalLong timeLeft = OptionalLong.empty();

  /**
   * @param scope of the batch: task or epoch
   * @param counts of its transactions
   */
  void batch(String scope, TransactionCounts counts) {
    this.scope = scope;
    timeLeft = OptionalLong.empty();
    numbers =
        Map.of(
            TransactionsCommitted.NAME, counts.committed(),
            TransactionsAborted.NAME, counts.aborted(),
            FencedAttempts.NAME, counts.fenced(),
            CommitLatency.NAME, counts.commitMs());
  }

  /**
   * The same for a batch in epoch scope.
   *
   * @param left how much later it could have been decided, in milliseconds
   */
  void epoch(TransactionCounts counts, OptionalLong left) {
    batch("epoch", counts);
    timeLeft = left;
  }

  /** By name, in the order in which a progress report shows them. */
  public Map<String, String> values() {
    Map<String, String> values = new TreeMap<>();
    if (scope != null) {
      values.put("transactionScope", scope);
    }
    numbers.forEach((name, number) -> values.put(name, number.toString()));
    timeLeft.ifPresent(left -> values.put("epochTimeLeftMs", Long.toString(left)));
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

  /** Committed by the tasks in task scope, by the driver in epoch scope. */
  public static final class TransactionsCommitted extends SumMetric {
    static final String NAME = "transactionsCommitted";

    public TransactionsCommitted() {
      super(NAME, "transactions committed");
    }
  }

  /** Given up by attempts that failed, as far as their executors are still running. */
  public static final class TransactionsAborted extends SumMetric {
    static final String NAME = "transactionsAborted";

    public TransactionsAborted() {
      super(NAME, "transactions aborted");
    }
  }

  /** Attempts whose producer was fenced by another attempt or a timeout. */
  public static final class FencedAttempts extends SumMetric {
    static final String NAME = "fencedAttempts";

    public FencedAttempts() {
      super(NAME, "attempts fenced");
    }
  }

  /**
   * In task scope, the time of the slowest task from its last record until its transaction had
   * ended; in epoch scope, from the last writer's report until all transactions had ended.
   */
  public static final class CommitLatency extends SumMetric {
    static final String NAME = "commitLatencyMs";

    public CommitLatency() {
      super(NAME, "commit latency (ms)");
    }
  }
}
