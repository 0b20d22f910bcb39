package io.eoskafka.wire;

import io.eoskafka.config.ClientSettings;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.message.ListOffsetsRequestData.ListOffsetsPartition;
import org.apache.kafka.common.message.ListOffsetsRequestData.ListOffsetsTopic;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.ListOffsetsRequest;
import org.apache.kafka.common.requests.ListOffsetsResponse;
import org.apache.kafka.common.requests.MetadataResponse;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Where logs begin and end, according to the leaders that the controller has elected last.
 *
 * <p>A leader that is cut off from its peers and from the controller does not learn that another
 * one was elected. It answers with a high watermark that no longer moves, and clients that get
 * their metadata from it rely on it. The admin client sends no leader epoch that would reveal this.
 * So all {@link ConnectedBrokers} are asked for the leaders that they know. Then the leader with
 * the highest leader epoch of each partition is asked for the end, with that epoch.
 */
public final class NewestLeaders {
  private static final Logger LOG = LoggerFactory.getLogger(NewestLeaders.class);

  /** For the connection to one broker; a broker that is down is skipped. */
  private static final long CONNECT_MS = 2_000;

  private static final long RETRY_MS = 100;

  /** A leader as a broker knows it. */
  private record Leader(Node node, int epoch) {}

  private NewestLeaders() {}

  /**
   * The high watermarks. A partition that no broker knows is absent.
   *
   * @param admin of the same cluster
   * @throws TimeoutException as {@link #offsets}
   */
  public static Map<TopicPartition, Long> highWatermarks(
      Admin admin, ClientSettings settings, Collection<TopicPartition> partitions) {
    return bounds(admin, settings, partitions, ListOffsetsRequest.LATEST_TIMESTAMP);
  }

  /** As {@link #highWatermarks}, but returns the first offset that each log still has. */
  public static Map<TopicPartition, Long> logStarts(
      Admin admin, ClientSettings settings, Collection<TopicPartition> partitions) {
    return bounds(admin, settings, partitions, ListOffsetsRequest.EARLIEST_TIMESTAMP);
  }

  private static Map<TopicPartition, Long> bounds(
      Admin admin, ClientSettings settings, Collection<TopicPartition> partitions, long bound) {
    Map<TopicPartition, Long> wanted = new HashMap<>();
    partitions.forEach(partition -> wanted.put(partition, bound));
    Map<TopicPartition, Long> found =
        offsets(admin, settings, wanted, IsolationLevel.READ_UNCOMMITTED);
    LOG.info("The leaders that were elected last say: {}", found);
    return found;
  }

  /**
   * The first offset at or after a time, or -1 if there is none; or the log's start or end. A
   * partition that no broker knows is absent.
   *
   * @param admin of the same cluster
   * @param times of each partition, in milliseconds since 1970, or {@link
   *     ListOffsetsRequest#EARLIEST_TIMESTAMP} or {@link ListOffsetsRequest#LATEST_TIMESTAMP}
   * @throws TimeoutException if a partition has no leader that answers within {@code
   *     kafka.default.api.timeout.ms}
   */
  public static Map<TopicPartition, Long> offsets(
      Admin admin,
      ClientSettings settings,
      Map<TopicPartition, Long> times,
      IsolationLevel isolation) {
    Set<TopicPartition> partitions = times.keySet();
    long deadline = System.nanoTime() + settings.apiTimeout().toNanos();
    Set<String> topics = new TreeSet<>();
    partitions.forEach(partition -> topics.add(partition.topic()));
    while (true) {
      Optional<Map<Node, MetadataResponse>> answers =
          ConnectedBrokers.of(admin, settings, topics).filter(known -> agreeOnIds(known.values()));
      Map<TopicPartition, Leader> leaders =
          answers.map(known -> leaders(known.values(), partitions)).orElse(Map.of());
      Map<TopicPartition, Long> found = ask(settings, leaders, times, isolation);
      if (answers.isPresent() && found.keySet().containsAll(leaders.keySet())) {
        LOG.debug("The leaders that were elected last say: {}", found);
        return found;
      }
      if (System.nanoTime() > deadline) {
        Set<TopicPartition> left = new HashSet<>(partitions);
        left.removeAll(found.keySet());
        throw new TimeoutException(
            answers.isEmpty()
                ? "not every broker that the cluster lists answers, or they disagree on a topic's id"
                : "no leader of " + left + " answers");
      }
      KafkaCalls.sleep(RETRY_MS);
    }
  }

