package io.eoskafka.decision;

import io.eoskafka.wire.Daemon;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;

/** Work that an interruption of its caller must not cut short. */
final class Uninterrupted {
  private Uninterrupted() {}

  /**
   * Runs the work on a separate thread and waits for its end, because Kafka's clients end a call
   * when their thread is interrupted. The caller's interruption stays set.
   */
  static void run(Runnable work) {
    CompletableFuture<Void> done = new CompletableFuture<>();
    Daemon.start(
        Thread.currentThread().getName() + " (eoskafka epoch)",
        () -> {
          try {
            work.run();
            done.complete(null);
          } catch (Throwable e) {
            done.completeExceptionally(e);
          }
        });
    boolean interrupted = false;
    try {
      while (true) {
        try {
          done.get();
          return;
        } catch (InterruptedException e) {
          interrupted = true;
        } catch (ExecutionException e) {
          if (e.getCause() instanceof RuntimeException cause) {
            throw cause;
          }
          throw new CompletionException(e.getCause());
        }
      }
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }
}
