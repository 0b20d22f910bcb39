package io.eoskafka.decision;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SinkOptions;
import io.eoskafka.config.SourceOptions;
import io.eoskafka.identity.Fence;
import io.eoskafka.identity.Identity;
import io.eoskafka.spark.Checkpoint;
import io.eoskafka.transaction.TransactionCounts;
import io.eoskafka.transaction.Transactions;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Semaphore;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * One run of a simulated query, with what Spark does on its driver: it plans a batch, runs its
 * writers, has it committed and logs it.
 */
final class SimulatedDriver implements Runnable {
  private static final SinkOptions OPTIONS =
      SinkOptions.parse(
          new CaseInsensitiveStringMap(
              Map.of(
                  "kafka.bootstrap.servers",
                  "broker:9092",
                  "topic",
                  "t",
                  "transactionalIdPrefix",
                  SimulatedBroker.PREFIX)));
  private static final TopicPartition INPUT = new TopicPartition("input", 0);
  private static final String SOURCE = Identity.digest("source");

  /** What Spark's attempts of one task come to, before it fails the stage. */
  private static final int ATTEMPTS = 4;

  /** An error of Spark's, which stops the run. */
  private static final class SparkFails extends RuntimeException {
    private static final long serialVersionUID = 1L;

    SparkFails(String what) {
      super(what, null, false, false);
    }
  }

  /**
   * What Spark has planned for a batch.
   *
   * @param text of its file in the log, from which everything else follows
   */
  record Plan(String text) {
    long start() {
      return Long.parseLong(text.split(" ")[0]);
    }

    long end() {
      return Long.parseLong(text.split(" ")[1]);
    }

    int writers() {
      return 1 + Math.floorMod(text.hashCode(), 3);
    }

    long rows(int writer) {
      return Math.floorMod(text.hashCode() * 31 + writer * 7, 5);
    }

    /**
     * @param salt differs between runs of a batch that do not have the same rows
     */
    long digest(int writer, int salt) {
      return (text + "/" + writer + "/" + salt).hashCode();
    }
  }

  private final Simulation simulation;
  private final int number;
  private final boolean isQuiet;
  private final SimulatedBroker broker;
  private final SimulatedBroker.Connection connection;
  private final EpochOwner owner;
  private final Semaphore turn = new Semaphore(0);
  private volatile boolean hasEnded;
  private boolean hasCrashed;
  private boolean isDone;
  private String condition = "";
  private EpochSession session;
  private int generation;

  /** What a session does beside what follows, and has not begun yet. */
  private final List<Runnable> later = new ArrayList<>();

  /**
   * @param isQuiet whether no fault comes any more
   */
  SimulatedDriver(Simulation simulation, int number, boolean isQuiet) {
    this.simulation = simulation;
    this.number = number;
    this.isQuiet = isQuiet;
    broker = simulation.broker;
    connection = broker.new Connection(this);
    owner =
        new EpochOwner(
            SimulatedBroker.OWNER,
            "the query",
            simulation.isSink ? EpochOwner.SINK_FILE : "eoskafka-write-x.json",
            simulation.isSink ? null : "x",
            new Checkpoint(
                SimulatedFiles.CHECKPOINT,
                new SimulatedFiles.Access(
                    simulation.files, () -> simulation.step(this, "uses a file"))),
            true);
  }

  // ---- turns

  void giveTurn() {
    turn.release();
  }

  void awaitTurn() {
    turn.acquireUninterruptibly();
  }

  boolean hasEnded() {
    return hasEnded;
  }

  boolean hasCrashed() {
    return hasCrashed;
  }

  Simulation.Crash crash() {
    hasCrashed = true;
    return new Simulation.Crash();
  }

  int number() {
    return number;
  }

  boolean isQuiet() {
    return isQuiet;
  }

  /** Whether it has found or left the query with all its batches logged. */
  boolean isDone() {
    return isDone;
  }

  /** What it has ended with. */
  String condition() {
    return condition;
  }

  @Override
  public String toString() {
    return "driver " + number;
  }

