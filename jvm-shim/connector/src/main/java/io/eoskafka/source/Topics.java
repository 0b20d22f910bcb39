package io.eoskafka.source;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SourceOptions;
import io.eoskafka.wire.AgreedTopicIds;
import io.eoskafka.wire.ConnectedBrokers;
import io.eoskafka.wire.KafkaCalls;
import io.eoskafka.wire.NewestLeaders;
import io.eoskafka.wire.TopicIds;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.UnaryOperator;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.ListOffsetsRequest;
import org.apache.kafka.common.requests.MetadataResponse;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Which topic-partitions a source has, and how far their logs reach. */
final class Topics {
  private static final Logger LOG = LoggerFactory.getLogger(Topics.class);

  /** An answer takes milliseconds, as long as all of it is there. */
  private static final Duration SLOW = Duration.ofSeconds(1);

  /** By default a broker that is cut off is in nobody's list of brokers after nine seconds. */
  private static final Duration PATIENCE = Duration.ofSeconds(15);

  private static final Duration RETRY = Duration.ofMillis(200);

  private final Admin admin;
  private final SourceOptions options;
  private final TopicChoice choice;
  private final Leaders leaders;

  /** The leaders that were elected last. */
  interface Leaders {
    /** See {@link NewestLeaders#offsets}. */
    Map<TopicPartition, Long> offsets(Map<TopicPartition, Long> times, IsolationLevel isolation);
  }

  /**
   * Of a streaming query. If a former leader says where the log ends, the next batch reads the
   * rest.
   *
   * @param hidden topics that a pattern does not find: as with Kafka's own ones, what a query
   *     writes there for itself would be its input
   */
  Topics(Admin admin, SourceOptions options, Set<String> hidden) {
    this(admin, options, hidden, null);
  }

  /**
   * Of a batch query: nobody reads later what it leaves out.
   *
   * @param leaders asked how far the source may read, and for times
   */
  Topics(Admin admin, SourceOptions options, Set<String> hidden, Leaders leaders) {
    this.admin = admin;
    this.options = options;
    choice = new TopicChoice(options, hidden);
    this.leaders = leaders;
  }

  /**
   * The source's topic-partitions, each with its topic's id. Asked anew for every batch, so that
   * added partitions are found.
   *
   * @throws EosKafkaException {@code EOSKAFKA_NO_SUCH_TOPIC}
   */
  Map<TopicPartition, String> discover() {
    Set<String> topics = new TreeSet<>(choice.named());
    if (choice.isPattern()) {
      KafkaCalls.reach(admin.listTopics().names(), options.client()).stream()
          .filter(choice::has)
          .forEach(topics::add);
    }
    Map<TopicPartition, String> found = TopicIds.present(admin, topics, options.client());
    if (!choice.isPattern()) {
      // One that has gone since the list was made has gone for a pattern.
      Set<String> missing = new TreeSet<>(topics);
      found.keySet().forEach(partition -> missing.remove(partition.topic()));
      if (!missing.isEmpty()) {
        throw noSuch(missing.iterator().next());
      }
    }
    requireEach(choice.assigned(), found);
    found.keySet().removeIf(partition -> !choice.has(partition));
    return found;
  }

  /**
   * As {@link #discover}, and nothing is left out that a connected broker knows: one that is cut
   * off does not hear of new topics and partitions.
   *
   * @throws EosKafkaException as there, and {@code EOSKAFKA_TOPIC_ID_UNCLEAR}
   */
  Map<TopicPartition, String> discoverAll() {
    AtomicReference<Map<TopicPartition, String>> found = new AtomicReference<>();
    askUntilAgreed(
        known -> {
          found.set(discover());
          known.removeAll(found.get().keySet());
          return known;
        });
    return found.get();
  }

  /**
   * Requires that no connected broker knows these partitions, unless the options do not choose them
   * any more.
   *
   * @throws EosKafkaException {@code EOSKAFKA_TOPIC_ID_UNCLEAR}
   */
  void requireGone(Set<TopicPartition> missing) {
    askUntilAgreed(
        known -> {
          known.retainAll(missing);
          return known;
        });
  }

