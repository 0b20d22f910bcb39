package io.eoskafka.faults;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/**
 * Named points at which tests kill, pause or fail a process. Off unless the JVM was started with
 * {@code -Dio.eoskafka.faults=<folder>}; then the first process to reach a point takes the file of
 * the point's name in that folder, and the text of the file says what happens: {@code kill}
 * (SIGKILL to itself), {@code stop} (SIGSTOP to itself), {@code fail} (an exception), {@code slow}
 * (a wait of three seconds, even if interrupted), or {@code stop-slow} (the one, and then the
 * other).
 */
public enum FaultPoint {
  BEFORE_INIT("before-init"),
  AFTER_INIT("after-init"),
  BEFORE_FLUSH("before-flush"),
  AFTER_FLUSH("after-flush"),

  /** The driver has given its fence, and no offsets have been sent. */
  AFTER_LEASE("after-lease"),

  /** In a shared group: the offsets were refused because their fence is of a former generation. */
  AFTER_REFUSAL("after-refusal"),
  AFTER_OFFSETS("after-offsets"),
  AFTER_COMMIT("after-commit"),

  /**
   * On the driver: the run's id is not in the checkpoint yet. Except in real-time mode, Spark has
   * already chosen its batch.
   */
  BEFORE_LAST_RUN("before-last-run"),

  /** On the driver: a write of a former run is about to be settled. */
  BEFORE_SETTLEMENT("before-settlement"),

  /** On the driver: a start has looked for epoch scope, and has not joined its group yet. */
  BEFORE_JOIN("before-join"),

  /** On the driver: it has been assigned partitions, and has not found their starts yet. */
  AFTER_JOIN("after-join"),

  /**
   * On the driver of a shared group: it has found the starts of partitions, and is about to commit
   * them.
   */
  BEFORE_STARTS("before-starts"),

  /** On the driver: Spark has chosen its batch, and no run number has been claimed yet. */
  BEFORE_RUN("before-run"),

  /** On the driver, in epoch scope: every writer has prepared. */
  BEFORE_DECISION("before-decision"),

  /** The same: the epoch has been decided, and none of its transactions has been committed. */
  AFTER_DECISION("after-decision"),

  /** The same: half of its transactions have been committed. */
  HALF_ROLLED_FORWARD("half-rolled-forward"),

  /** On the driver: all of a batch has been committed, and Spark has not logged it yet. */
  BEFORE_LOG("before-log");

  private static final long SLOW_NANOS = 3_000_000_000L;
  private static final long SIGNAL_MILLIS = 500;
  private static final String FOLDER = System.getProperty("io.eoskafka.faults");

  private final String file;

  FaultPoint(String file) {
    this.file = file;
  }

  /** Costs one comparison if faults are off. */
  public void reach() {
    if (FOLDER != null) {
      take();
    }
  }

  /**
   * Whether a process that reaches this point now would take it; for points that are costly to
   * reach.
   */
  public boolean isArmed() {
    return FOLDER != null && Files.exists(Path.of(FOLDER, file));
  }

  private void take() {
    long pid = ProcessHandle.current().pid();
    Path taken = Path.of(FOLDER, file + ".taken-by-" + pid);
    String action;
    try {
      Files.move(Path.of(FOLDER, file), taken, StandardCopyOption.ATOMIC_MOVE);
      action = Files.readString(taken).trim();
    } catch (NoSuchFileException e) {
      return;
    } catch (IOException e) {
      throw new IllegalStateException("fault " + file, e);
    }
    switch (action) {
      case "kill" -> signal("-KILL", pid);
      case "stop" -> signal("-STOP", pid);
      case "slow" -> waste();
      case "stop-slow" -> {
        signal("-STOP", pid);
        waste();
      }
      case "fail" -> throw new IllegalStateException("fault " + file);
      default -> throw new IllegalStateException("fault " + file + " has no action " + action);
    }
  }

  private static void waste() {
    long end = System.nanoTime() + SLOW_NANOS;
    while (System.nanoTime() < end) {
      Thread.onSpinWait();
    }
  }

  private static void signal(String signal, long pid) {
    try {
      new ProcessBuilder("kill", signal, Long.toString(pid)).start().waitFor();
      // A signal takes effect some time after it was sent. Under load, two milliseconds are enough
      // for a commit.
      Thread.sleep(SIGNAL_MILLIS);
    } catch (IOException | InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }
}
