package io.eoskafka.task;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * Clients that rest between two batches. A client is either here or with exactly one attempt
 * (invariant 12): {@link #take} removes it.
 *
 * @param <V> the client
 */
public final class IdlePool<V> {
  /** As long as the built-in connector keeps idle clients. */
  private static final long MAX_IDLE_NANOS = TimeUnit.MINUTES.toNanos(10);

  private static final ScheduledExecutorService CLEANER =
      Executors.newSingleThreadScheduledExecutor(
          task -> {
            Thread thread = new Thread(task, "eoskafka-idle-clients");
            thread.setDaemon(true);
            return thread;
          });

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
    closeWhere(MAX_IDLE_NANOS);
  }

  /** Closes every resting client, at the executor's end. */
  public void closeAll() {
    closeWhere(0);
  }

  private void closeWhere(long idleNanos) {
    List<V> old = new ArrayList<>();
    synchronized (this) {
      long now = System.nanoTime();
      resting
          .values()
          .removeIf(
              r -> {
                boolean isOld = now - r.sinceNanos >= idleNanos;
                if (isOld) {
                  old.add(r.client);
                }
                return isOld;
              });
    }
    old.forEach(close);
  }
}