  /**
   * Asks all connected brokers for the chosen partitions, again for some time.
   *
   * @param contradiction those of them that contradict what was found elsewhere
   */
  private void askUntilAgreed(UnaryOperator<Set<TopicPartition>> contradiction) {
    long began = System.nanoTime();
    while (true) {
      Optional<Map<Node, MetadataResponse>> answers =
          ConnectedBrokers.of(admin, options.client(), choice.isPattern() ? null : choice.named());
      Set<TopicPartition> left = new TreeSet<>(PartitionOffsets.ORDER);
      answers.ifPresent(each -> left.addAll(contradiction.apply(chosen(each.values()))));
      if (answers.isPresent() && left.isEmpty()) {
        return;
      }
      if (System.nanoTime() - began > PATIENCE.toNanos()) {
        throw EosKafkaException.of(
            "EOSKAFKA_TOPIC_ID_UNCLEAR",
            Map.of(
                "partition",
                left.isEmpty() ? options.strategyValue() : left.iterator().next(),
                "id",
                "none",
                "why",
                left.isEmpty()
                    ? "not every broker that the cluster lists answers"
                    : "a broker that is connected to the controllers knows this partition",
                "waited",
                PATIENCE.toSeconds()));
      }
      KafkaCalls.sleep(RETRY.toMillis());
    }
  }

  /** The partitions that these brokers know and the options choose. */
  private Set<TopicPartition> chosen(Collection<MetadataResponse> answers) {
    Set<TopicPartition> chosen = new HashSet<>();
    for (MetadataResponse answer : answers) {
      answer.topicMetadata().stream()
          .filter(topic -> topic.error() == Errors.NONE)
          .flatMap(topic -> topic.partitionMetadata().stream())
          .map(partition -> partition.topicPartition)
          .filter(choice::has)
          .forEach(chosen::add);
    }
    return chosen;
  }

  /** The ids on which all brokers agree; see {@link AgreedTopicIds}. */
  Map<String, String> agreedIds(Set<String> topics) {
    return AgreedTopicIds.of(admin, options.client(), topics);
  }

  private static void requireEach(Set<TopicPartition> wanted, Map<TopicPartition, ?> found) {
    for (TopicPartition partition : wanted) {
      if (!found.containsKey(partition)) {
        throw noSuch(partition);
      }
    }
  }

  private static EosKafkaException noSuch(Object topic) {
    return EosKafkaException.of("EOSKAFKA_NO_SUCH_TOPIC", Map.of("topic", topic));
  }

  /** The first offset that each log still has. */
  Map<TopicPartition, Long> earliest(Collection<TopicPartition> partitions) {
    return list(partitions, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED);
  }

  /**
   * As the other one.
   *
   * @param recreated those whose topics were created again. A broker that is cut off may lead the
   *     former one and still answer, and the admin client sends no topic id: they are taken only
   *     from the leaders that were elected last
   */
  Map<TopicPartition, Long> earliest(
      Collection<TopicPartition> partitions, Set<TopicPartition> recreated) {
    Map<TopicPartition, Long> found = earliest(partitions);
    if (!recreated.isEmpty()) {
      found.putAll(NewestLeaders.logStarts(admin, options.client(), recreated));
    }
    return found;
  }

  /**
   * The end of each log; if it was cut below the offset that is committed of it, and may have grown
   * again since, the end of what it still has of the former log.
   *
   * @param reached the offset that each partition was read or planned up to
   * @param committed offsets that say how far this query has read
   */
  Map<TopicPartition, Long> sharedEnds(
      Map<TopicPartition, Long> reached, Map<TopicPartition, OffsetAndMetadata> committed) {
    Map<TopicPartition, Long> ends = highWatermarks(reached);
    if (!options.failOnDataLoss()) {
      // Otherwise a task finds it, and the query stops.
      TruncatedLogs.ends(options.client(), "eoskafka-driver-ends", committed)
          .forEach((partition, end) -> ends.merge(partition, end, Math::min));
    }
    return ends;
  }

  /**
   * The high watermarks. One below what has been reached would mean that records are gone, and is
   * taken only from the leader that was elected last.
   *
   * @param reached the offset that each partition was read or planned up to
   */
  Map<TopicPartition, Long> highWatermarks(Map<TopicPartition, Long> reached) {
    Map<TopicPartition, Long> ends =
        list(reached.keySet(), OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED);
    Set<TopicPartition> shorter = new HashSet<>(reached.keySet());
    shorter.removeIf(partition -> ends.get(partition) >= reached.get(partition));
    if (!shorter.isEmpty()) {
      ends.putAll(NewestLeaders.highWatermarks(admin, options.client(), shorter));
    }
    return ends;
  }

  /** How far the source may read: the last stable offset, or the high watermark. */
  Map<TopicPartition, Long> readable(Collection<TopicPartition> partitions) {
    if (leaders == null) {
      return list(partitions, OffsetSpec.latest(), isolation());
    }
    return ofLeaders(latest(partitions));
  }

