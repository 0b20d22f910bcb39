package io.eoskafka.source;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.identity.Stamp;
import io.eoskafka.wire.KafkaCalls;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The partitions of a source's topics, and under which topic ids a run knows them. */
final class TopicTracker {
  private static final Logger LOG = LoggerFactory.getLogger(TopicTracker.class);

  /** Spark asks every few milliseconds while a query is idle; new partitions can wait this long. */
  private static final long INTERVAL_NANOS = Duration.ofSeconds(1).toNanos();

  /** Brokers learn of each other's topics within milliseconds, or are far behind. */
  private static final Duration LOOK_AGAIN = Duration.ofSeconds(1);

  /** By default a broker that is cut off is in nobody's list of brokers after 9 seconds. */
  private static final Duration PATIENCE = Duration.ofSeconds(20);

  private final Supplier<Map<TopicPartition, String>> topics;
  private final Function<Set<String>, Map<String, String>> agreedIds;
  private final DataLossPolicy dataLoss;
  private final Duration lookAgain;
  private final Duration patience;
  private Map<TopicPartition, String> ids = Map.of();

  /** Under which ids this run has known partitions, also those that are deleted now. */
  private final Map<TopicPartition, String> seen = new HashMap<>();

  /** What the checkpoint had at the start. */
  private Map<TopicPartition, String> expected = Map.of();

  private long discoveredNanos;

  /** Partitions of topics that were created again since they were read. */
  private final Set<TopicPartition> recreated = new HashSet<>();

  /** Ids of topics that were created again. An id never returns, so who names one is behind. */
  private final Set<String> formerIds = new HashSet<>();

  /** When the ids of topics and the stamps of offsets began to contradict each other, or empty. */
  private OptionalLong doubtedSince = OptionalLong.empty();

  /**
   * @param topics as {@link Topics#discover} finds them
   * @param agreedIds as {@link Topics#agreedIds} finds them
   */
  TopicTracker(
      Supplier<Map<TopicPartition, String>> topics,
      Function<Set<String>, Map<String, String>> agreedIds,
      DataLossPolicy dataLoss) {
    this(topics, agreedIds, dataLoss, LOOK_AGAIN, PATIENCE);
  }

  /**
   * @param lookAgain how long to wait before the cluster is asked again
   * @param patience for how long that is done
   */
  TopicTracker(
      Supplier<Map<TopicPartition, String>> topics,
      Function<Set<String>, Map<String, String>> agreedIds,
      DataLossPolicy dataLoss,
      Duration lookAgain,
      Duration patience) {
    this.topics = topics;
    this.agreedIds = agreedIds;
    this.dataLoss = dataLoss;
    this.lookAgain = lookAgain;
    this.patience = patience;
  }

  /** Whether it is time to look for new partitions. */
  boolean isDue() {
    return System.nanoTime() - discoveredNanos > INTERVAL_NANOS;
  }

  /**
   * Asks the cluster. A broker that has fallen behind does not know what others know: before
   * anything is said to be deleted or created again, this looks for it once more. A topic was
   * created again only if all brokers name its new id, since the same broker may answer each time.
   * An answer with an id that was replaced before is not used at all.
   *
   * @param known partitions that existed before
   * @return the partitions with their topics' ids, for {@link #update}
   * @throws EosKafkaException {@code EOSKAFKA_TOPIC_ID_UNCLEAR}
   */
  Map<TopicPartition, String> discover(Collection<TopicPartition> known) {
    Map<TopicPartition, String> before = new HashMap<>(expected);
    before.putAll(seen);
    return ask(known, before);
  }

  /**
   * As the other one, at a start.
   *
   * @param kept what the checkpoint has
   */
  Map<TopicPartition, String> discover(
      Collection<TopicPartition> known, Map<TopicPartition, String> kept) {
    expected = Map.copyOf(kept);
    return ask(known, kept);
  }

  private Map<TopicPartition, String> ask(
      Collection<TopicPartition> known, Map<TopicPartition, String> before) {
    long deadline = System.nanoTime() + patience.toNanos();
    while (true) {
      Map<TopicPartition, String> found = askTwice(known, before);
      Optional<TopicPartition> old = old(found);
      Optional<TopicPartition> unconfirmed = old.isPresent() ? old : unconfirmed(found, before);
      if (unconfirmed.isEmpty()) {
        addFormer(before, found);
        return found;
      }
      TopicPartition partition = unconfirmed.get();
      if (System.nanoTime() > deadline) {
        throw unclear(
            partition,
            found.get(partition),
            old.isPresent()
                ? "a former topic of this name had that id"
                : "not every broker confirms it");
      }
      LOG.info("{} has another id than it had: a broker may be behind", partition);
      KafkaCalls.sleep(lookAgain.toMillis());
    }
  }

  private Optional<TopicPartition> old(Map<TopicPartition, String> found) {
    return found.entrySet().stream()
        .filter(entry -> formerIds.contains(entry.getValue()))
        .map(Map.Entry::getKey)
        .findFirst();
  }

  /** A partition with another id than before, which not all brokers name. */
  private Optional<TopicPartition> unconfirmed(
      Map<TopicPartition, String> found, Map<TopicPartition, String> before) {
    Set<String> replaced = new TreeSet<>();
    found.keySet().stream()
        .filter(partition -> isReplaced(partition, found, before))
        .forEach(partition -> replaced.add(partition.topic()));
    if (replaced.isEmpty()) {
      return Optional.empty();
    }
    Map<String, String> agreed = agreedIds.apply(replaced);
    return found.keySet().stream()
        .filter(partition -> isReplaced(partition, found, before))
        .filter(partition -> !found.get(partition).equals(agreed.get(partition.topic())))
        .findFirst();
  }

