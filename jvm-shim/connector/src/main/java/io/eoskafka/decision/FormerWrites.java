package io.eoskafka.decision;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SinkOptions;
import io.eoskafka.query.Checkpoint;
import io.eoskafka.query.RunningQuery;
import io.eoskafka.wire.KafkaCalls;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.errors.InterruptException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What the writes of a query's {@code foreachBatch} have left in former runs, settled at the start
 * of a run: the function may never call such a write again, and Spark may have logged its batch.
 *
 * <p>Each write is settled by itself: one that has to wait for a timeout, or that cannot be
 * settled, holds up nothing but its own next write, and a write under a new name while the batch
 * that Spark runs again may be decided under the old one.
 */
public final class FormerWrites {
  private static final Logger LOG = LoggerFactory.getLogger(FormerWrites.class);

  /** How many writes are settled at a time. */
  private static final int THREADS = 8;

  private static final long IDLE_S = 5;

  /** What waits longer is settled while the query runs. */
  private static final long START_WAIT_MS = 5_000;

  /** By run. */
  private static final Map<UUID, FormerWrites> RUNS = new ConcurrentHashMap<>();

  private final Checkpoint checkpoint;

  /** The last batch that a former run may have planned. */
  private final long lastPlanned;

  /** The files of writes that were there before this run wrote anything. */
  private final List<String> files;

  /** By file: the last epoch that was decided, or -1. */
  private final Map<String, CompletableFuture<Long>> settled = new ConcurrentHashMap<>();

  /** The files of writes that this run has begun: to settle one would fence its session. */
  private final Set<String> opened = ConcurrentHashMap.newKeySet();

  /** The settings that settling was tried with. */
  private final Set<ClientSettings> tried = ConcurrentHashMap.newKeySet();

  /** By file: the last batch in which the function has called this write in this run. */
  private final Map<String, Long> called = new ConcurrentHashMap<>();

  private final ThreadPoolExecutor threads =
      new ThreadPoolExecutor(
          THREADS,
          THREADS,
          IDLE_S,
          TimeUnit.SECONDS,
          new LinkedBlockingQueue<>(),
          work -> {
            Thread thread = new Thread(work, "eoskafka-former-writes");
            thread.setDaemon(true);
            return thread;
          });

  private FormerWrites(RunningQuery query) {
    checkpoint = query.logs();
    lastPlanned = query.lastPlanned().orElse(-1);
    files = EpochOwner.filesOfWrites(checkpoint);
    threads.allowCoreThreadTimeOut(true);
  }

  /**
   * Those of a query's run. To be called before the run's first write, which adds a file of its
   * own.
   */
  public static FormerWrites of(RunningQuery query) {
    FormerWrites found = RUNS.get(query.runId());
    if (found == null) {
      FormerWrites created = new FormerWrites(query);
      found = RUNS.putIfAbsent(query.runId(), created);
      if (found == null) {
        found = created;
        query.whenItEnds(
            () -> {
              RUNS.remove(query.runId());
              created.threads.shutdownNow();
            });
      }
    }
    return found;
  }

  /**
   * Settles all writes on a cluster that were not settled in this run yet, or could not be with
   * other settings. Waits for them, but not for one that takes longer than {@link #START_WAIT_MS}.
   *
   * @param client of a source or sink on that cluster
   */
  public void settle(ClientSettings client) {
    if (files.isEmpty() || !tried.add(client)) {
      return;
    }
    long began = System.nanoTime();
    String cluster;
    try (Admin admin = Admin.create(client.admin("eoskafka-driver-former-writes"))) {
      cluster = KafkaCalls.reach(admin.describeCluster().clusterId(), client);
    }
    for (String file : files) {
      settled.compute(
          file,
          (name, former) ->
              !opened.contains(name) && (former == null || former.isCompletedExceptionally())
                  ? begin(name, cluster, client).orElse(former)
                  : former);
    }
    long deadline = began + TimeUnit.MILLISECONDS.toNanos(START_WAIT_MS);
    for (Map.Entry<String, CompletableFuture<Long>> write : settled.entrySet()) {
      try {
        write.getValue().get(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
      } catch (TimeoutException e) {
        LOG.warn("{} is not settled yet; the query starts meanwhile", nameOf(write.getKey()));
      } catch (ExecutionException e) {
        LOG.error(
            "{} could not be settled. Other writes go on; its own next write tries it again",
            nameOf(write.getKey()),
            e.getCause());
      } catch (InterruptedException e) {
        throw KafkaCalls.asJava(new InterruptException(e));
      }
    }
    LOG.info(
        "{} of {} writes of former runs are settled after {} ms",
        settled.values().stream().filter(CompletableFuture::isDone).count(),
        files.size(),
        TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began));
  }

