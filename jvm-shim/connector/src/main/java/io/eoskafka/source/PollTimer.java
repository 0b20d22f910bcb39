package io.eoskafka.source;

import java.time.Duration;

/**
 * How long a reader waits for records, and when it checks whether they can still arrive: a consumer
 * would ask for a deleted topic forever. Only the time in which no records arrive counts, not the
 * time that operators spend on records.
 */
final class PollTimer {
  private static final Duration POLL = Duration.ofMillis(500);
  private static final long FIRST_LOOK_NANOS = Duration.ofMillis(500).toNanos();

  private long waitedNanos;
  private long lookAfterNanos;

  /** Something has come, or another batch begins. */
  void restart() {
    waitedNanos = 0;
    lookAfterNanos = FIRST_LOOK_NANOS;
  }

  /**
   * How long the next poll may take.
   *
   * @param leftNanos until reading is to stop, more than none
   */
  static Duration nextPoll(long leftNanos) {
    // A poll of less than a millisecond does not wait at all.
    return leftNanos < POLL.toNanos() ? Duration.ofMillis(leftNanos / 1_000_000 + 1) : POLL;
  }

  /** Nothing has come for so much longer. */
  void waited(long nanos) {
    waitedNanos += nanos;
  }

  /** What is left of a timeout; none or less if it is over. */
  long leftMs(long timeoutMs) {
    return timeoutMs - waitedNanos / 1_000_000;
  }

  boolean isLookDue() {
    return waitedNanos > lookAfterNanos;
  }

  /** A look has taken so long. Half of the time at least is for the records. */
  void looked(long nanos) {
    waited(nanos);
    lookAfterNanos = 2 * waitedNanos;
  }
}
