package io.eoskafka.decision;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.LongStream;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.core.config.Configurator;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/**
 * Many schedules of faults, each made from its seed, against the real {@link EpochSession}, {@link
 * EpochBatch} and {@link DecisionLog} with everything below them that needs neither a broker nor
 * Spark. {@link Simulation} makes a schedule, {@link SimulatedDriver} does what Spark does on a
 * driver, and {@link SimulatedBroker} is what they ask, and checks what must hold.
 *
 * <p>{@code -Deoskafka.schedules=N} runs N schedules, with the seeds from 0 on. {@code
 * -Deoskafka.seed=N} runs the schedule of one seed and prints what happens in it.
 */
class EpochSimulationTest {
  private static final long SEED = Long.getLong("eoskafka.seed", -1);
  private static final long SCHEDULES = Long.getLong("eoskafka.schedules", 300);
  private static final long SEEDS_TWICE = 20;

  /** How much of a failed schedule its error shows. */
  private static final int LAST_STEPS = 200;

  private static final String LOGGERS = "io.eoskafka.decision";

  /** Each schedule would log some hundred lines. */
  @BeforeAll
  static void logNothing() {
    // Spark sets the levels anew when it first loads a class of its own that logs.
    new Simulation(0, false).run();
    Configurator.setLevel(LOGGERS, Level.OFF);
  }

  @AfterAll
  static void logAgain() {
    Configurator.setLevel(LOGGERS, Level.INFO);
  }

  @Test
  void noScheduleLosesOrDuplicatesAnything() throws InterruptedException {
    long failed = SEED < 0 ? firstFailed() : SEED;
    if (failed < 0) {
      return;
    }
    Simulation simulation = new Simulation(failed, true);
    String failure = simulation.run();
    List<String> steps = simulation.trace();
    if (SEED >= 0) {
      steps.forEach(System.out::println);
    }
    assertThat(failure)
        .as(
            "with seed %s (-Deoskafka.seed=%s replays it):%n%s",
            failed,
            failed,
            String.join("\n", steps.subList(Math.max(0, steps.size() - LAST_STEPS), steps.size())))
        .isNull();
  }

  @Test
  void aSeedMakesTheSameScheduleAgain() {
    assertThat(hashes()).isEqualTo(hashes());
  }

  private static List<Long> hashes() {
    return LongStream.range(0, SEEDS_TWICE)
        .mapToObj(
            seed -> {
              Simulation simulation = new Simulation(seed, false);
              simulation.run();
              return simulation.hash();
            })
        .toList();
  }

  /** The seed of a schedule that fails, or -1. */
  private static long firstFailed() throws InterruptedException {
    AtomicLong next = new AtomicLong();
    AtomicLong failed = new AtomicLong(-1);
    List<Thread> threads = new ArrayList<>();
    long began = System.nanoTime();
    for (int i = 0; i < Runtime.getRuntime().availableProcessors(); i++) {
      Thread thread =
          new Thread(
              () -> {
                long seed;
                while (failed.get() < 0 && (seed = next.getAndIncrement()) < SCHEDULES) {
                  if (new Simulation(seed, false).run() != null) {
                    failed.compareAndSet(-1, seed);
                  }
                }
              });
      thread.start();
      threads.add(thread);
    }
    for (Thread thread : threads) {
      thread.join();
    }
    System.out.printf(
        "%d schedules in %d ms%n",
        Math.min(next.get(), SCHEDULES), (System.nanoTime() - began) / 1_000_000);
    return failed.get();
  }
}
