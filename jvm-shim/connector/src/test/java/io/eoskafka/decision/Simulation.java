package io.eoskafka.decision;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.stream.Collectors;
import org.apache.hadoop.fs.Path;
import org.apache.kafka.common.errors.TimeoutException;

/**
 * One schedule of runs of one query, made from a seed: which driver makes its next call, what
 * becomes of that call, how much time passes, and what a user does to the checkpoint. The same seed
 * makes the same schedule.
 *
 * <p>Each run is a thread, and one thread at a time runs: whoever has the turn gives it back before
 * a call. First there are faults. Then there are none, and the query must come to rest: all its
 * batches are logged, or it has stopped for a reason that the schedule explains.
 */
final class Simulation {
  /** What a call of a driver fails with that has crashed, or whose schedule is over. */
  static final class Crash extends RuntimeException {
    private static final long serialVersionUID = 1L;

    Crash() {
      super("crashed", null, false, false);
    }
  }

  private static final int MAX_ALIVE = 3;
  private static final int MAX_RUNS = 7;

  /** More runs than this without faults mean that the query never comes to rest. */
  private static final int MAX_QUIET_RUNS = 12;

  private static final long SECOND = 1_000;

  private static final ExecutorService THREADS =
      Executors.newCachedThreadPool(
          work -> {
            Thread thread = new Thread(work, "simulated-driver");
            thread.setDaemon(true);
            return thread;
          });

  final SplittableRandom random;

  /** Whether the owner is the query's sink; otherwise a write of its {@code foreachBatch}. */
  final boolean isSink;

  /** Whether the query reads a source of ours, whose offsets go into its decisions. */
  final boolean hasSource;

  /** Whether a batch that runs again may have other rows. */
  final boolean isRepeatable;

  /** How many batches the query has. */
  final int batches;

  final Map<Path, byte[]> files = SimulatedFiles.none();
  final SimulatedBroker broker = new SimulatedBroker(this);

  private final List<SimulatedDriver> drivers = new ArrayList<>();
  private final Semaphore turn = new Semaphore(0);
  private final List<String> trace;

  /** One of so many calls has a fault. */
  private final int callsPerFault;

  /** Whether a user may change the checkpoint between two runs. */
  private final boolean isMeddledWith;

  private long nowMs = 1_000_000;
  private long calls;
  private long hash;
  private long callsUntilQuiet;
  private long awayUntilCall;
  private boolean isQuiet;
  private boolean isOver;
  private String failure;
  private boolean hasMeddled;

  /** Whether a function of {@code foreachBatch} has caught the error of its write. */
  private boolean hasSwallowed;

  /**
   * @param seed of the schedule
   * @param traced whether {@link #trace} is wanted
   */
  Simulation(long seed, boolean traced) {
    random = new SplittableRandom(seed);
    trace = traced ? new ArrayList<>() : null;
    isSink = !chance(3);
    hasSource = isSink && !chance(3);
    isRepeatable = !chance(6);
    isMeddledWith = chance(4);
    batches = 2 + random.nextInt(3);
    callsPerFault = new int[] {15, 40, 120, 1_000}[random.nextInt(4)];
    callsUntilQuiet = 60 + random.nextInt(240);
  }

  boolean chance(int oneOf) {
    return random.nextInt(oneOf) == 0;
  }

  /**
   * Runs the schedule.
   *
   * @return what is wrong, or null
   */
  String run() {
    SimulatedDriver chosen;
    while (failure == null && (chosen = next()) != null) {
      giveTurn(chosen);
    }
    isOver = true;
    drivers.stream().filter(driver -> !driver.hasEnded()).toList().forEach(this::giveTurnUntilEnd);
    if (failure == null) {
      broker.requireAtRest();
    }
    return failure;
  }

  private void giveTurnUntilEnd(SimulatedDriver driver) {
    while (!driver.hasEnded()) {
      giveTurn(driver);
    }
  }

  private void giveTurn(SimulatedDriver driver) {
    driver.giveTurn();
    turn.acquireUninterruptibly();
  }

  /** Whose turn it is, or null if the query has come to rest. */
  private SimulatedDriver next() {
    List<SimulatedDriver> alive = drivers.stream().filter(driver -> !driver.hasEnded()).toList();
    if (!isQuiet && (callsUntilQuiet <= 0 || drivers.size() >= MAX_RUNS)) {
      isQuiet = true;
      say("-- quiet");
    }
    if (alive.isEmpty()) {
      return isAtRest() ? null : start();
    }
    if (!isQuiet && alive.size() < MAX_ALIVE && chance(10)) {
      return start();
    }
    return chance(2) ? alive.get(random.nextInt(alive.size())) : alive.get(alive.size() - 1);
  }

  private SimulatedDriver start() {
    if (!isQuiet && isMeddledWith && drivers.stream().allMatch(SimulatedDriver::hasEnded)) {
      meddle();
    }
    SimulatedDriver driver = new SimulatedDriver(this, drivers.size(), isQuiet);
    drivers.add(driver);
    say("-- start of " + driver);
    THREADS.execute(driver);
    return driver;
  }

  /** A user changes the checkpoint: no run is alive. */
  private void meddle() {
    long planned = SimulatedFiles.last(files, "offsets");
    long logged = SimulatedFiles.last(files, "commits");
    if (planned < 0 || !chance(3)) {
      return;
    }
    hasMeddled = true;
    int what = random.nextInt(3);
    if (what == 0) {
      // The batch is planned anew.
      say("-- file offsets/" + planned + " is removed");
      SimulatedFiles.remove(files, "offsets/" + planned);
      SimulatedFiles.remove(files, "commits/" + planned);
    } else if (what == 1) {
      say("-- an older copy is restored");
      for (long batch = Math.max(0, planned - 1); batch <= planned; batch++) {
        SimulatedFiles.remove(files, "offsets/" + batch);
        SimulatedFiles.remove(files, "commits/" + batch);
      }
    } else if (planned > logged) {
      say("-- file offsets/" + planned + " is replaced");
      SimulatedDriver.plan(this, planned);
    }
  }

