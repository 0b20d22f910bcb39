package io.eoskafka.decision;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SinkOptions;
import io.eoskafka.faults.FaultPoint;
import io.eoskafka.spark.Checkpoint;
import io.eoskafka.spark.RunningQuery;
import io.eoskafka.wire.Admins;
import io.eoskafka.wire.Daemon;
import io.eoskafka.wire.KafkaCalls;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.errors.InterruptException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The owners of decisions in one run of a query: its sink, and the writes of its {@code
 * foreachBatch}. Each owner has a file in the checkpoint.
 *
 * <p>What former runs have decided and not committed is settled at the start of the run, because
 * the function may never call such a write again, and Spark may have logged its batch. Only the
 * run's own sink is not settled then: it settles its decisions itself.
 *
 * <p>Each owner is settled separately. An owner that has to wait for a timeout, or that cannot be
 * settled, holds up only its own next write, and a write under a new name as long as the batch that
 * Spark runs again may have been decided under the old name. Only if an owner shows that Spark's
 * log is not the query's do all of them stop.
 */
public final class DecisionOwners {
  private static final Logger LOG = LoggerFactory.getLogger(DecisionOwners.class);

  /** How many owners are settled at a time. */
  private static final int THREADS = 8;

  private static final long IDLE_S = 5;

  /** Errors of a settlement: what was decided last does not fit Spark's log. */
  private static final Set<String> OTHER_PLAN =
      Set.of("EOSKAFKA_DECISION_NEWER", "EOSKAFKA_DECISION_OTHER_PLAN");

  private static final long RETRY_S = 30;

  /** For how long a write waits for another one that the function may be about to begin. */
  private static final long OTHER_THREADS_MS = 5_000;

  private static final long LOOK_MS = 50;

  /** By run. */
  private static final Map<UUID, DecisionOwners> RUNS = new HashMap<>();

  private final Checkpoint checkpoint;
  private final String run;
  private final LastRun lastRun;

  /** The last batch that a former run may have planned. */
  private final long lastPlanned;

  /** The files of owners that were there before this run wrote anything. */
  private final List<String> files;

  /** By file: the last decision, if there is one. */
  private final Map<String, CompletableFuture<Optional<Decision>>> settled =
      new ConcurrentHashMap<>();

  /** The files of owners that this run writes as: to settle one would fence its session. */
  private final Set<String> opened = ConcurrentHashMap.newKeySet();

  /** The files of owners for which this run was the last one when it began to write as them. */
  private final Set<String> begun = ConcurrentHashMap.newKeySet();

  /** The settings that settling has begun with. */
  private final Set<ClientSettings> tried = new HashSet<>();

  /** By file: the last batch that this run has written, or has begun to write, as this owner. */
  private final Map<String, Long> written = new ConcurrentHashMap<>();

  /** By file: owners that have failed to write a batch which is, or may be, decided. */
  private final Map<String, String> stuck = new ConcurrentHashMap<>();

  /** Set if an owner's last decision shows that Spark's log is not the query's last one. */
  private volatile EosKafkaException otherPlan;

  private volatile boolean ended;

  /** For how long a start waits; the rest is settled while the query runs. */
  private long waitMs = 5_000;

  private final ThreadPoolExecutor threads =
      new ThreadPoolExecutor(
          THREADS,
          THREADS,
          IDLE_S,
          TimeUnit.SECONDS,
          new LinkedBlockingQueue<>(),
          Daemon.factory("eoskafka-former-writes"));

  private DecisionOwners(RunningQuery query) {
    checkpoint = query.logs();
    run = query.runId().toString();
    FaultPoint.BEFORE_LAST_RUN.reach();
    // First: the owners of a run that began before this claim are among the files listed below.
    lastRun = new LastRun(checkpoint, run);
    lastRun.claim();
    lastPlanned = query.lastPlanned().orElse(-1);
    files = EpochOwner.files(checkpoint);
    threads.allowCoreThreadTimeOut(true);
    if (query.sinkIsTransactional()) {
      opened.add(EpochOwner.SINK_FILE);
    }
  }

  /**
   * Those of a query's run. To be called before the run's first write, which adds a file of its
   * own.
   */
  public static DecisionOwners of(RunningQuery query) {
    synchronized (RUNS) {
      DecisionOwners found = RUNS.get(query.runId());
      if (found == null) {
        found = new DecisionOwners(query);
        RUNS.put(query.runId(), found);
        query.whenItEnds(found::end);
      }
      return found;
    }
  }

  private void end() {
    ended = true;
    synchronized (RUNS) {
      RUNS.remove(UUID.fromString(run));
    }
    threads.shutdownNow();
    // The queue's are dropped, and somebody may wait for them.
    settled.values().forEach(each -> each.completeExceptionally(new CancellationException()));
  }