  private static Map<TopicPartition, Long> latest(Collection<TopicPartition> partitions) {
    Map<TopicPartition, Long> latest = new HashMap<>();
    partitions.forEach(partition -> latest.put(partition, ListOffsetsRequest.LATEST_TIMESTAMP));
    return latest;
  }

  private Map<TopicPartition, Long> ofLeaders(Map<TopicPartition, Long> times) {
    Map<TopicPartition, Long> found = leaders.offsets(times, isolation());
    requireEach(times.keySet(), found);
    return found;
  }

  /** As {@link #readable}, without an entry for what has been deleted since it was found. */
  Map<TopicPartition, Long> stillReadable(Collection<TopicPartition> partitions) {
    return list(ofEach(partitions, OffsetSpec.latest()), isolation(), false);
  }

  /** The same as the leaders say that were elected last; empty if one of them does not answer. */
  Map<TopicPartition, Long> newestReadable(Set<TopicPartition> partitions) {
    try {
      return NewestLeaders.offsets(
          admin, options.client().closing(), latest(partitions), isolation());
    } catch (TimeoutException e) {
      LOG.info("Which leaders were elected last could not be found out: {}", e.toString());
      return Map.of();
    }
  }

  /**
   * The first record's offset at or after a time, in milliseconds since 1970; without an entry
   * where there is none.
   */
  Map<TopicPartition, Long> atOrAfter(Map<TopicPartition, Long> timestamps) {
    Map<TopicPartition, OffsetSpec> wanted = new HashMap<>();
    timestamps.forEach((p, timestamp) -> wanted.put(p, OffsetSpec.forTimestamp(timestamp)));
    Map<TopicPartition, Long> found =
        leaders == null ? list(wanted, isolation(), true) : ofLeaders(timestamps);
    found.values().removeIf(offset -> offset < 0);
    return found;
  }

  private IsolationLevel isolation() {
    return options.readCommitted()
        ? IsolationLevel.READ_COMMITTED
        : IsolationLevel.READ_UNCOMMITTED;
  }

  private Map<TopicPartition, Long> list(
      Collection<TopicPartition> partitions, OffsetSpec spec, IsolationLevel isolation) {
    return list(ofEach(partitions, spec), isolation, true);
  }

  private static Map<TopicPartition, OffsetSpec> ofEach(
      Collection<TopicPartition> partitions, OffsetSpec spec) {
    Map<TopicPartition, OffsetSpec> wanted = new HashMap<>();
    partitions.forEach(p -> wanted.put(p, spec));
    return wanted;
  }

  private Map<TopicPartition, Long> list(
      Map<TopicPartition, OffsetSpec> wanted, IsolationLevel isolation, boolean isEachRequired) {
    for (long left = options.fetchOffset().attempts(); ; left--) {
      KafkaFuture<Map<TopicPartition, ListOffsetsResultInfo>> answer =
          admin.listOffsets(wanted, new ListOffsetsOptions(isolation)).all();
      while (!KafkaCalls.isDoneWithin(SLOW, answer)) {
        // The client asks again and again for a partition that does not exist, until its timeout.
        Set<TopicPartition> gone = goneAsFarAsKnown(wanted.keySet());
        if (!gone.isEmpty() && isEachRequired) {
          throw noSuch(gone.iterator().next());
        }
        if (!gone.isEmpty()) {
          Map<TopicPartition, OffsetSpec> rest = new HashMap<>(wanted);
          rest.keySet().removeAll(gone);
          return list(rest, isolation, false);
        }
      }
      try {
        Map<TopicPartition, Long> found = new HashMap<>();
        KafkaCalls.get(answer)
            .forEach((partition, offset) -> found.put(partition, offset.offset()));
        return found;
      } catch (RetriableException e) {
        if (left <= 1) {
          throw e;
        }
        LOG.info("Offsets are asked for again: {}", e.toString());
        KafkaCalls.sleep(options.fetchOffset().intervalMs());
      }
    }
  }

  /** None where the cluster does not answer: then the call that waits will say so. */
  private Set<TopicPartition> goneAsFarAsKnown(Set<TopicPartition> wanted) {
    try {
      return gone(wanted);
    } catch (EosKafkaException e) {
      LOG.info("Which partitions are gone could not be found out: {}", e.toString());
      return Set.of();
    }
  }

  /** Those of these partitions that are not there any more. */
  Set<TopicPartition> gone(Collection<TopicPartition> partitions) {
    Set<String> topics = new HashSet<>();
    partitions.forEach(partition -> topics.add(partition.topic()));
    Set<TopicPartition> gone = new HashSet<>(partitions);
    gone.removeAll(TopicIds.present(admin, topics, options.client()).keySet());
    return gone;
  }
}
