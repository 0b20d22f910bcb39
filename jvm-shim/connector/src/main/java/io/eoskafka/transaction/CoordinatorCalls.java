package io.eoskafka.transaction;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.config.EosKafkaException;
import io.eoskafka.identity.Fence;
import io.eoskafka.wire.BrokerRequests;
import io.eoskafka.wire.ConnectedBrokers;
import io.eoskafka.wire.GroupCoordinator;
import io.eoskafka.wire.KafkaCalls;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.message.AddOffsetsToTxnRequestData;
import org.apache.kafka.common.message.OffsetFetchRequestData;
import org.apache.kafka.common.message.OffsetFetchRequestData.OffsetFetchRequestGroup;
import org.apache.kafka.common.message.OffsetFetchRequestData.OffsetFetchRequestTopics;
import org.apache.kafka.common.message.OffsetFetchResponseData.OffsetFetchResponseGroup;
import org.apache.kafka.common.message.OffsetFetchResponseData.OffsetFetchResponsePartitions;
import org.apache.kafka.common.message.OffsetFetchResponseData.OffsetFetchResponseTopics;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.AddOffsetsToTxnRequest;
import org.apache.kafka.common.requests.AddOffsetsToTxnResponse;
import org.apache.kafka.common.requests.AddPartitionsToTxnRequest;
import org.apache.kafka.common.requests.AddPartitionsToTxnResponse;
import org.apache.kafka.common.requests.OffsetFetchRequest;
import org.apache.kafka.common.requests.OffsetFetchResponse;
import org.apache.kafka.common.requests.TxnOffsetCommitRequest;
import org.apache.kafka.common.requests.TxnOffsetCommitResponse;
import org.apache.kafka.common.utils.ExponentialBackoff;

/** Requests that an executor sends to coordinators about a transaction without its producer. */
public final class CoordinatorCalls implements AutoCloseable {
  /** Transaction markers take a few milliseconds, or longer while a broker is down. */
  private static final ExponentialBackoff RETRY_MS = new ExponentialBackoff(2, 2, 100, 0.2);

  /** For a broker that has just accepted offsets. */
  private static final Duration FETCH = Duration.ofSeconds(5);

  private static final Set<Errors> ASK_AGAIN =
      Set.of(
          Errors.CONCURRENT_TRANSACTIONS,
          Errors.COORDINATOR_LOAD_IN_PROGRESS,
          // The topic was just created, or has just got more partitions.
          Errors.UNKNOWN_TOPIC_OR_PARTITION);

  private static final Set<Errors> ASK_ANOTHER =
      Set.of(
          Errors.NOT_COORDINATOR,
          Errors.COORDINATOR_NOT_AVAILABLE,
          Errors.REQUEST_TIMED_OUT,
          Errors.NETWORK_EXCEPTION);

  private static final Set<Errors> FENCED =
      Set.of(
          Errors.ILLEGAL_GENERATION,
          Errors.STALE_MEMBER_EPOCH,
          Errors.UNKNOWN_MEMBER_ID,
          Errors.FENCED_INSTANCE_ID);

  /** The brokers of a cluster. */
  interface Brokers {
    Node transactionCoordinator(String transactionalId) throws IOException;

    Collection<Node> all();

    AbstractResponse send(Node node, AbstractRequest.Builder<?> request) throws IOException;

    /** See {@link ConnectedBrokers}. */
    Optional<Set<Node>> connected();

    void close();
  }

  private final Brokers brokers;
  private final Duration maxBlock;

  /**
   * The coordinators of transactional ids and groups; a wrong one is detected when it is asked. All
   * tasks of this JVM share the map, so it does not tell which broker has answered a task.
   */
  private final Map<String, Node> coordinators = new ConcurrentHashMap<>();

  /**
   * @param admin of the same cluster, to find coordinators with
   */
  public CoordinatorCalls(Admin admin, ClientSettings settings) {
    this(new OfCluster(admin, settings), settings.maxBlock());
  }

