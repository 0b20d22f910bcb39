package io.eoskafka.decision;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.config.EosKafkaException;
import io.eoskafka.wire.AuthorizationErrors;
import io.eoskafka.wire.BrokerVersions;
import io.eoskafka.wire.KafkaCalls;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Consumer;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.config.TopicConfig;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.protocol.ApiKeys;

/**
 * The topic that holds every query's decisions, and markers of the transactions that were decided
 * on. Decisions are in the even partitions, markers in the odd ones: a marker's transaction stays
 * open until after the decision, and would hide the decision from {@code read_committed}.
 *
 * <p>Records are text; their keys, with {@code q} for the query's 22 characters:
 *
 * <pre>
 * run:q               the number of the last run, and the decision id that has claimed it
 * decision:q:part     the last decision
 * marker:q:epoch:id   empty; id is the transaction's. Removed with the next decision, or the
 *                     writer's transaction that it commits
 * fence:q             without a value; a start writes it before it reads, and reads up to it
 * </pre>
 */
final class DecisionTopic implements DecisionRecords {
  /** Of the records' form. */
  static final int VERSION = 1;

  /** The highest run number and epoch: one more is still a number. */
  static final long MAX_NUMBER = 999_999_999_999_999_999L;

  private static final int PARTITIONS = 8;

  /** Small, since only closed segments are compacted and every start reads what is left. */
  private static final String SEGMENT_BYTES = Integer.toString(4 << 20);

  /**
   * Each epoch leaves a tombstone for each of its writers; Kafka would keep them for a day. Nobody
   * needs them for longer than it takes to read the topic.
   */
  private static final String DELETE_RETENTION_MS = "60000";

  /** After the topic was created, or while brokers restart. */
  private static final Duration LEADERS_TIMEOUT = Duration.ofSeconds(30);

  private static final long RETRY_MS = 50;

  private static final Duration POLL = Duration.ofMillis(200);

  private static final int METADATA_MAX_AGE_MS = 5_000;

  private final Admin admin;
  private final ClientSettings client;
  private final BrokerSettings broker;
  private final String name;
  private int partitions;

