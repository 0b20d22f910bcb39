package io.eoskafka.transaction;

import java.io.Serializable;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * How the transactions of a query's tasks have ended. A failed attempt reports nothing, so the
 * query's next attempt in this JVM reports for it; those of a lost executor are not counted.
 *
 * @param committed by the task itself
 * @param aborted transactions that had begun and were given up
 * @param fenced attempts whose producer was fenced
 * @param commitMs the time from a task's last record until its transaction had ended; the longest
 *     of several tasks
 */
public record TransactionCounts(long committed, long aborted, long fenced, long commitMs)
    implements Serializable {
  public static final TransactionCounts NONE = new TransactionCounts(0, 0, 0, 0);

  private static final Map<String, TransactionCounts> FAILED = new ConcurrentHashMap<>();

  /**
   * @param query its name, unique among the running queries
   */
  public static void failed(String query, boolean aborted, boolean fenced) {
    FAILED.merge(
        query,
        new TransactionCounts(0, aborted ? 1 : 0, fenced ? 1 : 0, 0),
        TransactionCounts::plus);
  }

  /** The failed attempts in this JVM that have not been reported yet; the caller reports them. */
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
