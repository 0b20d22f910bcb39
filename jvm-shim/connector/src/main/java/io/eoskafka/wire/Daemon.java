package io.eoskafka.wire;

import java.util.concurrent.ThreadFactory;

/** Threads that end with the JVM. */
public final class Daemon {
  private Daemon() {}

  /** Runs work on a thread of its own. */
  public static void start(String name, Runnable work) {
    factory(name).newThread(work).start();
  }

  /** Makes such threads for an executor; all have this name. */
  public static ThreadFactory factory(String name) {
    return work -> {
      Thread thread = new Thread(work, name);
      thread.setDaemon(true);
      return thread;
    };
  }
}
