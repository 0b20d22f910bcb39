package io.eoskafka.group;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.config.EosKafkaException;
import io.eoskafka.identity.Fence;
import io.eoskafka.wire.BrokerRequests;
import io.eoskafka.wire.GroupCoordinator;
import io.eoskafka.wire.KafkaCalls;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupAuthorizationException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.message.OffsetCommitRequestData;
import org.apache.kafka.common.message.OffsetCommitRequestData.OffsetCommitRequestPartition;
import org.apache.kafka.common.message.OffsetCommitRequestData.OffsetCommitRequestTopic;
import org.apache.kafka.common.message.OffsetCommitResponseData.OffsetCommitResponseTopic;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.OffsetCommitRequest;
import org.apache.kafka.common.requests.OffsetCommitResponse;

/**
 * Commits offsets outside a transaction with a member's generation or epoch, which the group
 * coordinator checks. There are two reasons not to leave this to a consumer:
 *
 * <ul>
 *   <li>A consumer that gets no answer sends the commit again. The first copy may still be in
 *       flight, for example in a proxy, and the coordinator would accept it from the same member:
 *       it would move the group back behind later commits. This class sends no second copy.
 *   <li>The consumer of the protocol {@code consumer} (KIP-848) does not always send an epoch.
 *       After the broker has fenced it, it commits without an epoch until it is polled. The broker
 *       treats this as the commit of a client that is not a member, and accepts it if the group is
 *       empty. Other drivers may have joined and left in between, and their offsets would move
 *       back.
 * </ul>
 */
final class FencedCommit implements AutoCloseable {
  private static final Set<Errors> FENCED =
      Set.of(
          Errors.ILLEGAL_GENERATION,
          Errors.STALE_MEMBER_EPOCH,
          Errors.FENCED_MEMBER_EPOCH,
          Errors.UNKNOWN_MEMBER_ID,
          Errors.REBALANCE_IN_PROGRESS,
          // The broker deletes an empty group without offsets after a while.
          Errors.GROUP_ID_NOT_FOUND);

  private static final long RETRY_MS = 100;

  /** For a connection, and for the answer to a question. */
  private static final int TIMEOUT_MS = (int) ExclusiveMembership.COMMIT_TRY.toMillis();

  /**
   * For the answer to a commit. If a replica of the offsets is down, a broker answers with an error
   * only after {@code offsets.commit.timeout.ms}, five seconds by default.
   */
  private static final int ANSWER_MS = 30_000;

  /**
   * A firewall may silently drop a connection that is idle for some minutes. Kafka's client also
   * counts a connection as idle while it waits for an answer.
   */
  private static final long IDLE_MS = ANSWER_MS + 10_000;

  /** Requests to one broker. */
  interface Requests extends GroupCoordinator.Requests, AutoCloseable {
    /** As {@link BrokerRequests#askOnce}. */
    AbstractResponse commit(Node coordinator, OffsetCommitRequest.Builder request)
        throws IOException;

    @Override
    void close();
  }

  private final Supplier<Collection<Node>> brokers;
  private final Supplier<Requests> newRequests;

  /** Null before the first commit: most starts have nothing to commit. */
  private Requests requests;

  /** The broker that accepted the last commit, or null. */
  private Node coordinator;

  FencedCommit(Admin admin, ClientSettings settings) {
    this(
        () ->
            KafkaCalls.get(
                admin.describeCluster(new DescribeClusterOptions().timeoutMs(TIMEOUT_MS)).nodes()),
        () ->
            new OfClient(
                new BrokerRequests(settings, "eoskafka-fenced-commit", TIMEOUT_MS, IDLE_MS)));
  }

  /**
   * @param brokers the current brokers
   */
  FencedCommit(Supplier<Collection<Node>> brokers, Supplier<Requests> newRequests) {
    this.brokers = brokers;
    this.newRequests = newRequests;
  }

  private record OfClient(BrokerRequests requests) implements Requests {
    @Override
    public AbstractResponse ask(Node broker, AbstractRequest.Builder<?> request)
        throws IOException {
      requests.setNodes(List.of(broker));
      return requests.ask(broker, request);
    }

    @Override
    public AbstractResponse commit(Node coordinator, OffsetCommitRequest.Builder request)
        throws IOException {
      requests.setNodes(List.of(coordinator));
      return requests.askOnce(coordinator, request, ANSWER_MS);
    }

    @Override
    public void close() {
      requests.close();
    }
  }

