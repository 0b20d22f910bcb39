package io.eoskafka.task;

import io.eoskafka.wire.Daemon;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.BiPredicate;
import java.util.function.Consumer;
import java.util.function.Predicate;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Clients that are idle between two batches. A client is either here or in use by one attempt:
 * {@link #take} removes it.
 *
 * @param <V> the client
 */
public final class IdlePool<V> {
  private static final Logger LOG = LoggerFactory.getLogger(IdlePool.class);

  /** The built-in connector keeps idle clients for the same time. */
  private static final long MAX_IDLE_NANOS = TimeUnit.MINUTES.toNanos(10);

  private static final ScheduledExecutorService CLEANER =
      Executors.newSingleThreadScheduledExecutor(Daemon.factory("eoskafka-idle-clients"));

  private record Resting<V>(V client, long sinceNanos) {}

  private final Map<String, Resting<V>> resting = new HashMap<>();
  private final Consumer<V> close;

  public IdlePool(Consumer<V> close) {
    this.close = close;
    CLEANER.scheduleWithFixedDelay(this::closeOld, 1, 1, TimeUnit.MINUTES);
  }

  /**
   * Removes and returns the client of that name, or null. From now on only the caller may use it.
   */
  public synchronized V take(String name) {
    Resting<V> found = resting.remove(name);
    return found == null ? null : found.client;
  }

  /** Returns a client to the pool. An older one under the same name is closed. */
  public void put(String name, V client) {
    Resting<V> displaced;
    synchronized (this) {
      displaced = resting.put(name, new Resting<>(client, System.nanoTime()));
    }
    if (displaced != null) {
      close.accept(displaced.client);
    }
  }

  private void closeOld() {
    long now = System.nanoTime();
    closeWhere((name, r) -> now - r.sinceNanos >= MAX_IDLE_NANOS);
  }

  /** Closes the clients that will not be taken again. */
  public void closeIf(Predicate<String> nameMatches) {
    closeWhere((name, r) -> nameMatches.test(name));
  }

  private void closeWhere(BiPredicate<String, Resting<V>> isDone) {
    List<V> done = new ArrayList<>();
    synchronized (this) {
      resting
          .entrySet()
          .removeIf(
              entry -> {
                boolean closes = isDone.test(entry.getKey(), entry.getValue());
                if (closes) {
                  done.add(entry.getValue().client);
                }
                return closes;
              });
    }
    for (V client : done) {
      try {
        close.accept(client);
      } catch (RuntimeException e) {
        LOG.info("A client that has rested was not closed in order: {}", e.toString());
      }
    }
  }
}
