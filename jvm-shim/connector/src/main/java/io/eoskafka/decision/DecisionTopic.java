package io.eoskafka.decision;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.config.EosKafkaException;
import io.eoskafka.wire.KafkaCalls;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Consumer;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.config.TopicConfig;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/**
 * The topic that holds every query's decisions, and markers of the transactions that were decided
 * on. Decisions are in the first half of its partitions, markers in the second: a marker's
 * transaction stays open until after the decision, and would hide the decision from {@code
 * read_committed}.
 *
 * <p>Records are text; their keys, with {@code q} for the query's 22 characters:
 *
 * <pre>
 * run:q               the number of the last run, and the decision id that has claimed it
 * decision:q:part     the last decision
 * marker:q:epoch:id   empty; id is the transaction's. Removed with the next decision
 * </pre>
 */
final class DecisionTopic {
  /** Of the records' form. */
  static final int VERSION = 1;

  private static final int PARTITIONS = 8;

  /** Small, since only closed segments are compacted and every start reads what is left. */
  private static final String SEGMENT_BYTES = Integer.toString(4 << 20);

  private static final Duration POLL = Duration.ofMillis(200);

  private final Admin admin;
  private final ClientSettings client;
  private final String name;
  private int partitions;

  /** Of any broker; asked once. */
  private Config broker;

  DecisionTopic(Admin admin, ClientSettings client, String name) {
    this.admin = admin;
    this.client = client;
    this.name = name;
  }

  String name() {
    return name;
  }

  /** How many of its partitions are in use. */
  int partitions() {
    return partitions;
  }

  /**
   * Creates the topic where it is missing, as safe as the cluster's own transaction log, and
   * refuses one that could lose a decision.
   *
   * @param had how many partitions it had when the query first used it, or 0: then it may be
   *     created
   * @throws EosKafkaException {@code EOSKAFKA_DECISION_TOPIC_UNFIT}, {@code
   *     EOSKAFKA_DECISIONS_GONE}
   */
  void require(int had) {
    Optional<TopicDescription> found = describe();
    if (found.isEmpty()) {
      if (had > 0) {
        throw EosKafkaException.of(
            "EOSKAFKA_DECISIONS_GONE", Map.of("topic", name, "what", "the topic does not exist"));
      }
      create();
      long deadline = System.nanoTime() + Duration.ofSeconds(30).toNanos();
      while ((found = describe()).isEmpty()) {
        if (System.nanoTime() > deadline) {
          throw new TimeoutException("topic " + name + " was created and does not appear");
        }
        sleep();
      }
    }
    int has = found.get().partitions().size();
    require(has >= 2, "it has one partition; at least 2 are needed");
    require(has >= had, "it had " + had + " partitions and has " + has);
    partitions = had > 0 ? had : has;
    check(found.get());
  }

  private Optional<TopicDescription> describe() {
    try {
      TopicDescription found =
          KafkaCalls.reach(admin.describeTopics(List.of(name)).topicNameValues().get(name), client);
      boolean hasLeaders = found.partitions().stream().allMatch(p -> p.leader() != null);
      return hasLeaders ? Optional.of(found) : Optional.empty();
    } catch (UnknownTopicOrPartitionException e) {
      return Optional.empty();
    }
  }

  private void create() {
    NewTopic topic =
        new NewTopic(
                name,
                PARTITIONS,
                Short.parseShort(value(brokerConfig(), "transaction.state.log.replication.factor")))
            .configs(
                Map.of(
                    TopicConfig.CLEANUP_POLICY_CONFIG,
                    TopicConfig.CLEANUP_POLICY_COMPACT,
                    TopicConfig.UNCLEAN_LEADER_ELECTION_ENABLE_CONFIG,
                    "false",
                    TopicConfig.MIN_IN_SYNC_REPLICAS_CONFIG,
                    value(brokerConfig(), "transaction.state.log.min.isr"),
                    TopicConfig.SEGMENT_BYTES_CONFIG,
                    SEGMENT_BYTES,
                    TopicConfig.MIN_CLEANABLE_DIRTY_RATIO_CONFIG,
                    "0.1"));
    try {
      KafkaCalls.get(admin.createTopics(List.of(topic)).all());
    } catch (TopicExistsException e) {
      // Another query's driver was faster.
    }
  }