  @Override
  public void run() {
    awaitTurn();
    try {
      live();
      isDone = true;
      condition = "done";
    } catch (Simulation.Crash e) {
      condition = "crash";
    } catch (EosKafkaException e) {
      condition = e.condition();
    } catch (TimeoutException | SparkFails e) {
      condition = e.getMessage();
    } catch (Throwable e) {
      if (!hasCrashed && !simulation.isOver()) {
        StringWriter text = new StringWriter();
        e.printStackTrace(new PrintWriter(text));
        simulation.fail("a driver ends with " + text);
      }
    } finally {
      if (hasCrashed) {
        condition = "crash";
      }
      simulation.say("-- " + this + " ends: " + condition);
      hasEnded = true;
      simulation.ended();
    }
  }

  // ---- the run

  private void live() {
    try {
      long planned = SimulatedFiles.last(simulation.files, "offsets");
      long logged = SimulatedFiles.last(simulation.files, "commits");
      long batch = planned < 0 ? 0 : planned == logged ? planned + 1 : planned;
      if (owner.kept().isPresent()) {
        if (simulation.isSink) {
          session = open();
        } else {
          settle();
        }
      }
      if (simulation.hasSource) {
        join(batch);
      }
      for (; batch < simulation.batches; batch++) {
        simulation.step(this, "plans batch " + batch);
        if (SimulatedFiles.text(simulation.files, "offsets/" + batch) == null) {
          plan(simulation, batch);
        }
        Plan plan = planned(simulation, batch);
        simulation.step(this, "runs batch " + batch);
        write(batch, plan);
        log(batch);
        doLaterWork();
      }
    } finally {
      doLaterWork();
      if (session != null) {
        session.close();
      }
    }
  }

  /** Writes a plan of a batch to Spark's log. */
  static void plan(Simulation simulation, long batch) {
    long start = batch == 0 ? 0 : planned(simulation, batch - 1).end();
    SimulatedFiles.put(
        simulation.files,
        "offsets/" + batch,
        start
            + " "
            + (start + 1 + simulation.random.nextInt(3))
            + " "
            + simulation.random.nextInt(1_000_000));
  }

  /** What Spark's log has for a batch. */
  static Plan planned(Simulation simulation, long batch) {
    return new Plan(SimulatedFiles.text(simulation.files, "offsets/" + batch));
  }

  private void log(long batch) {
    simulation.step(this, "logs batch " + batch);
    if (SimulatedFiles.text(simulation.files, "commits/" + batch) != null) {
      throw new SparkFails("Spark: another driver has logged batch " + batch);
    }
    if (simulation.isSink) {
      broker.requireWhole(batch);
    }
    SimulatedFiles.put(simulation.files, "commits/" + batch, "v1");
  }

  private EpochSession connect() {
    Optional<SinkIdentity> kept = owner.kept();
    SinkIdentity identity =
        new SinkIdentity(
            SimulatedBroker.OWNER,
            "cluster",
            connection.name(),
            connection.partitions(),
            OPTIONS.transactionalIdPrefix(),
            owner.writeId());
    DecisionLog log =
        DecisionLog.open(
            connection,
            connection::producer,
            SimulatedBroker.OWNER,
            SimulatedBroker.DECISION_ID,
            0,
            kept.isPresent(),
            () -> connection.highestRun(SimulatedBroker.OWNER));
    return new EpochSession(
        owner,
        OPTIONS,
        new EpochConnection(
            identity,
            kept.equals(Optional.of(identity)),
            connection,
            connection,
            log,
            SinkOptions::client,
            SimulatedBroker.TIMES,
            () -> simulation.nowMs() * 1_000_000,
            work -> {
              if (simulation.chance(2)) {
                work.run();
              } else {
                later.add(work);
              }
            }));
  }

  private void doLaterWork() {
    later.forEach(Runnable::run);
    later.clear();
  }

  private EpochSession open() {
    EpochSession opened = connect();
    opened.start();
    return opened;
  }

  /** As {@link DecisionOwners} does, which takes an error for one of that owner's next write. */
  private void settle() {
    try {
      connect().settle();
    } catch (EosKafkaException | TimeoutException e) {
      simulation.say("   not settled: " + e);
    }
  }

