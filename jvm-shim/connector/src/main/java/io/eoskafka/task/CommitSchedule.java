package io.eoskafka.task;

/**
 * When a task commits before its end, and when it stops to read. All times are of {@code
 * System.nanoTime()}.
 */
public final class CommitSchedule {
  /** No time at all. */
  public static final long NEVER = Long.MAX_VALUE;

  private final int intervalMs;
  private final long endNanos;
  private long dueNanos;

  /**
   * @param beganNanos when the attempt began
   * @param intervalMs how often it commits; 0 for at its end alone
   * @param endAfterMs when it stops to read; 0 for at its planned end alone
   */
  CommitSchedule(long beganNanos, int intervalMs, int endAfterMs) {
    this.intervalMs = intervalMs;
    this.endNanos = after(beganNanos, endAfterMs);
    this.dueNanos = after(beganNanos, intervalMs);
  }

  private static long after(long nanos, int ms) {
    return ms == 0 ? NEVER : nanos + ms * 1_000_000L;
  }

  /** When the next commit is due, or {@link #NEVER}. */
  long dueNanos() {
    return dueNanos;
  }

  /** When reading stops, or {@link #NEVER}. */
  long endNanos() {
    return endNanos;
  }

  /**
   * A commit on the way has ended now. The interval counts from its beginning. If it has taken
   * longer than what is left of that, the next one is due after as long as this one took.
   */
  void committed(long beganNanos, long nowNanos) {
    long due = after(beganNanos, intervalMs);
    long took = nowNanos - beganNanos;
    dueNanos = due - nowNanos < took ? nowNanos + took : due;
  }
}