  private void check(TopicDescription topic) {
    ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, name);
    Config config = KafkaCalls.get(admin.describeConfigs(List.of(resource)).all()).get(resource);
    int replicas = topic.partitions().get(0).replicas().size();
    require(
        value(config, TopicConfig.CLEANUP_POLICY_CONFIG).equals(TopicConfig.CLEANUP_POLICY_COMPACT),
        "its cleanup.policy is not compact");
    require(
        value(config, TopicConfig.UNCLEAN_LEADER_ELECTION_ENABLE_CONFIG).equals("false"),
        "its unclean.leader.election.enable is not false");
    requireAtLeast(replicas, "replication factor", "transaction.state.log.replication.factor");
    requireAtLeast(
        Integer.parseInt(value(config, TopicConfig.MIN_IN_SYNC_REPLICAS_CONFIG)),
        TopicConfig.MIN_IN_SYNC_REPLICAS_CONFIG,
        "transaction.state.log.min.isr");
  }

  private void requireAtLeast(int has, String what, String setting) {
    int wanted = Integer.parseInt(value(brokerConfig(), setting));
    require(
        has >= wanted,
        "its " + what + " is " + has + ", and the broker's " + setting + " is " + wanted);
  }

  private void require(boolean holds, String problem) {
    if (!holds) {
      throw EosKafkaException.of(
          "EOSKAFKA_DECISION_TOPIC_UNFIT", Map.of("topic", name, "problem", problem));
    }
  }

  private static String value(Config config, String setting) {
    ConfigEntry entry = config.get(setting);
    return entry == null ? "" : entry.value();
  }

  /** The longest timeout that the brokers allow a transaction. */
  long maxTransactionTimeoutMs() {
    return Long.parseLong(value(brokerConfig(), "transaction.max.timeout.ms"));
  }

  /** How often the brokers look for transactions that are past their timeout. */
  long timeoutCheckMs() {
    return Long.parseLong(
        value(brokerConfig(), "transaction.abort.timed.out.transaction.cleanup.interval.ms"));
  }

  private Config brokerConfig() {
    if (broker != null) {
      return broker;
    }
    Collection<Node> nodes = KafkaCalls.reach(admin.describeCluster().nodes(), client);
    ConfigResource any =
        new ConfigResource(ConfigResource.Type.BROKER, nodes.iterator().next().idString());
    broker = KafkaCalls.get(admin.describeConfigs(List.of(any)).all()).get(any);
    return broker;
  }

  /** Where a query's decisions are. */
  int decisionPartition(String queryId) {
    return Math.floorMod(queryId.hashCode(), partitions / 2);
  }

  /** Where markers may be. */
  List<Integer> markerPartitions() {
    List<Integer> second = new ArrayList<>();
    for (int partition = partitions / 2; partition < partitions; partition++) {
      second.add(partition);
    }
    return second;
  }

  /**
   * Reads one of its partitions up to the high watermark of now, open transactions waited for: what
   * is not among the records then was not committed before.
   *
   * @throws TimeoutException if a transaction stays open for longer than {@code timeout}
   */
  void readToEnd(int partition, Duration timeout, Consumer<ConsumerRecord<byte[], byte[]>> each) {
    TopicPartition of = new TopicPartition(name, partition);
    long end =
        KafkaCalls.get(admin.listOffsets(Map.of(of, OffsetSpec.latest())).all()).get(of).offset();
    long deadline = System.nanoTime() + timeout.toNanos();
    try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
      consumer.assign(List.of(of));
      consumer.seekToBeginning(List.of(of));
      while (consumer.position(of) < end) {
        consumer.poll(POLL).records(of).forEach(each);
        if (System.nanoTime() > deadline) {
          throw new TimeoutException(
              "an open transaction hides the end of "
                  + of
                  + " ("
                  + end
                  + ", read: "
                  + consumer.position(of)
                  + ")");
        }
      }
    } catch (InterruptException e) {
      throw KafkaCalls.asJava(e);
    }
  }

  /**
   * Whether the record at an offset is committed, once its transaction has ended.
   *
   * @return false where its transaction was aborted
   */
  boolean isCommitted(int partition, long offset, Duration timeout) {
    TopicPartition of = new TopicPartition(name, partition);
    long deadline = System.nanoTime() + timeout.toNanos();
    try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
      consumer.assign(List.of(of));
      consumer.seek(of, offset);
      while (true) {
        ConsumerRecords<byte[], byte[]> polled = consumer.poll(POLL);
        for (ConsumerRecord<byte[], byte[]> record : polled.records(of)) {
          return record.offset() == offset;
        }
        if (consumer.position(of) > offset) {
          return false;
        }
        if (System.nanoTime() > deadline) {
          throw new TimeoutException("an open transaction hides offset " + offset + " of " + of);
        }
      }
    } catch (InterruptException e) {
      throw KafkaCalls.asJava(e);
    }
  }

  private KafkaConsumer<byte[], byte[]> consumer() {
    Map<String, Object> config = client.dataConsumer("eoskafka-decisions");
    config.put("isolation.level", "read_committed");
    return new KafkaConsumer<>(config);
  }

  private static void sleep() {
    try {
      Thread.sleep(50);
    } catch (InterruptedException e) {
      throw KafkaCalls.asJava(new InterruptException(e));
    }
  }
}
