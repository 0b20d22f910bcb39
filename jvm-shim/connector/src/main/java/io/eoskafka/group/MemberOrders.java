package io.eoskafka.group;

import io.eoskafka.wire.KafkaCalls;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import org.apache.kafka.common.errors.InterruptException;

/**
 * Calls of other threads for the thread that polls. Only that thread may use the consumer, so it
 * carries out the orders between two polls, in the order in which they came.
 */
final class MemberOrders {
  private final LinkedBlockingQueue<Runnable> orders = new LinkedBlockingQueue<>();
  private final Runnable wakeup;
  private final Runnable requireOwnership;

  /**
   * @param wakeup ends the poll that is in progress, or else the next one
   * @param requireOwnership throws if the thread that polls has ended
   */
  MemberOrders(Runnable wakeup, Runnable requireOwnership) {
    this.wakeup = wakeup;
    this.requireOwnership = requireOwnership;
  }

  /** Adds an order, which is carried out after the current poll. */
  void add(Runnable order) {
    orders.add(order);
  }

  /** Adds an order, and ends the current poll. */
  void addAndWake(Runnable order) {
    orders.add(order);
    wakeup.run();
  }

  /**
   * Adds an order and waits for its result.
   *
   * @param order completes the future, normally or exceptionally
   * @throws RuntimeException the exception of the order, or the reason why the thread that polls
   *     has ended
   */
  <T> T ask(Consumer<CompletableFuture<T>> order) {
    requireOwnership.run();
    CompletableFuture<T> done = new CompletableFuture<>();
    addAndWake(() -> order.accept(done));
    while (true) {
      try {
        return done.get(1, TimeUnit.SECONDS);
      } catch (TimeoutException e) {
        // An order that was added after the thread had ended is never carried out.
        requireOwnership.run();
      } catch (ExecutionException e) {
        throw (RuntimeException) e.getCause();
      } catch (InterruptedException e) {
        throw KafkaCalls.asJava(new InterruptException(e));
      }
    }
  }

  /** Carries out everything that was ordered; on the thread that polls, between two polls. */
  void carryOut() {
    for (Runnable order = orders.poll(); order != null; order = orders.poll()) {
      order.run();
    }
  }
}