  DecisionTopic(Admin admin, ClientSettings client, BrokerSettings broker, String name) {
    this.admin = admin;
    this.client = client;
    this.broker = broker;
    this.name = name;
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public int partitions() {
    return partitions;
  }

  /**
   * Creates the topic where it is missing, as safe as the cluster's own transaction log, and
   * refuses one that could lose a decision.
   *
   * @param had how many partitions it had when the query first used it, or 0
   * @param mayCreate whether it may be made, if the query has not used it
   * @throws EosKafkaException {@code EOSKAFKA_DECISION_TOPIC_UNFIT}, {@code
   *     EOSKAFKA_DECISIONS_GONE}, {@code EOSKAFKA_NO_SUCH_TOPIC}
   */
  void require(int had, boolean mayCreate) {
    Optional<TopicDescription> found = describe();
    if (found.isEmpty()) {
      if (!mayCreate) {
        throw EosKafkaException.of("EOSKAFKA_NO_SUCH_TOPIC", Map.of("topic", name));
      }
      if (had > 0) {
        throw EosKafkaException.of(
            "EOSKAFKA_DECISIONS_GONE", Map.of("topic", name, "what", "the topic does not exist"));
      }
      create();
    }
    TopicDescription topic = found.filter(DecisionTopic::hasLeaders).orElseGet(this::awaitLeaders);
    int has = topic.partitions().size();
    require(has >= 2, "it has one partition; at least 2 are needed");
    require(has >= had, "it had " + had + " partitions and has " + has);
    partitions = had > 0 ? had : has;
    check(topic);
  }

  private Optional<TopicDescription> describe() {
    try {
      return Optional.of(
          KafkaCalls.reach(
              admin.describeTopics(List.of(name)).topicNameValues().get(name),
              client,
              "Read",
              name));
    } catch (UnknownTopicOrPartitionException e) {
      return Optional.empty();
    }
  }

  private static boolean hasLeaders(TopicDescription topic) {
    return topic.partitions().stream().allMatch(partition -> partition.leader() != null);
  }

  private TopicDescription awaitLeaders() {
    long deadline = System.nanoTime() + LEADERS_TIMEOUT.toNanos();
    while (System.nanoTime() < deadline) {
      Optional<TopicDescription> found = describe();
      if (found.isPresent() && hasLeaders(found.get())) {
        return found.get();
      }
      KafkaCalls.sleep(RETRY_MS);
    }
    throw unreadable("not all of its partitions have a leader", null);
  }

  private void create() {
    NewTopic topic =
        new NewTopic(name, PARTITIONS, (short) broker.logReplicas())
            .configs(
                Map.of(
                    TopicConfig.CLEANUP_POLICY_CONFIG,
                    TopicConfig.CLEANUP_POLICY_COMPACT,
                    TopicConfig.COMPRESSION_TYPE_CONFIG,
                    "producer",
                    TopicConfig.UNCLEAN_LEADER_ELECTION_ENABLE_CONFIG,
                    "false",
                    TopicConfig.MIN_IN_SYNC_REPLICAS_CONFIG,
                    Integer.toString(broker.logMinIsr()),
                    TopicConfig.SEGMENT_BYTES_CONFIG,
                    SEGMENT_BYTES,
                    TopicConfig.DELETE_RETENTION_MS_CONFIG,
                    DELETE_RETENTION_MS,
                    TopicConfig.MIN_CLEANABLE_DIRTY_RATIO_CONFIG,
                    "0.1"));
    try {
      KafkaCalls.get(admin.createTopics(List.of(topic)).all(), "Create", name);
    } catch (TopicExistsException e) {
      // Another query's driver was faster.
    }
  }

  private void check(TopicDescription topic) {
    ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, name);
    Config config;
    try {
      config =
          KafkaCalls.get(admin.describeConfigs(List.of(resource)).all(), "DescribeConfigs", name)
              .get(resource);
    } catch (UnsupportedVersionException e) {
      throw BrokerVersions.lacks(
          ApiKeys.DESCRIBE_CONFIGS, "cannot say whether " + name + " keeps decisions", "0.11");
    }
    int replicas = topic.partitions().get(0).replicas().size();
    require(
        shown(config, TopicConfig.CLEANUP_POLICY_CONFIG).equals(TopicConfig.CLEANUP_POLICY_COMPACT),
        "its cleanup.policy is not compact");
    require(
        shown(config, TopicConfig.UNCLEAN_LEADER_ELECTION_ENABLE_CONFIG).equals("false"),
        "its unclean.leader.election.enable is not false");
    requireAtLeast(
        replicas, "replication factor", broker.logReplicas(), BrokerSettings.LOG_REPLICAS);
    requireAtLeast(
        Integer.parseInt(shown(config, TopicConfig.MIN_IN_SYNC_REPLICAS_CONFIG)),
        TopicConfig.MIN_IN_SYNC_REPLICAS_CONFIG,
        broker.logMinIsr(),
        BrokerSettings.LOG_MIN_ISR);
  }

  private void requireAtLeast(int has, String what, int wanted, String setting) {
    require(
        has >= wanted,
        "its "
            + what
            + " is "
            + has
            + ", and it must be at least "
            + wanted
            + " (the brokers' "
            + setting
            + ", or what is safe if they do not show that)");
  }

  private void require(boolean holds, String problem) {
    if (!holds) {
      throw EosKafkaException.of(
          "EOSKAFKA_DECISION_TOPIC_UNFIT", Map.of("topic", name, "problem", problem));
    }
  }

  private String shown(Config config, String setting) {
    String value = Optional.ofNullable(config.get(setting)).map(ConfigEntry::value).orElse(null);
    require(value != null, "the brokers do not show its " + setting);
    return value;
  }

  /** Where a query's decisions are. */
  int decisionPartition(String ownerId) {
    return 2 * Math.floorMod(ownerId.hashCode(), partitions / 2);
  }

  @Override
  public List<Integer> presencePartitions() {
    List<Integer> odd = new ArrayList<>();
    for (int partition = 1; partition < partitions; partition += 2) {
      odd.add(partition);
    }
    return odd;
  }