  /**
   * Settles all owners on a cluster that were not settled in this run yet, or could not be with
   * other settings. Waits for them, but not for one that takes longer than five seconds.
   *
   * @param client of a source or sink on that cluster
   * @throws EosKafkaException {@code EOSKAFKA_DECISION_NEWER}, {@code EOSKAFKA_DECISION_OTHER_PLAN}
   */
  public synchronized void settle(ClientSettings client) {
    if (files.isEmpty() || tried.contains(client)) {
      return;
    }
    long began = System.nanoTime();
    String cluster;
    try (Admin admin = Admins.create(client, "eoskafka-driver-former-writes")) {
      cluster = KafkaCalls.reach(admin.describeCluster().clusterId(), client);
    }
    tried.add(client);
    for (String file : files) {
      settled.compute(
          file,
          (name, former) ->
              !opened.contains(name) && (former == null || former.isCompletedExceptionally())
                  ? begin(name, cluster, client).orElse(former)
                  : former);
    }
    long deadline = began + TimeUnit.MILLISECONDS.toNanos(waitMs);
    for (Map.Entry<String, CompletableFuture<Optional<Decision>>> write : settled.entrySet()) {
      try {
        write.getValue().get(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
      } catch (TimeoutException e) {
        LOG.warn(
            "{} is not settled yet; the query starts meanwhile",
            EpochOwner.nameOf(checkpoint, write.getKey()));
      } catch (ExecutionException e) {
        requireSparksPlans();
        LOG.error(
            "{} could not be settled. Other writes go on; it is tried again",
            EpochOwner.nameOf(checkpoint, write.getKey()),
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

  /** As {@link #settle}, and the sink as well, which the run must not use then. */
  public synchronized void settleWithSink(ClientSettings client) {
    // Settling ends with such a run.
    waitMs = 60_000;
    opened.remove(EpochOwner.SINK_FILE);
    settle(client);
  }

  /** Empty for an owner on another cluster, and for one whose file does not say enough. */
  private Optional<CompletableFuture<Optional<Decision>>> begin(
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
    return Optional.of(settlement(file, owner, options));
  }

  /**
   * Settles an owner, and retries until that succeeds: the owner's next write may never come, and
   * what is decided must be committed before its transactions time out.
   */
  private CompletableFuture<Optional<Decision>> settlement(
      String file, EpochOwner owner, SinkOptions options) {
    CompletableFuture<Optional<Decision>> begun =
        CompletableFuture.supplyAsync(
            () -> {
              FaultPoint.BEFORE_SETTLEMENT.reach();
              return noting(() -> EpochSession.settle(owner, options));
            },
            threads);
    begun.whenComplete(
        (decision, error) -> {
          if (error != null && !ended && otherPlan == null) {
            CompletableFuture.delayedExecutor(RETRY_S, TimeUnit.SECONDS)
                .execute(() -> settleAgain(file, begun, owner, options));
          }
        });
    return begun;
  }

  /** Not even a write that agrees with such a log: it would write again on the right one. */
  private void requireSparksPlans() {
    if (otherPlan != null) {
      throw otherPlan;
    }
  }

  private <T> T noting(Supplier<T> start) {
    try {
      return start.get();
    } catch (EosKafkaException e) {
      if (OTHER_PLAN.contains(e.condition())) {
        otherPlan = e;
      }
      throw e;
    }
  }

  private void settleAgain(
      String file,
      CompletableFuture<Optional<Decision>> failed,
      EpochOwner owner,
      SinkOptions options) {
    settled.computeIfPresent(
        file,
        (name, former) ->
            former == failed && !ended && !opened.contains(name)
                ? settlement(name, owner, options)
                : former);
  }

  /**
   * Writes a batch in {@code foreachBatch}.
   *
   * @param write takes the batch from its first task to its commit
   * @throws EosKafkaException {@code EOSKAFKA_WRITE_RENAMED} if the batch was, or may have been,
   *     decided under another name that the function has not written in this run: the same rows
   *     would be written twice. Not for a write that a former run has made in the batch before, or
   *     in this one: that one is no new name. {@code EOSKAFKA_RUN_ENDED} if another write of this
   *     run has failed after its decision, {@code EOSKAFKA_CHECKPOINT_TAKEN}
   */
  public void write(
      EpochOwner owner, RunningQuery query, SinkOptions options, Consumer<EpochBatch> write) {
    long batch = query.batch();
    requireNoneStuck(owner, batch);
    EpochBatch epoch = null;
    boolean done = false;
    // Before it has: a write on another thread may ask. Should it fail, it is stuck, or undecided.
    written.put(owner.file(), batch);
    try {
      epoch = begin(owner, query, options, batch);
      write.accept(epoch);
      done = true;
      stuck.remove(owner.file());
    } finally {
      // Also for checked exceptions of Spark's, which Java does not know of.
      if (!done && (epoch == null ? mayBeDecided(owner.file(), batch) : epoch.mayBeDecided())) {
        stuck.put(owner.file(), owner.name());
      }
    }
  }

  /** The same rows may come under another name, after the error of this one was caught. */
  private void requireNoneStuck(EpochOwner owner, long batch) {
    for (Map.Entry<String, String> other : stuck.entrySet()) {
      if (!other.getKey().equals(owner.file())) {
        throw EpochSession.runEnded(batch, other.getValue());
      }
    }
  }

  /**
   * Begins an epoch of an owner.
   *
   * @throws EosKafkaException as {@link #write} and {@link #settle}, and {@code
   *     EOSKAFKA_BATCH_NOT_LOGGED}
   */
  public EpochBatch begin(EpochOwner owner, RunningQuery query, SinkOptions options, long batch) {
    settle(options.client());
    waitFor(
        settled.compute(
            owner.file(),
            (file, settlement) -> {
              opened.add(file);
              return settlement;
            }));
    requireSparksPlans();
    if (ended) {
      throw EpochSession.runEnded(batch, owner.name());
    }
    if (!begun.contains(owner.file())) {
      // Before it opens a session, so that a late driver fences nobody.
      lastRun.require(batch);
    }
    EpochSession session = noting(() -> EpochSessions.of(owner, query, options));
    // After its file is there: see the constructor.
    lastRun.require(batch);
    begun.add(owner.file());
    if (batch <= lastPlanned && !session.isDecided(batch)) {
      boolean isKnown = batch > 0 && session.lastDecided() >= batch - 1;
      requireNoOtherName(owner, isKnown, batch);
    }
    // What a former run has decided is committed by now, whatever its source is.
    ReplayableSources.require(query, options);
    EpochBatch epoch = session.begin(batch, options);
    // After the decision's digest of the log was made: what replaces the file later differs in it.
    query.requireLogged();
    return epoch;
  }

  /** What could not be settled, the session's own start tries again. */
  private static void waitFor(CompletableFuture<Optional<Decision>> settlement) {
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

  private boolean mayBeDecided(String file, long batch) {
    CompletableFuture<Optional<Decision>> settlement = settled.get(file);
    return files.contains(file)
        && batch <= lastPlanned
        && (settlement == null
            || !settlement.isDone()
            || settlement.isCompletedExceptionally()
            || epoch(settlement.join()) == batch);
  }

  private static long epoch(Optional<Decision> decision) {
    return decision.map(Decision::epoch).orElse(-1L);
  }

  /**
   * @param isKnown whether a former run has written the previous batch as this owner. If it has
   *     also written it as the other owner, these are two writes, and not one with a new name
   */
  private void requireNoOtherName(EpochOwner owner, boolean isKnown, long batch) {
    for (String file : files) {
      CompletableFuture<Optional<Decision>> settlement = settled.get(file);
      if (file.equals(owner.file()) || settlement == null) {
        // Without a settlement it is on a cluster that this run has not been to.
        continue;
      }
      boolean isOtherKind = EpochOwner.SINK_FILE.equals(file) != owner.isSink();
      String state = "has taken effect";
      try {
        Optional<Decision> other = settlement.get();
        boolean isSibling =
            isKnown && !isOtherKind && other.map(Decision::previous).orElse(-1L) == batch - 1;
        // A later batch was decided by a run that has done this one.
        if (epoch(other) < batch
            || epoch(other) == batch && (isSibling || isWritten(file, batch))) {
          continue;
        }
      } catch (ExecutionException e) {
        if (isKnown && !isOtherKind || isWritten(file, batch)) {
          continue;
        }
        state = "could not be settled (" + EosKafkaException.plain(e) + ")";
      } catch (InterruptedException e) {
        throw KafkaCalls.asJava(new InterruptException(e));
      }
      throw EosKafkaException.of(
          "EOSKAFKA_WRITE_RENAMED",
          Map.of(
              "batch",
              batch,
              "owner",
              owner.name(),
              "other",
              EpochOwner.nameOf(checkpoint, file),
              "state",
              state,
              "file",
              checkpoint.folder().nameOf(file)));
    }
  }

  /**
   * Whether the function writes the batch as this owner, too. On another thread it may be about to.
   */
  private boolean isWritten(String file, long batch) {
    long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(OTHER_THREADS_MS);
    while (written.getOrDefault(file, -1L) != batch) {
      if (ended || System.nanoTime() > deadline) {
        return false;
      }
      KafkaCalls.sleep(LOOK_MS);
    }
    return true;
  }
}
