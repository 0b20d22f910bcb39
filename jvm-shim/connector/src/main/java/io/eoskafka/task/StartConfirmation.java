package io.eoskafka.task;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.transaction.CoordinatorCalls.FetchedOffset;
import io.eoskafka.transaction.ExecutorClients;
import io.eoskafka.wire.KafkaCalls;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Function;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.Errors;

/**
 * Compares the starts that an attempt has fetched with what the coordinator says that has accepted
 * the attempt's offsets.
 *
 * <p>A broker needs no other broker to answer a fetch of offsets. One that is cut off from its
 * peers and from the controller, but not from its clients, does not learn that the group has
 * another coordinator, and answers from its memory: with an offset that another attempt has moved
 * since. To accept offsets it needs its peers, so only the elected coordinator does. It is asked
 * after it has accepted the offsets of a transaction, and before the transaction ends:
 *
 * <ul>
 *   <li>A fetch that requires stability must be refused, because the offsets are pending. A broker
 *       that answers it does not have them.
 *   <li>A plain fetch must still show the start. If the offset has moved, another attempt has
 *       written these records.
 * </ul>
 *
 * <p>What the attempt's own producer has committed last is known without a fetch: another attempt
 * could have moved it only after fencing the producer.
 */
final class StartConfirmation {
  /** The coordinator that has accepted the offsets; an entry for each partition. */
  @FunctionalInterface
  interface Coordinator {
    Map<TopicPartition, FetchedOffset> fetch(Set<TopicPartition> partitions, boolean requireStable);
  }

  /** By default a broker that is cut off is in nobody's list of brokers after 9 seconds. */
  private static final Duration PATIENCE = Duration.ofSeconds(15);

  private static final Duration RETRY = Duration.ofMillis(200);

  private final String group;
  private final Duration patience;
  private final Map<TopicPartition, Long> unconfirmed = new HashMap<>();

  StartConfirmation(String group) {
    this(group, PATIENCE);
  }

  /**
   * @param patience for how long brokers are asked again that contradict each other
   */
  StartConfirmation(String group, Duration patience) {
    this.group = group;
    this.patience = patience;
  }

  /** Takes a start that a fetch has shown. */
  void fetched(TopicPartition partition, long start) {
    unconfirmed.put(partition, start);
  }

  /** Takes the starts of an earlier attempt of the same producer, which nobody has asked about. */
  void carriedOver(Map<TopicPartition, Long> starts) {
    unconfirmed.putAll(starts);
  }

  /**
   * Asks the coordinator that has accepted a task's offsets, as the other one.
   *
   * @param pending the partitions whose offsets are in the open transaction
   * @param accepted null if it is not known any more
   */
  void require(TaskScope scope, Collection<TopicPartition> pending, Node accepted) {
    try {
      require(
          pending,
          accepted == null ? "unknown" : accepted.toString(),
          (partitions, requireStable) ->
              ExecutorClients.coordinators(scope.sink())
                  .fetch(accepted, group, partitions, requireStable));
    } catch (EosKafkaException e) {
      // The next attempt looks for the coordinator anew.
      ExecutorClients.forget(scope.source());
      throw e;
    }
  }

  /**
   * Asks about each start that was fetched and not asked about before.
   *
   * @param pending the partitions whose offsets are in the open transaction
   * @param broker its name, for the error
   * @throws EosKafkaException {@code EOSKAFKA_START_NOT_CONFIRMED}
   */
  void require(Collection<TopicPartition> pending, String broker, Coordinator accepted) {
    Set<TopicPartition> asked = new HashSet<>(pending);
    asked.retainAll(unconfirmed.keySet());
    if (asked.isEmpty()) {
      return;
    }
    Map<TopicPartition, FetchedOffset> stable = accepted.fetch(asked, true);
    Map<TopicPartition, FetchedOffset> plain = accepted.fetch(asked, false);
    for (TopicPartition partition : asked) {
      long start = unconfirmed.get(partition);
      boolean isPending = stable.get(partition).error() == Errors.UNSTABLE_OFFSET_COMMIT;
      FetchedOffset found = plain.get(partition);
      if (!isPending || found.error() != Errors.NONE || found.offset() != start) {
        throw EosKafkaException.of(
            "EOSKAFKA_START_NOT_CONFIRMED",
            Map.of(
                "group", group,
                "partition", partition,
                "start", start,
                "broker", broker,
                "stable", stable.get(partition),
                "found", found));
      }
    }
    unconfirmed.keySet().removeAll(asked);
  }

  /**
   * Asks all brokers about offsets that a fetch has shown and that lie at the ends of their ranges,
   * as the other one.
   *
   * @param ends by topic-partition
   */
  void requireCommitted(TaskScope scope, Map<TopicPartition, Long> ends) {
    try {
      requireCommitted(
          ends,
          partitions ->
              ExecutorClients.coordinators(scope.sink()).fetchEverywhere(group, partitions));
    } catch (EosKafkaException e) {
      // The next attempt looks for the coordinator anew.
      ExecutorClients.forget(scope.source());
      throw e;
    }
  }

  /**
   * Asks about ranges that an attempt leaves out, since their ends are committed: no coordinator
   * accepts offsets of them, so nobody else would notice a wrong answer. It may be of a former
   * coordinator from before the offset was moved back, to where a log was cut. Every broker that
   * has the group's offsets must have got as far.
   *
   * @param ends by topic-partition, what the fetch has shown
   * @param everyBroker see {@link io.eoskafka.transaction.CoordinatorCalls#fetchEverywhere}
   * @throws EosKafkaException {@code EOSKAFKA_COMMIT_NOT_CONFIRMED}
   */
  void requireCommitted(
      Map<TopicPartition, Long> ends,
      Function<Set<TopicPartition>, Map<Node, Map<TopicPartition, FetchedOffset>>> everyBroker) {
    long deadline = System.nanoTime() + patience.toNanos();
    while (!ends.isEmpty()) {
      Map<Node, Map<TopicPartition, FetchedOffset>> answers = everyBroker.apply(ends.keySet());
      Optional<TopicPartition> open =
          ends.keySet().stream()
              .filter(partition -> !isCommitted(partition, ends.get(partition), answers.values()))
              .findFirst();
      if (open.isEmpty()) {
        return;
      }
      if (System.nanoTime() > deadline) {
        Map<String, String> found = new TreeMap<>();
        answers.forEach((node, of) -> found.put(node.toString(), of.get(open.get()).toString()));
        throw EosKafkaException.of(
            "EOSKAFKA_COMMIT_NOT_CONFIRMED",
            Map.of(
                "group",
                group,
                "partition",
                open.get(),
                "end",
                ends.get(open.get()),
                "found",
                found.isEmpty() ? "not all brokers can be asked" : found));
      }
      KafkaCalls.sleep(RETRY.toMillis());
    }
  }

  private static boolean isCommitted(
      TopicPartition partition, long end, Collection<Map<TopicPartition, FetchedOffset>> answers) {
    boolean isKnown = false;
    for (Map<TopicPartition, FetchedOffset> answer : answers) {
      FetchedOffset found = answer.get(partition);
      if (found.error() == Errors.NONE && found.offset() >= end) {
        isKnown = true;
      } else if (found.error() != Errors.NOT_COORDINATOR) {
        return false;
      }
    }
    return isKnown;
  }

  /** The starts that were fetched and not asked about, for the next attempt of the producer. */
  Map<TopicPartition, Long> unconfirmed() {
    return Map.copyOf(unconfirmed);
  }
}