  /** Empty for a write on another cluster, and for one whose file does not say enough. */
  private Optional<CompletableFuture<Long>> begin(
      String file, String cluster, ClientSettings client) {
    SinkIdentity kept;
    try {
      kept = SinkIdentity.read(checkpoint.folder(), file).orElse(null);
    } catch (RuntimeException e) {
      return Optional.of(CompletableFuture.failedFuture(e));
    }
    if (kept == null || kept.prefix() == null || !kept.cluster().equals(cluster)) {
      return Optional.empty();
    }
    EpochOwner owner = EpochOwner.ofFile(checkpoint, file, kept);
    SinkOptions options = SinkOptions.ofOwner(client, kept.prefix(), kept.topic());
    return Optional.of(
        CompletableFuture.supplyAsync(() -> EpochSession.settle(owner, options), threads));
  }

  /**
   * Begins a write of the running batch.
   *
   * @return the session of its owner
   * @throws EosKafkaException {@code EOSKAFKA_WRITE_RENAMED} if the batch was, or may have been,
   *     decided under another name that the function has not called in this run: the same rows
   *     would be written twice. Not for a write that a former run has made in the batch before, or
   *     in this one: that one is no new name
   */
  public EpochBatch begin(EpochOwner owner, RunningQuery query, SinkOptions options) {
    long batch = query.batch();
    EpochSession.requireNoneStuck(query, batch);
    settle(options.client());
    waitFor(
        settled.compute(
            owner.file(),
            (file, settlement) -> {
              opened.add(file);
              return settlement;
            }));
    EpochSession session = EpochSession.of(owner, query, options);
    boolean isKnown = files.contains(owner.file()) && session.lastDecided() >= batch - 1;
    if (batch <= lastPlanned && !isKnown) {
      requireNoOtherName(owner, batch);
    }
    EpochBatch begun = session.begin(batch, options);
    called.put(owner.file(), batch);
    return begun;
  }

  /** What could not be settled, the session's own start tries again. */
  private static void waitFor(CompletableFuture<Long> settlement) {
    try {
      if (settlement != null) {
        settlement.get();
      }
    } catch (ExecutionException e) {
      LOG.debug("The write begins with it", e);
    } catch (InterruptedException e) {
      throw KafkaCalls.asJava(new InterruptException(e));
    }
  }

  private void requireNoOtherName(EpochOwner owner, long batch) {
    for (String file : files) {
      if (file.equals(owner.file()) || called.getOrDefault(file, -1L) == batch) {
        continue;
      }
      String state;
      CompletableFuture<Long> other = settled.get(file);
      try {
        if (other != null && other.get() != batch) {
          continue;
        }
        state = other == null ? "was not looked at, since it is elsewhere" : "has taken effect";
      } catch (ExecutionException e) {
        state = "could not be settled: " + EosKafkaException.plain(e);
      } catch (InterruptedException e) {
        throw KafkaCalls.asJava(new InterruptException(e));
      }
      throw EosKafkaException.of(
          "EOSKAFKA_WRITE_RENAMED",
          Map.of("batch", batch, "owner", owner.name(), "other", nameOf(file), "state", state));
    }
  }

  private String nameOf(String file) {
    try {
      return SinkIdentity.read(checkpoint.folder(), file)
          .map(kept -> EpochOwner.ofFile(checkpoint, file, kept).name())
          .orElse(file);
    } catch (EosKafkaException e) {
      return checkpoint.folder().nameOf(file);
    }
  }
}