  /**
   * Reads one of the topic's partitions up to a record that a producer has just written there, and
   * waits until open transactions have ended. What is not among the records was not committed
   * before that record. A broker that still believes it is the leader may answer, but it never has
   * the record, so the read cannot complete with what that broker has.
   *
   * @param end the record's offset
   * @throws EosKafkaException {@code EOSKAFKA_DECISIONS_UNREADABLE} if the records before {@code
   *     end} are not all there within {@code timeout}
   */
  @Override
  public void readUntil(
      int partition, long end, Duration timeout, Consumer<ConsumerRecord<byte[], byte[]>> each) {
    TopicPartition of = new TopicPartition(name, partition);
    try {
      OffsetSpec earliest = OffsetSpec.earliest();
      long start =
          KafkaCalls.get(admin.listOffsets(Map.of(of, earliest)).all(), "Read", name)
              .get(of)
              .offset();
      read(
          Map.of(of, start),
          Map.of(of, end),
          timeout,
          record -> {
            if (record.offset() < end) {
              each.accept(record);
            }
          });
    } catch (TimeoutException e) {
      throw unreadable(e.getMessage(), e);
    }
  }

  /**
   * Which of some markers are not there for a {@code read_committed} reader, once their
   * transactions have ended: those transactions were aborted.
   *
   * @return the numbers of their writers
   * @throws TimeoutException if one of the transactions stays open for longer than {@code timeout}
   */
  @Override
  public Set<Integer> lost(Collection<WriterOutput> outputs, Duration timeout) {
    Map<TopicPartition, Map<Long, Integer>> writers = new HashMap<>();
    Map<TopicPartition, Long> from = new HashMap<>();
    Map<TopicPartition, Long> until = new HashMap<>();
    Set<Integer> lost = new TreeSet<>();
    if (outputs.isEmpty()) {
      return lost;
    }
    for (WriterOutput output : outputs) {
      TopicPartition of = new TopicPartition(name, output.presencePartition());
      writers
          .computeIfAbsent(of, p -> new HashMap<>())
          .put(output.presenceOffset(), output.writer());
      from.merge(of, output.presenceOffset(), Math::min);
      until.merge(of, output.presenceOffset() + 1, Math::max);
      lost.add(output.writer());
    }
    read(
        from,
        until,
        timeout,
        record -> {
          Integer writer =
              writers
                  .get(new TopicPartition(record.topic(), record.partition()))
                  .get(record.offset());
          if (writer != null) {
            lost.remove(writer);
          }
        });
    return lost;
  }

  @Override
  public EosKafkaException unsettled(String problem, RuntimeException e) {
    return EosKafkaException.of(
        "EOSKAFKA_EPOCH_UNSETTLED", Map.of("topic", name, "problem", problem), e);
  }

  /** Hands over what is committed between these offsets, and may hand over more. */
  private void read(
      Map<TopicPartition, Long> from,
      Map<TopicPartition, Long> until,
      Duration timeout,
      Consumer<ConsumerRecord<byte[], byte[]>> each) {
    Map<TopicPartition, Long> left = new HashMap<>(until);
    long deadline = System.nanoTime() + timeout.toNanos();
    try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
      consumer.assign(from.keySet());
      from.forEach(consumer::seek);
      while (true) {
        left.entrySet().removeIf(end -> consumer.position(end.getKey()) >= end.getValue());
        if (left.isEmpty()) {
          return;
        }
        if (System.nanoTime() > deadline) {
          Map.Entry<TopicPartition, Long> hidden = left.entrySet().iterator().next();
          throw new TimeoutException(
              hidden.getKey()
                  + " cannot be read from offset "
                  + consumer.position(hidden.getKey())
                  + " to "
                  + hidden.getValue()
                  + ": an open transaction hides these records, or the broker that answers is cut"
                  + " off from the others");
        }
        try {
          consumer.poll(POLL).forEach(each);
        } catch (OffsetOutOfRangeException e) {
          // A former leader's log ends before: the one that was elected has the records.
          e.offsetOutOfRangePartitions().forEach(consumer::seek);
          KafkaCalls.sleep(RETRY_MS);
        }
      }
    } catch (InterruptException e) {
      throw KafkaCalls.asJava(e);
    } catch (AuthenticationException | AuthorizationException e) {
      throw AuthorizationErrors.or(e, "Read");
    }
  }

  private EosKafkaException unreadable(String problem, RuntimeException cause) {
    return EosKafkaException.of(
        "EOSKAFKA_DECISIONS_UNREADABLE", Map.of("topic", name, "problem", problem), cause);
  }

  private KafkaConsumer<byte[], byte[]> consumer() {
    Map<String, Object> config = client.dataConsumer("eoskafka-decisions");
    config.put("isolation.level", "read_committed");
    // To find the leader soon if a former one has answered.
    config.put("metadata.max.age.ms", METADATA_MAX_AGE_MS);
    return new KafkaConsumer<>(config);
  }
}
