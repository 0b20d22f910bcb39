package io.eoskafka.wire;

/** Threads that end with the JVM. */
public final class Daemon {
  private Daemon() {}

  /** Runs work on a thread of its own. */
  public static void start(String name, Runnable work) {
    Thread thread = new Thread(work, name);
    thread.setDaemon(true);
    thread.start();
  }
}