  /**
   * @param maxBlock how long to look for a coordinator and to retry a request
   */
  CoordinatorCalls(Brokers brokers, Duration maxBlock) {
    this.brokers = brokers;
    this.maxBlock = maxBlock;
  }

  /**
   * Registers the partitions and the group of a transaction when it begins, and waits until the
   * producer's former transaction has ended (KIP-609). For transaction version 1: with version 2
   * the broker registers partitions when records arrive, and waits by itself.
   *
   * <p>The producer does not know of this. It registers each partition again with its first record
   * there; the coordinator then answers without writing anything.
   *
   * @param transaction the producer's own
   * @throws EosKafkaException {@code EOSKAFKA_FORMER_TRANSACTION_OPEN} if the former one has not
   *     ended within {@code kafka.max.block.ms}
   * @throws org.apache.kafka.common.errors.ApiException the coordinator's refusal
   */
  public void register(TransactionRef transaction, Registration registration) {
    long deadline = deadline();
    String id = transaction.transactionalId();
    require(
        id,
        AddPartitionsToTxnRequest.Builder.forClient(
            id,
            transaction.producerId(),
            transaction.producerEpoch(),
            List.copyOf(registration.topicPartitions())),
        deadline);
    if (registration.group() != null) {
      addGroup(transaction, registration.group(), deadline);
    }
  }

  private void addGroup(TransactionRef transaction, String group, long deadline) {
    require(
        transaction.transactionalId(),
        new AddOffsetsToTxnRequest.Builder(
            new AddOffsetsToTxnRequestData()
                .setTransactionalId(transaction.transactionalId())
                .setProducerId(transaction.producerId())
                .setProducerEpoch(transaction.producerEpoch())
                .setGroupId(group)),
        deadline);
  }

  private void require(String id, AbstractRequest.Builder<?> request, long deadline) {
    Errors error = answer(id, true, request, deadline).error();
    if (error != Errors.NONE) {
      throw error.exception(error.message() + " " + request);
    }
  }

  /**
   * Adds offsets to an open transaction whose producer can no longer do so: the group has refused
   * the producer's fence, which a new generation has replaced.
   *
   * @param offsets at most as many as fit one request
   * @return the coordinator that has accepted them; empty if the group refuses this fence too
   * @throws TimeoutException if no coordinator answers within {@code kafka.max.block.ms}
   * @throws org.apache.kafka.common.errors.ApiException any other refusal
   */
  public Optional<Node> addOffsets(
      TransactionRef transaction, Map<TopicPartition, OffsetAndMetadata> offsets, Fence fence) {
    long deadline = deadline();
    if (!transaction.version2()) {
      // Its coordinator refuses a producer that was fenced; not every broker asks it.
      addGroup(transaction, fence.group(), deadline);
    }
    Map<TopicPartition, TxnOffsetCommitRequest.CommittedOffset> committed = new HashMap<>();
    offsets.forEach(
        (partition, offset) ->
            committed.put(
                partition,
                new TxnOffsetCommitRequest.CommittedOffset(
                    offset.offset(), offset.metadata(), offset.leaderEpoch())));
    Answer answer =
        answer(
            fence.group(),
            false,
            new TxnOffsetCommitRequest.Builder(
                transaction.transactionalId(),
                fence.group(),
                transaction.producerId(),
                transaction.producerEpoch(),
                committed,
                fence.memberId(),
                fence.generation(),
                Optional.ofNullable(fence.instanceId()),
                transaction.version2()),
            deadline);
    if (answer.error() == Errors.NONE) {
      return Optional.of(answer.from());
    }
    if (!FENCED.contains(answer.error())) {
      throw answer.error().exception();
    }
    return Optional.empty();
  }

  /**
   * A broker's answer for the offset of a partition.
   *
   * @param error {@code UNSTABLE_OFFSET_COMMIT} if offsets are pending and the fetch requires
   *     stability
   * @param offset the committed one, or -1
   */
  public record FetchedOffset(Errors error, long offset) {
    @Override
    public String toString() {
      return error == Errors.NONE ? Long.toString(offset) : error.toString();
    }
  }