  /** No run is alive and no fault comes any more. */
  private boolean isAtRest() {
    if (!isQuiet || drivers.isEmpty()) {
      return false;
    }
    SimulatedDriver last = drivers.get(drivers.size() - 1);
    if (!last.isQuiet()) {
      broker.dropAttempts();
      return false;
    }
    if (last.isDone()) {
      return true;
    }
    List<SimulatedDriver> quiet = drivers.stream().filter(SimulatedDriver::isQuiet).toList();
    if (quiet.size() >= 2
        && isFinal(last.condition())
        && last.condition().equals(quiet.get(quiet.size() - 2).condition())) {
      broker.setStopped(last.condition());
      return true;
    }
    if (quiet.size() > MAX_QUIET_RUNS) {
      fail(
          "the query does not come to rest; its last runs ended with "
              + quiet.stream().map(SimulatedDriver::condition).collect(Collectors.toList()));
    }
    return false;
  }

  /** Whether the query may stop with a condition until a user does something. */
  private boolean isFinal(String condition) {
    return switch (condition) {
      case "EOSKAFKA_DECISION_NEWER", "EOSKAFKA_DECISION_OTHER_PLAN" -> hasMeddled;
      case "EOSKAFKA_EPOCH_NOT_REPEATABLE" -> !isRepeatable;
      case "EOSKAFKA_WRITE_INCOMPLETE" -> !isSink && hasSwallowed;
      default -> false;
    };
  }

  /**
   * Whether the function of {@code foreachBatch} catches an error of its write, so that Spark logs
   * the batch. Not if a user changes the checkpoint: then the function has to stop the query.
   */
  boolean catchesError() {
    boolean catches = !isSink && !isQuiet && !isMeddledWith && chance(2);
    hasSwallowed |= catches;
    return catches;
  }

  /**
   * Whether Spark may have logged a batch whose write has failed. If the last batch has lost output
   * then, a start names it in its log, and only a later write would fail for it.
   */
  boolean hasCaughtError() {
    return hasSwallowed;
  }

  // ---- for drivers, which have the turn

  /** Comes before a call: time passes, and others may act. */
  void step(SimulatedDriver driver, String what) {
    requireAlive(driver);
    calls++;
    callsUntilQuiet--;
    say(driver + " " + what);
    hash = hash * 31 + driver.number() * 7 + what.substring(0, 4).hashCode();
    pass();
    // Most often between a decision and its end: what others do then does most harm.
    if (chance(what.startsWith("commits") ? 2 : 7)) {
      turn.release();
      driver.awaitTurn();
    }
    requireAlive(driver);
  }

  private void requireAlive(SimulatedDriver driver) {
    if (isOver || driver.hasCrashed()) {
      throw new Crash();
    }
  }

  /** A run has ended. */
  void ended() {
    turn.release();
  }

  private void pass() {
    nowMs += random.nextInt(20);
    if (!isQuiet) {
      if (chance(150)) {
        nowMs += random.nextInt(15) * SECOND;
      } else if (chance(500)) {
        nowMs += random.nextInt(500) * SECOND;
      }
      if (chance(300)) {
        awayUntilCall = calls + random.nextInt(20);
      }
    }
    broker.pass();
  }

  /**
   * A call of a driver to a coordinator or a broker.
   *
   * @param effect what the broker does
   * @param late what it does if the request arrives when its driver has given up
   */
  void call(SimulatedDriver driver, String what, Runnable effect, Runnable late) {
    step(driver, what);
    if (!isQuiet && (calls < awayUntilCall || chance(callsPerFault))) {
      switch (calls < awayUntilCall ? 3 : random.nextInt(6)) {
        case 0 -> {
          say("   crash before the effect");
          throw driver.crash();
        }
        case 1 -> {
          say("   crash after the effect");
          effect.run();
          throw driver.crash();
        }
        case 2 -> {
          say("   crash, the effect comes later");
          broker.later(late);
          throw driver.crash();
        }
        case 3 -> {
          say("   no effect, no answer");
          throw new TimeoutException("no answer to: " + what);
        }
        case 4 -> {
          say("   no answer");
          effect.run();
          throw new TimeoutException("no answer to: " + what);
        }
        default -> {
          say("   no answer, the effect comes later");
          broker.later(late);
          throw new TimeoutException("no answer to: " + what);
        }
      }
    }
    effect.run();
  }

  void call(SimulatedDriver driver, String what, Runnable effect) {
    call(driver, what, effect, () -> {});
  }

  /** Something is wrong: the schedule is over. */
  Crash fail(String what) {
    if (failure == null) {
      failure = what;
      say("!! " + what);
    }
    isOver = true;
    return new Crash();
  }

  boolean isQuiet() {
    return isQuiet;
  }

  boolean isOver() {
    return isOver;
  }

  /** How many calls there were. */
  long calls() {
    return calls;
  }

  long nowMs() {
    return nowMs;
  }

  void waitMs(long ms) {
    nowMs += ms;
  }

  /** A number that two runs of one schedule have in common. */
  long hash() {
    return hash * 31 + calls;
  }

  void say(String what) {
    if (trace != null) {
      trace.add(nowMs + " " + what);
    }
  }

  /** What has happened, in order. */
  List<String> trace() {
    return trace;
  }

  /** What has become of the runs, for statistics. */
  List<String> ends() {
    return drivers.stream().map(SimulatedDriver::condition).toList();
  }
}
