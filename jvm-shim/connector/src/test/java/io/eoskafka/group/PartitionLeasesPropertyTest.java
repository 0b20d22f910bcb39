package io.eoskafka.group;

import static org.assertj.core.api.Assertions.assertThat;

import io.eoskafka.identity.Fence;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.Combinators;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.Tuple;
import org.apache.kafka.common.TopicPartition;

/**
 * Two drivers of one group and a coordinator that moves partitions between them, in any order with
 * batches and attempts. An attempt that has a lease may commit until it is over: when it says so,
 * or when its driver has fenced its producer.
 */
class PartitionLeasesPropertyTest {
  private static final int PARTITIONS = 3;

  private enum Kind {
    MOVE,
    LOSE,
    JOIN,
    PLAN,
    LEASE,
    LATE_LEASE,
    END_ATTEMPT,
    END_BATCH
  }

  private record Step(Kind kind, int driver, int partition, int attempt) {}

  /** A commit that may still come. */
  private record Holder(int driver, long plan, int slot, long attempt, String transactionalId) {}

  @Provide
  Arbitrary<List<Step>> steps() {
    return Combinators.combine(
            // Most attempts are given time to do something before the next change of an owner.
            Arbitraries.frequency(
                Tuple.of(2, Kind.MOVE),
                Tuple.of(1, Kind.LOSE),
                Tuple.of(1, Kind.JOIN),
                Tuple.of(2, Kind.PLAN),
                Tuple.of(8, Kind.LEASE),
                Tuple.of(1, Kind.LATE_LEASE),
                Tuple.of(2, Kind.END_ATTEMPT),
                Tuple.of(1, Kind.END_BATCH)),
            Arbitraries.integers().between(0, 1),
            Arbitraries.integers().between(0, PARTITIONS - 1),
            Arbitraries.integers().between(0, 2))
        .as(Step::new)
        .list()
        .ofMinSize(20)
        .ofMaxSize(200);
  }

  @Property
  void aPartitionNeverHasHoldersInTwoDriversNorALeaseAfterItsTerm(
      @ForAll("steps") List<Step> steps) {
    Group group = new Group();
    for (Step step : steps) {
      group.take(step);
      group.check();
    }
  }

  /** The coordinator's side, and what the drivers' attempts may still do. */
  private static final class Group {
    final List<PartitionLeases> drivers = List.of(new PartitionLeases(), new PartitionLeases());
    final Map<Integer, Integer> owners = new HashMap<>();
    final Map<Integer, Integer> epochs = new HashMap<>();
    final Set<Holder> holders = new HashSet<>();

    /** By driver: its last plan, and in which assignment each of its slots was planned. */
    final Map<Integer, Long> plans = new HashMap<>();

    final Map<Integer, Map<Integer, Integer>> planned = new HashMap<>();
    int generation = 1;

    Group() {
      for (int partition = 0; partition < PARTITIONS; partition++) {
        assign(partition, 0);
      }
      drivers.get(1).assign(fence(), Set.of());
    }

    void take(Step step) {
      PartitionLeases driver = drivers.get(step.driver());
      Set<TopicPartition> one = Set.of(of(step.partition()));
      switch (step.kind()) {
        case MOVE -> {
          Integer from = owners.get(step.partition());
          generation++;
          if (from != null && !drivers.get(from).giveUp(one, System.nanoTime())) {
            end(drivers.get(from).lose(one));
          }
          assign(step.partition(), step.driver());
        }
        case LOSE -> {
          Integer from = owners.remove(step.partition());
          if (from != null) {
            end(drivers.get(from).lose(one));
          }
        }
        case JOIN -> {
          generation++;
          drivers.forEach(each -> each.setFence(fence()));
        }
        case PLAN -> {
          endBatch(step.driver());
          Map<Integer, Map<TopicPartition, Long>> slots = new HashMap<>();
          Map<Integer, Integer> in = new HashMap<>();
          driver
              .ownership(all(), System.nanoTime())
              .orElseThrow()
              .terms()
              .forEach(
                  (partition, term) -> {
                    slots.put(partition.partition(), Map.of(partition, term));
                    in.put(partition.partition(), epochs.get(partition.partition()));
                  });
          plans.put(step.driver(), driver.begin(slots));
          planned.put(step.driver(), in);
        }
        case LEASE -> lease(step, plans.getOrDefault(step.driver(), 0L));
        case LATE_LEASE -> lease(step, plans.getOrDefault(step.driver(), 1L) - 1);
        case END_ATTEMPT -> {
          for (Holder holder : Set.copyOf(holders)) {
            if (holder.driver() == step.driver() && holder.slot() == step.partition()) {
              holders.remove(holder);
              driver.ended(holder.plan(), List.of(holder.slot()), holder.attempt());
              return;
            }
          }
        }
        case END_BATCH -> endBatch(step.driver());
      }
    }

    private void lease(Step step, long plan) {
      int slot = step.partition();
      String id = step.driver() + "-" + slot + "-" + step.attempt();
      Optional<Fence> given =
          drivers.get(step.driver()).lease(plan, List.of(slot), step.attempt(), id);
      if (given.isPresent()) {
        // In the batch that runs, and since its plan the partition was nobody else's.
        assertThat(plan).isEqualTo(plans.get(step.driver()));
        assertThat(owners.get(slot)).isEqualTo(step.driver());
        assertThat(planned.get(step.driver()).get(slot)).isEqualTo(epochs.get(slot));
        holders.add(new Holder(step.driver(), plan, slot, step.attempt(), id));
      }
    }

    private void endBatch(int driver) {
      drivers.get(driver).end().values().forEach(this::end);
      drivers.get(driver).release();
      planned.remove(driver);
      // None is left that nobody has fenced.
      assertThat(holders).noneMatch(holder -> holder.driver() == driver);
    }

    /** Their producers are fenced. */
    private void end(Set<String> transactionalIds) {
      holders.removeIf(holder -> transactionalIds.contains(holder.transactionalId()));
    }

    private void assign(int partition, int driver) {
      owners.put(partition, driver);
      epochs.merge(partition, 1, Integer::sum);
      drivers.get(driver).assign(fence(), Set.of(of(partition)));
    }

    /** Whoever may commit over a partition is its owner's. */
    void check() {
      for (Holder holder : holders) {
        assertThat(owners.get(holder.slot())).isEqualTo(holder.driver());
      }
    }

    private Optional<Fence> fence() {
      return Optional.of(new Fence("g", generation, "member", null));
    }

    private static TopicPartition of(int partition) {
      return new TopicPartition("t", partition);
    }

    private static Set<TopicPartition> all() {
      return Set.of(of(0), of(1), of(2));
    }
  }
}
