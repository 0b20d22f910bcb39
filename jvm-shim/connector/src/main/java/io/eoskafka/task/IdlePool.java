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
 * Clients that rest between two batches. A client is either here or with exactly one attempt:
 * {@link #take} removes it.
 *
 * @param <V> the client
 */
public final class IdlePool<V> {
  private static final Logger LOG = LoggerFactory.getLogger(IdlePool.class);

  /** As long as the built-in connector keeps idle clients. */
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

  /** The client of that name, now the caller's alone, or null. */
  public synchronized V take(String name) {
    Resting<V> found = resting.remove(name);
    return found == null ? null : found.client;
  }

  /** Gives a client back. One that already rests under that name is older and closed. */
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

  /** Closes those that nobody will take again. */
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