  /**
   * Asks one broker, and no other, for the offsets of a group.
   *
   * @param node null if it is no longer known
   * @return an entry for each partition; with {@code NETWORK_EXCEPTION} if the broker does not
   *     answer within five seconds, {@code COORDINATOR_NOT_AVAILABLE} if it is not known
   */
  public Map<TopicPartition, FetchedOffset> fetch(
      Node node, String group, Collection<TopicPartition> partitions, boolean requireStable) {
    if (node == null) {
      return all(partitions, Errors.COORDINATOR_NOT_AVAILABLE);
    }
    long deadline = System.nanoTime() + FETCH.toNanos();
    for (int attempt = 0; ; attempt++) {
      try {
        return fetched(
            brokers.send(node, fetchRequest(group, partitions, requireStable)), group, partitions);
      } catch (IOException e) {
        if (System.nanoTime() > deadline) {
          return all(partitions, Errors.NETWORK_EXCEPTION);
        }
        KafkaCalls.sleep(RETRY_MS.backoff(attempt));
      }
    }
  }

  /**
   * Asks all connected brokers for the offsets of a group. Brokers that are not the group's
   * coordinator answer with an error.
   *
   * @return the answer of each broker; empty if one of them cannot be asked
   */
  public Map<Node, Map<TopicPartition, FetchedOffset>> fetchEverywhere(
      String group, Collection<TopicPartition> partitions) {
    Map<Node, Map<TopicPartition, FetchedOffset>> answers = new HashMap<>();
    for (Node node : brokers.connected().orElse(Set.of())) {
      answers.put(node, fetch(node, group, partitions, false));
    }
    return answers;
  }

  private static AbstractRequest.Builder<?> fetchRequest(
      String group, Collection<TopicPartition> partitions, boolean requireStable) {
    Map<String, OffsetFetchRequestTopics> topics = new HashMap<>();
    for (TopicPartition partition : partitions) {
      topics
          .computeIfAbsent(
              partition.topic(),
              name ->
                  new OffsetFetchRequestTopics()
                      .setName(name)
                      .setPartitionIndexes(new ArrayList<>()))
          .partitionIndexes()
          .add(partition.partition());
    }
    OffsetFetchRequestData data =
        new OffsetFetchRequestData()
            .setRequireStable(requireStable)
            .setGroups(
                List.of(
                    new OffsetFetchRequestGroup()
                        .setGroupId(group)
                        .setTopics(List.copyOf(topics.values()))));
    return OffsetFetchRequest.Builder.forTopicNames(data, true);
  }

  private static Map<TopicPartition, FetchedOffset> fetched(
      AbstractResponse response, String group, Collection<TopicPartition> partitions) {
    OffsetFetchResponseGroup found = ((OffsetFetchResponse) response).group(group);
    Errors refusal = Errors.forCode(found.errorCode());
    Map<TopicPartition, FetchedOffset> offsets =
        all(partitions, refusal == Errors.NONE ? Errors.UNKNOWN_TOPIC_OR_PARTITION : refusal);
    for (OffsetFetchResponseTopics topic : found.topics()) {
      for (OffsetFetchResponsePartitions one : topic.partitions()) {
        offsets.put(
            new TopicPartition(topic.name(), one.partitionIndex()),
            new FetchedOffset(Errors.forCode(one.errorCode()), one.committedOffset()));
      }
    }
    return offsets;
  }

  private static Map<TopicPartition, FetchedOffset> all(
      Collection<TopicPartition> partitions, Errors error) {
    Map<TopicPartition, FetchedOffset> offsets = new HashMap<>();
    partitions.forEach(partition -> offsets.put(partition, new FetchedOffset(error, -1)));
    return offsets;
  }

  private long deadline() {
    return System.nanoTime() + maxBlock.toNanos();
  }

  /**
   * The answer of a coordinator.
   *
   * @param from null if none could be asked
   */
  private record Answer(Errors error, Node from) {}

