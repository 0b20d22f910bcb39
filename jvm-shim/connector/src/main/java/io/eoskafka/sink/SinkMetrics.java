package io.eoskafka.sink;

import java.util.Map;
import java.util.TreeMap;

/**
 * What the last batch of a query has committed; {@code sink.metrics} of its progress.
 *
 * <p>Shared by the writes of a query; used on its thread.
 */
public final class SinkMetrics {
  private Map<String, String> last = Map.of();

  void taskScope() {
    last = Map.of("transactionScope", "task");
  }

  /**
   * @param latencyMs from the report of the last writer until every transaction had ended
   */
  void epochScope(int transactions, long latencyMs) {
    last =
        Map.of(
            "transactionScope", "epoch",
            "transactionsCommitted", Integer.toString(transactions),
            "commitLatencyMs", Long.toString(latencyMs));
  }

  /** By name, in the order in which a progress report shows them. */
  public Map<String, String> values() {
    return new TreeMap<>(last);
  }
}