  /** As the start of a source does, once decisions are settled. */
  private void join(long batch) {
    simulation.call(this, "joins the group", () -> generation = broker.join());
    while (broker.hasPendingOffsets()) {
      simulation.waitMs(500);
      simulation.step(this, "waits for stable offsets");
    }
    long committed = broker.groupOffset();
    if (committed < 0) {
      simulation.call(this, "commits its start", () -> broker.commitStart(generation));
      committed = 0;
    }
    long start = batch == 0 ? 0 : planned(simulation, batch - 1).end();
    Long decided = session == null ? null : session.decidedStart(SOURCE, INPUT);
    if (decided != null && session.isDecided(batch) && decided != start) {
      throw simulation.fail("decided from " + decided + ", planned from " + start);
    }
    if (decided == null && committed > start) {
      throw EosKafkaException.of(
          "EOSKAFKA_DECISION_OTHER_PLAN", Map.of("epoch", batch, "owner", owner.name()));
    }
    if (decided == null && committed < start) {
      throw simulation.fail("the group is at " + committed + ", behind Spark's log at " + start);
    }
  }

  private void write(long batch, Plan plan) {
    try {
      if (session == null) {
        session = open();
      }
      write(session.begin(batch, OPTIONS), plan);
    } catch (EosKafkaException | TimeoutException | SparkFails e) {
      if (!simulation.catchesError()) {
        throw e;
      }
      simulation.say("   the function catches " + e);
    }
  }

  private void write(EpochBatch epoch, Plan plan) {
    boolean done = false;
    try {
      int salt = simulation.isRepeatable ? 0 : number;
      List<WriterReport> reports = new ArrayList<>();
      for (int writer = 0; writer < plan.writers(); writer++) {
        reports.add(runWriter(epoch.scope(), plan, writer, salt));
      }
      epoch.commit(reports, simulation.hasSource ? List.of(source(plan)) : List.of());
      done = true;
    } finally {
      if (!done) {
        epoch.abort();
      }
    }
  }

  private WriterReport runWriter(WriterScope scope, Plan plan, int writer, int salt) {
    long rows = plan.rows(writer);
    long digest = plan.digest(writer, salt);
    boolean hasRows = rows > 0;
    boolean opens = hasRows || scope.formerPresence().containsKey(writer);
    for (int number = 0; number < ATTEMPTS; number++) {
      SimulatedBroker.Attempt attempt = broker.new Attempt(scope, writer, number, digest, hasRows);
      boolean isLost = !simulation.isQuiet() && simulation.chance(hasRows ? 12 : 4);
      if (!opens || !scope.isWriting(writer)) {
        if (!isLost) {
          return report(WriterOutput.withoutTransaction(writer, rows, digest), number == 0);
        }
      } else if (isLost || !runAttempt(attempt)) {
        // Its report may be lost, or it is only slow.
        broker.giveUp(attempt);
        if (!hasRows && simulation.chance(2)) {
          // It says that its id may yet be initialised.
          return report(WriterOutput.withoutTransaction(writer, rows, digest), false);
        }
      } else if (!hasRows) {
        return report(WriterOutput.withoutTransaction(writer, rows, digest), number == 0);
      } else {
        if (!simulation.isQuiet() && simulation.chance(20)) {
          broker.giveUp(broker.new Attempt(scope, writer, number + 1, digest, true));
        }
        return report(attempt.prepared(rows), number == 0);
      }
    }
    throw new SparkFails("Spark: a task has failed " + ATTEMPTS + " times");
  }

  private static WriterReport report(WriterOutput output, boolean isFirst) {
    return new WriterReport(output, isFirst, TransactionCounts.NONE);
  }

  private boolean runAttempt(SimulatedBroker.Attempt attempt) {
    try {
      boolean goesOn = true;
      while (goesOn) {
        simulation.step(this, "waits for a writer");
        goesOn = attempt.step();
      }
      return true;
    } catch (EosKafkaException | TimeoutException e) {
      return false;
    }
  }

  private EpochSource source(Plan plan) {
    return new EpochSource() {
      @Override
      public String producersId() {
        return SOURCE;
      }

      @Override
      public Decision.Input input() {
        return new Decision.Input(
            1, SourceOptions.Split.NONE, Map.of(INPUT, plan.start()), Map.of(INPUT, plan.end()));
      }

      @Override
      public void addOffsets(Transactions decision, long epoch) {
        decision.sendOffsets(
            Map.of(INPUT, new OffsetAndMetadata(plan.end())),
            new Fence("group", generation, "driver-" + number, null),
            null);
      }

      @Override
      public void epochCommitted(long epoch) {}
    };
  }
}