  private Answer answer(
      String name, boolean isTransaction, AbstractRequest.Builder<?> request, long deadline) {
    for (int attempt = 0; ; attempt++) {
      Answer answer = ask(name, isTransaction, request);
      Errors error = answer.error();
      if (!ASK_AGAIN.contains(error) && !ASK_ANOTHER.contains(error)) {
        return answer;
      }
      if (System.nanoTime() > deadline) {
        throw error == Errors.CONCURRENT_TRANSACTIONS
            ? EosKafkaException.of(
                "EOSKAFKA_FORMER_TRANSACTION_OPEN",
                Map.of("transactionalId", name, "timeout", maxBlock.toMillis()))
            : new TimeoutException("the coordinator of " + name + " answers " + error);
      }
      KafkaCalls.sleep(RETRY_MS.backoff(attempt));
    }
  }

  private Answer ask(String name, boolean isTransaction, AbstractRequest.Builder<?> request) {
    Errors error;
    Node node = coordinators.get(name);
    try {
      if (node == null) {
        if (isTransaction) {
          node = brokers.transactionCoordinator(name);
        } else {
          GroupCoordinator found = GroupCoordinator.find(brokers.all(), name, brokers::send);
          if (found.error() != Errors.NONE) {
            return new Answer(found.error(), null);
          }
          node = found.node();
        }
        coordinators.put(name, node);
      }
      error = error(brokers.send(node, request));
    } catch (IOException e) {
      error = Errors.NETWORK_EXCEPTION;
    }
    if (ASK_ANOTHER.contains(error)) {
      coordinators.remove(name);
    }
    return new Answer(error, node);
  }

  private static final class OfCluster implements Brokers {
    private final Admin admin;
    private final ClientSettings settings;
    private final Map<Node, BrokerRequests> requests = new ConcurrentHashMap<>();

    OfCluster(Admin admin, ClientSettings settings) {
      this.admin = admin;
      this.settings = settings;
    }

    @Override
    public Node transactionCoordinator(String transactionalId) throws IOException {
      int id =
          KafkaCalls.get(
                  admin.describeTransactions(List.of(transactionalId)).description(transactionalId))
              .coordinatorId();
      Collection<Node> nodes = all();
      return nodes.stream()
          .filter(node -> node.id() == id)
          .findFirst()
          .orElseThrow(() -> new IOException("coordinator " + id + " is not among " + nodes));
    }

    @Override
    public Collection<Node> all() {
      return KafkaCalls.get(admin.describeCluster().nodes());
    }

    @Override
    public AbstractResponse send(Node node, AbstractRequest.Builder<?> request) throws IOException {
      BrokerRequests of =
          requests.computeIfAbsent(
              node,
              n -> {
                BrokerRequests opened = new BrokerRequests(settings, "eoskafka-coordinator-calls");
                opened.setNodes(List.of(n));
                return opened;
              });
      synchronized (of) {
        return of.ask(node, request);
      }
    }

    @Override
    public Optional<Set<Node>> connected() {
      return ConnectedBrokers.of(admin, settings, Set.of()).map(Map::keySet);
    }

    @Override
    public void close() {
      for (BrokerRequests of : requests.values()) {
        // Not while another task waits for its answer.
        synchronized (of) {
          of.close();
        }
      }
    }
  }

  private static Errors error(AbstractResponse response) {
    if (response instanceof AddOffsetsToTxnResponse offsets) {
      return Errors.forCode(offsets.data().errorCode());
    }
    Collection<Errors> errors =
        response instanceof TxnOffsetCommitResponse committed
            ? committed.errors().values()
            : ((AddPartitionsToTxnResponse) response)
                .errors()
                .getOrDefault(AddPartitionsToTxnResponse.V3_AND_BELOW_TXN_ID, Map.of())
                .values();
    return errors.stream()
        .filter(error -> error != Errors.NONE && error != Errors.OPERATION_NOT_ATTEMPTED)
        .findFirst()
        .orElse(Errors.NONE);
  }

  @Override
  public void close() {
    brokers.close();
  }
}
