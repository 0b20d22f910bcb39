package io.eoskafka.faults;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/**
 * Named moments at which tests end or fail a process. Off unless the JVM was started with {@code
 * -Dio.eoskafka.faults=<folder>}; then a file of the point's name in that folder is taken by the
 * first to get there, and its text says what happens: {@code kill} (SIGKILL to itself), {@code
 * stop} (SIGSTOP to itself), {@code fail} (an exception), {@code slow} (three seconds, whatever
 * interrupts), or {@code stop-slow} (the one, and then the other).
 */
public enum FaultPoint {
  BEFORE_INIT("before-init"),
  AFTER_INIT("after-init"),
  BEFORE_FLUSH("before-flush"),
  AFTER_FLUSH("after-flush"),

  /** The driver has given its fence, and no offsets are sent. */
  AFTER_LEASE("after-lease"),

  /** In a shared group: the offsets were refused, with the fence of a former generation. */
  AFTER_REFUSAL("after-refusal"),
  AFTER_OFFSETS("after-offsets"),
  AFTER_COMMIT("after-commit"),

  /**
   * On the driver: the run's id is not in the checkpoint. Except in real-time mode, Spark has
   * chosen its batch.
   */
  BEFORE_LAST_RUN("before-last-run"),

  /** On the driver: a write of a former run is about to be settled. */
  BEFORE_SETTLEMENT("before-settlement"),

  /** On the driver: a start has looked for epoch scope, and not joined its group. */
  BEFORE_JOIN("before-join"),

  /** On the driver: it has been given partitions, and has not found out where they start. */
  AFTER_JOIN("after-join"),

  /**
   * On the driver of a shared group: it knows where partitions start, and is about to commit it.
   */
  BEFORE_STARTS("before-starts"),

  /** On the driver: Spark has chosen its batch, and no run number is claimed. */
  BEFORE_RUN("before-run"),

  /** On the driver, in epoch scope: every writer has prepared. */
  BEFORE_DECISION("before-decision"),

  /** There: the epoch is decided, and none of its transactions is committed. */
  AFTER_DECISION("after-decision"),

  /** There: half of them are. */
  HALF_ROLLED_FORWARD("half-rolled-forward"),

  /** On the driver: everything of a batch is committed, and Spark has not logged it. */
  BEFORE_LOG("before-log");

  private static final long SLOW_NANOS = 3_000_000_000L;
  private static final long SIGNAL_MILLIS = 500;
  private static final String FOLDER = System.getProperty("io.eoskafka.faults");

  private final String file;

  FaultPoint(String file) {
    this.file = file;
  }

  /** Costs one comparison where faults are off. */
  public void reach() {
    if (FOLDER != null) {
      take();
    }
  }

  /** Whether a process that reaches it now takes it; for points that cost something to get to. */
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
      // A signal takes effect some time after it was sent: two milliseconds, under load, are enough
      // for a commit.
      Thread.sleep(SIGNAL_MILLIS);
    } catch (IOException | InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }
}