  /**
   * Leader epochs start again when a topic is created again: they cannot be compared while one
   * broker knows the former topic and another one its successor.
   */
  static boolean agreeOnIds(Collection<MetadataResponse> answers) {
    Map<String, Uuid> ids = new HashMap<>();
    return answers.stream()
        .flatMap(answer -> answer.topicMetadata().stream())
        .filter(topic -> topic.error() == Errors.NONE)
        .allMatch(
            topic -> {
              Uuid other = ids.putIfAbsent(topic.topic(), topic.topicId());
              return other == null || other.equals(topic.topicId());
            });
  }

  /** Of what some broker knows, with or without a leader. */
  private static Map<TopicPartition, Leader> leaders(
      Collection<MetadataResponse> answers, Collection<TopicPartition> partitions) {
    Map<TopicPartition, Leader> leaders = new HashMap<>();
    for (MetadataResponse answer : answers) {
      for (MetadataResponse.TopicMetadata topic : answer.topicMetadata()) {
        for (MetadataResponse.PartitionMetadata found : topic.partitionMetadata()) {
          if (partitions.contains(found.topicPartition)) {
            take(found, answer.brokersById(), leaders);
          }
        }
      }
    }
    return leaders;
  }

  private static void take(
      MetadataResponse.PartitionMetadata found,
      Map<Integer, Node> nodes,
      Map<TopicPartition, Leader> leaders) {
    Node node = found.leaderId.map(nodes::get).orElse(null);
    Leader leader = new Leader(node, found.leaderEpoch.orElse(-1));
    leaders.merge(
        found.topicPartition, leader, (one, other) -> one.epoch() < other.epoch() ? other : one);
  }

  private static Map<TopicPartition, Long> ask(
      ClientSettings settings,
      Map<TopicPartition, Leader> leaders,
      Map<TopicPartition, Long> times,
      IsolationLevel isolation) {
    Map<Node, Map<String, ListOffsetsTopic>> questions = new HashMap<>();
    leaders.forEach(
        (partition, leader) -> {
          if (leader.node() != null) {
            questions
                .computeIfAbsent(leader.node(), node -> new HashMap<>())
                .computeIfAbsent(
                    partition.topic(),
                    name -> new ListOffsetsTopic().setName(name).setPartitions(new ArrayList<>()))
                .partitions()
                .add(
                    new ListOffsetsPartition()
                        .setPartitionIndex(partition.partition())
                        .setCurrentLeaderEpoch(leader.epoch())
                        .setTimestamp(times.get(partition)));
          }
        });
    Map<TopicPartition, Long> found = new HashMap<>();
    if (questions.isEmpty()) {
      return found;
    }
    boolean isByTime =
        times.values().stream().anyMatch(time -> time != ListOffsetsRequest.LATEST_TIMESTAMP);
    try (BrokerRequests requests = new BrokerRequests(settings, "eoskafka-newest-leaders")) {
      requests.setNodes(questions.keySet());
      questions.forEach(
          (node, topics) ->
              ask(
                  requests,
                  node,
                  ListOffsetsRequest.Builder.forConsumer(isByTime, isolation)
                      .setTargetTimes(List.copyOf(topics.values())),
                  found));
    }
    return found;
  }

  private static void ask(
      BrokerRequests requests,
      Node node,
      ListOffsetsRequest.Builder question,
      Map<TopicPartition, Long> found) {
    try {
      AbstractResponse answer = requests.ask(node, question, CONNECT_MS);
      ((ListOffsetsResponse) answer)
          .topics()
          .forEach(
              topic ->
                  topic.partitions().stream()
                      .filter(each -> each.errorCode() == Errors.NONE.code())
                      .forEach(
                          each ->
                              found.put(
                                  new TopicPartition(topic.name(), each.partitionIndex()),
                                  each.offset())));
    } catch (IOException e) {
      LOG.info("Broker {} does not say how far its logs reach: {}", node, e.toString());
    }
  }
}
