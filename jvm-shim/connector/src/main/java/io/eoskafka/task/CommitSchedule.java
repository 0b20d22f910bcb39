package io.eoskafka.task;

/**
 * When a task commits before its end, and when it stops reading. All times are those of {@code
 * System.nanoTime()}.
 */
public final class CommitSchedule {
  /** Not at any time. */
  public static final long NEVER = Long.MAX_VALUE;

  private final int intervalMs;
  private final long endNanos;
  private long dueNanos;

  /**
   * @param beganNanos when the attempt began
   * @param intervalMs how often it commits; 0 if only at its end
   * @param endAfterMs when it stops reading; 0 if only at its planned end
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
   * An intermediate commit has finished now. The interval counts from its beginning. If the commit
   * took longer than the rest of the interval, the next one is due after the time that this one
   * took.
   */
  void committed(long beganNanos, long nowNanos) {
    long due = after(beganNanos, intervalMs);
    long took = nowNanos - beganNanos;
    dueNanos = due - nowNanos < took ? nowNanos + took : due;
  }
}
