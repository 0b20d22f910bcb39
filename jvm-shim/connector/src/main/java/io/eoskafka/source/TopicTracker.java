package io.eoskafka.source;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.wire.KafkaCalls;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;

/** The partitions of a source's topics, and under which topic ids a run knows them. */
final class TopicTracker {
  /** Spark asks every few milliseconds while a query is idle; new partitions can wait this long. */
  private static final long INTERVAL_NANOS = Duration.ofSeconds(1).toNanos();

  /** Brokers learn of each other's topics within milliseconds, or are far behind. */
  private static final long LOOK_AGAIN_MS = 1_000;

  private final Topics topics;
  private final DataLossPolicy dataLoss;
  private Map<TopicPartition, String> ids = Map.of();
  private long discoveredNanos;

  /** Partitions of topics that were created again since they were read. */
  private final Set<TopicPartition> recreated = new HashSet<>();

  TopicTracker(Topics topics, DataLossPolicy dataLoss) {
    this.topics = topics;
    this.dataLoss = dataLoss;
  }

  /** Whether it is time to look for new partitions. */
  boolean isDue() {
    return System.nanoTime() - discoveredNanos > INTERVAL_NANOS;
  }

  /**
   * Asks the cluster. A broker that has fallen behind does not know what others know: before
   * anything is said to be deleted, this looks for it once more.
   *
   * @param known partitions that existed before
   * @return the partitions with their topics' ids, for {@link #update}
   */
  Map<TopicPartition, String> discover(Collection<TopicPartition> known) {
    discoveredNanos = System.nanoTime();
    try {
      Map<TopicPartition, String> found = topics.discover();
      if (!found.isEmpty() && found.keySet().containsAll(known)) {
        return found;
      }
    } catch (EosKafkaException e) {
      if (!e.condition().equals("EOSKAFKA_NO_SUCH_TOPIC")) {
        throw e;
      }
    }
    KafkaCalls.sleep(LOOK_AGAIN_MS);
    return topics.discover();
  }

  /** Takes over what {@link #discover} has found. */
  void update(Map<TopicPartition, String> discovered) {
    ids = discovered;
  }

  /** All partitions of the source's topics, whoever owns them. */
  Set<TopicPartition> partitions() {
    return ids.keySet();
  }

  /** The id of a partition's topic, or null if the partition is not known. */
  String id(TopicPartition partition) {
    return ids.get(partition);
  }

  /**
   * What Spark's log knows must still be chosen, or it is lost: a topic was deleted between two
   * runs, or the options choose fewer topics now. Before a query's first batch its initial offsets
   * are in the place of a log.
   *
   * @throws EosKafkaException {@code EOSKAFKA_PARTITION_GONE}
   */
  void requireChosen(PartitionOffsets sparkStart, CheckpointFiles checkpoint) {
    Optional.ofNullable(sparkStart)
        .or(checkpoint::readInitialOffsets)
        .map(PartitionOffsets::offsets)
        .orElse(Map.of())
        .forEach(
            (partition, offset) -> {
              if (!ids.containsKey(partition)) {
                dataLoss.skipPartition(partition, offset);
              }
            });
  }

  void markRecreated(TopicPartition partition) {
    recreated.add(partition);
  }

  /** Whether a partition's topic was created again since it was read. */
  boolean isRecreated(TopicPartition partition) {
    return recreated.contains(partition);
  }

  /**
   * Keeps the ids, so that a topic that is deleted, and its offsets with it, is known when it is
   * created again: by partition, since it may come back with fewer, and those that are missing
   * later. Nothing is forgotten: a partition whose offset is missing from the group must not look
   * like a new one.
   *
   * @param kept what the checkpoint has
   * @param started what the group has an offset of, or will have by the options
   */
  void keep(
      Map<TopicPartition, String> kept, Set<TopicPartition> started, CheckpointFiles checkpoint) {
    Map<TopicPartition, String> now = new HashMap<>(kept);
    started.forEach(partition -> now.put(partition, ids.get(partition)));
    if (!now.equals(kept)) {
      checkpoint.writeTopicIds(now);
    }
  }
}
