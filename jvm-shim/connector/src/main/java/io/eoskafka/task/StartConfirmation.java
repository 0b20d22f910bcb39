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
 * Compares the starts that an attempt has fetched with the offsets of the coordinator that has
 * accepted the attempt's own offsets.
 *
 * <p>A broker answers an offset fetch without asking other brokers. If it is cut off from its peers
 * and from the controller, but not from its clients, it does not learn that the group has another
 * coordinator, and answers from memory with an offset that another attempt may have moved. To
 * accept offsets a broker needs its peers, so only the elected coordinator can. This class asks it
 * after it has accepted the offsets of a transaction, and before the transaction ends:
 *
 * <ul>
 *   <li>A fetch that requires stability must be refused, because the offsets are pending. A broker
 *       that answers it does not have them.
 *   <li>A plain fetch must still return the start. If the offset has moved, another attempt has
 *       written these records.
 * </ul>
 *
 * <p>The last commit of the attempt's own producer needs no fetch: another attempt could have moved
 * the offset only after fencing the producer.
 */
final class StartConfirmation {
  /** The coordinator that has accepted the offsets; an entry for each partition. */
  @FunctionalInterface
  interface Coordinator {
    Map<TopicPartition, FetchedOffset> fetch(Set<TopicPartition> partitions, boolean requireStable);
  }

  /** By default, no broker lists a broker that has been cut off for 9 seconds. */
  private static final Duration PATIENCE = Duration.ofSeconds(15);

  private static final Duration RETRY = Duration.ofMillis(200);

  private final String group;
  private final Duration patience;
  private final Map<TopicPartition, Long> unconfirmed = new HashMap<>();

  StartConfirmation(String group) {
    this(group, PATIENCE);
  }

  /**
   * @param patience how long to ask again if brokers contradict each other
   */
  StartConfirmation(String group, Duration patience) {
    this.group = group;
    this.patience = patience;
  }

  /** Records a start that was fetched. */
  void fetched(TopicPartition partition, long start) {
    unconfirmed.put(partition, start);
  }

  /** Records the unconfirmed starts of an earlier attempt of the same producer. */
  void carriedOver(Map<TopicPartition, Long> starts) {
    unconfirmed.putAll(starts);
  }

  /**
   * Confirms the starts with the coordinator that has accepted a task's offsets.
   *
   * @param pending the partitions whose offsets are in the open transaction
   * @param accepted null if it is no longer known
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
   * Confirms each start that was fetched and has not been confirmed yet.
   *
   * @param pending the partitions whose offsets are in the open transaction
   * @param broker the coordinator's name, for the error
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
   * Asks all brokers to confirm fetched offsets that lie at the ends of their ranges.
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
   * Confirms ranges that an attempt skips because their ends are committed. No coordinator accepts
   * offsets for them, so nothing else would reveal a wrong answer, for example from a former
   * coordinator that has an offset from before a truncated log moved the group back. Every broker
   * that has the group's offsets must have reached these ends.
   *
   * @param ends by topic-partition, the fetched offsets
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

  /** The starts that were fetched but not confirmed, for the next attempt of the producer. */
  Map<TopicPartition, Long> unconfirmed() {
    return Map.copyOf(unconfirmed);
  }
}