  /**
   * Commits. It starts no further try after {@link ExclusiveMembership#COMMIT_TRY}.
   *
   * @param offsets at most as many as fit one request
   * @throws EosKafkaException {@code EOSKAFKA_COMMIT_UNANSWERED} if the commit may still arrive.
   *     Only a run that joins as another member is safe from that, so this run has to end.
   * @throws CommitFailedException if the group refuses the fence
   * @throws TimeoutException if no coordinator accepts the offsets in time, or a topic does not
   *     exist
   * @throws org.apache.kafka.common.errors.ApiException any other refusal
   */
  void commit(Map<TopicPartition, OffsetAndMetadata> offsets, Fence fence) {
    OffsetCommitRequestData data =
        new OffsetCommitRequestData()
            .setGroupId(fence.group())
            .setMemberId(fence.memberId())
            .setGenerationIdOrMemberEpoch(fence.generation())
            .setGroupInstanceId(fence.instanceId())
            .setTopics(topics(offsets));
    long deadline = System.nanoTime() + ExclusiveMembership.COMMIT_TRY.toNanos();
    while (true) {
      Errors error = ask(data);
      if (error == Errors.NONE) {
        return;
      }
      if (FENCED.contains(error)) {
        throw new CommitFailedException("The coordinator answers " + error + " to " + fence);
      }
      if (error == Errors.GROUP_AUTHORIZATION_FAILED) {
        throw GroupAuthorizationException.forGroupId(fence.group());
      }
      if (!(error.exception() instanceof RetriableException)) {
        throw error.exception();
      }
      if (System.nanoTime() > deadline) {
        throw new TimeoutException("The coordinator of " + fence.group() + " answers " + error);
      }
      KafkaCalls.sleep(RETRY_MS);
    }
  }

  private static List<OffsetCommitRequestTopic> topics(
      Map<TopicPartition, OffsetAndMetadata> offsets) {
    Map<String, OffsetCommitRequestTopic> topics = new HashMap<>();
    offsets.forEach(
        (partition, offset) ->
            topics
                .computeIfAbsent(
                    partition.topic(), name -> new OffsetCommitRequestTopic().setName(name))
                .partitions()
                .add(
                    new OffsetCommitRequestPartition()
                        .setPartitionIndex(partition.partition())
                        .setCommittedOffset(offset.offset())
                        .setCommittedLeaderEpoch(offset.leaderEpoch().orElse(-1))
                        .setCommittedMetadata(offset.metadata())));
    return new ArrayList<>(topics.values());
  }

  private static void requireTopicsAllowed(OffsetCommitResponse response) {
    Set<String> refused =
        response.data().topics().stream()
            .filter(
                topic ->
                    topic.partitions().stream()
                        .anyMatch(
                            partition ->
                                partition.errorCode() == Errors.TOPIC_AUTHORIZATION_FAILED.code()))
            .map(OffsetCommitResponseTopic::name)
            .collect(Collectors.toSet());
    if (!refused.isEmpty()) {
      throw new TopicAuthorizationException(refused);
    }
  }

  private Errors ask(OffsetCommitRequestData data) {
    if (requests == null) {
      requests = newRequests.get();
    }
    Node known = coordinator;
    coordinator = null;
    try {
      if (known == null) {
        GroupCoordinator found = GroupCoordinator.find(brokers.get(), data.groupId(), requests);
        if (found.error() != Errors.NONE) {
          return found.error();
        }
        known = found.node();
      }
      OffsetCommitResponse response = send(data, known);
      requireTopicsAllowed(response);
      Errors error =
          response.data().topics().stream()
              .flatMap(topic -> topic.partitions().stream())
              .map(partition -> Errors.forCode(partition.errorCode()))
              .filter(each -> each != Errors.NONE)
              .findFirst()
              .orElse(Errors.NONE);
      if (error == Errors.NONE) {
        coordinator = known;
      }
      return error;
    } catch (IOException e) {
      return Errors.NETWORK_EXCEPTION;
    }
  }

  private OffsetCommitResponse send(OffsetCommitRequestData data, Node broker) throws IOException {
    try {
      return (OffsetCommitResponse)
          requests.commit(broker, OffsetCommitRequest.Builder.forTopicNames(data));
    } catch (BrokerRequests.UnansweredException e) {
      throw EosKafkaException.of(
          "EOSKAFKA_COMMIT_UNANSWERED",
          Map.of("group", data.groupId(), "broker", broker, "cause", e.getMessage()),
          e);
    }
  }

  @Override
  public void close() {
    if (requests != null) {
      requests.close();
    }
  }
}