  private EosKafkaException unclear(TopicPartition partition, String id, String why) {
    return EosKafkaException.of(
        "EOSKAFKA_TOPIC_ID_UNCLEAR",
        Map.of("partition", partition, "id", id, "why", why, "waited", patience.toSeconds()));
  }

  private Map<TopicPartition, String> askTwice(
      Collection<TopicPartition> known, Map<TopicPartition, String> before) {
    discoveredNanos = System.nanoTime();
    try {
      Map<TopicPartition, String> found = topics.get();
      if (!found.isEmpty()
          && found.keySet().containsAll(known)
          && found.keySet().stream().noneMatch(p -> isReplaced(p, found, before))) {
        return found;
      }
    } catch (EosKafkaException e) {
      if (!e.condition().equals("EOSKAFKA_NO_SUCH_TOPIC")) {
        throw e;
      }
    }
    KafkaCalls.sleep(lookAgain.toMillis());
    return topics.get();
  }

  private static boolean isReplaced(
      TopicPartition partition,
      Map<TopicPartition, String> found,
      Map<TopicPartition, String> before) {
    String id = found.get(partition);
    return !id.equals(before.getOrDefault(partition, id));
  }

  /** Takes over what {@link #discover} has found. */
  void update(Map<TopicPartition, String> discovered) {
    addFormer(seen, discovered);
    seen.putAll(discovered);
    ids = discovered;
  }

  /**
   * @param ids as {@link CheckpointFiles#readFormerTopicIds} has them
   */
  void addFormer(Set<String> ids) {
    formerIds.addAll(ids);
  }

  private void addFormer(Map<TopicPartition, String> before, Map<TopicPartition, String> now) {
    before.forEach(
        (partition, id) -> {
          if (!id.equals(now.getOrDefault(partition, id))) {
            formerIds.add(id);
          }
        });
  }

  /**
   * Whether the stamps of offsets are of the topics that are there, or of topics that are known to
   * have been replaced. Any other offset may be of a newer topic than the one that the broker knows
   * which was asked. That the checkpoint knows the offset's topic says nothing: the group loses the
   * offset when that topic is deleted, so it speaks against a topic that was created since. Before
   * it returns false, this waits a while, so that the cluster can be asked again.
   *
   * @param committed offsets with stamps
   * @throws EosKafkaException {@code EOSKAFKA_TOPIC_ID_UNCLEAR}
   */
  boolean agreesWith(Map<TopicPartition, OffsetAndMetadata> committed) {
    for (Map.Entry<TopicPartition, OffsetAndMetadata> entry : committed.entrySet()) {
      TopicPartition partition = entry.getKey();
      String id = ids.get(partition);
      String stamped = Stamp.parse(entry.getValue().metadata()).map(Stamp::topicId).orElse(id);
      if (Objects.equals(stamped, id) || formerIds.contains(stamped)) {
        continue;
      }
      long now = System.nanoTime();
      if (now - doubtedSince.orElse(now) > patience.toNanos()) {
        throw unclear(partition, id, "the stamp of its offset has the id " + stamped);
      }
      doubtedSince = OptionalLong.of(doubtedSince.orElse(now));
      LOG.info("{} has another id than its offset: a broker may be behind", partition);
      KafkaCalls.sleep(lookAgain.toMillis());
      return false;
    }
    doubtedSince = OptionalLong.empty();
    return true;
  }

  /** All partitions of the source's topics, whoever owns them. */
  Set<TopicPartition> partitions() {
    return ids.keySet();
  }

  /** The id of a partition's topic, or null if the partition is not known. */
  String id(TopicPartition partition) {
    return ids.get(partition);
  }

  /** Those of these offsets whose stamps are of the topics that are there. */
  Map<TopicPartition, OffsetAndMetadata> ofPresentTopics(
      Map<TopicPartition, OffsetAndMetadata> committed) {
    Map<TopicPartition, OffsetAndMetadata> present = new HashMap<>(committed);
    present
        .entrySet()
        .removeIf(
            entry ->
                Stamp.parse(entry.getValue().metadata())
                    .filter(stamp -> stamp.topicId().equals(ids.get(entry.getKey())))
                    .isEmpty());
    return present;
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
   * @param ofOthers offsets that others have committed: their topics may be newer or older than
   *     those that this driver knows
   */
  void keep(
      Map<TopicPartition, String> kept,
      Set<TopicPartition> started,
      Map<TopicPartition, OffsetAndMetadata> ofOthers,
      CheckpointFiles checkpoint) {
    Map<TopicPartition, String> now = new HashMap<>(kept);
    started.forEach(partition -> now.put(partition, ids.get(partition)));
    Map<TopicPartition, String> own = new HashMap<>(now);
    own.keySet().removeAll(ofOthers.keySet());
    addFormer(kept, own);
    ofOthers.forEach(
        (partition, offset) ->
            Stamp.parse(offset.metadata())
                .ifPresent(stamp -> now.computeIfPresent(partition, (p, id) -> stamp.topicId())));
    if (!checkpoint.readFormerTopicIds().equals(formerIds)) {
      checkpoint.writeFormerTopicIds(formerIds);
    }
    if (!now.equals(kept)) {
      checkpoint.writeTopicIds(now);
    }
  }
}
