package io.eoskafka.transaction;

import java.io.Serializable;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * How transactions of a query's tasks have ended. An attempt that fails reports nothing, so the
 * next one of the same query in this JVM reports it too; what a lost executor knew is not counted.
 *
 * @param committed by the task itself
 * @param aborted transactions that had begun and were given up
 * @param fenced attempts whose producer was fenced
 * @param commitMs from a task's last record until its transaction had ended; of several tasks the
 *     longest
 */
public record TransactionCounts(long committed, long aborted, long fenced, long commitMs)
    implements Serializable {
  public static final TransactionCounts NONE = new TransactionCounts(0, 0, 0, 0);

  private static final Map<String, TransactionCounts> FAILED = new ConcurrentHashMap<>();

  /**
   * @param query names it, unique among those that run
   */
  public static void failed(String query, boolean aborted, boolean fenced) {
    FAILED.merge(
        query,
        new TransactionCounts(0, aborted ? 1 : 0, fenced ? 1 : 0, 0),
        TransactionCounts::plus);
  }

  /** What has failed here and was not reported yet; the caller reports it. */
  public static TransactionCounts takeFailed(String query) {
    TransactionCounts failed = FAILED.remove(query);
    return failed == null ? NONE : failed;
  }

  public TransactionCounts plus(TransactionCounts other) {
    return new TransactionCounts(
        committed + other.committed,
        aborted + other.aborted,
        fenced + other.fenced,
        Math.max(commitMs, other.commitMs));
  }
}
