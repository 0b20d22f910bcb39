package io.eoskafka.transaction;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.wire.BrokerRequests;
import io.eoskafka.wire.Daemon;
import io.eoskafka.wire.KafkaCalls;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import org.apache.kafka.clients.ClientRequest;
import org.apache.kafka.clients.ClientResponse;
import org.apache.kafka.clients.NetworkClient;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeTransactionsResult;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.TransactionalIdNotFoundException;
import org.apache.kafka.common.message.EndTxnRequestData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.EndTxnRequest;
import org.apache.kafka.common.requests.EndTxnResponse;
import org.apache.kafka.common.utils.Time;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Commits transactions that other processes have prepared, by producer id and epoch. No public
 * client can do this: a producer ends only its own transactions, and the admin client only aborts.
 *
 * <p>A commit request is sent only after the coordinator has reported an open transaction with the
 * prepared producer id and epoch: a transaction that another producer has begun under the same
 * transactional id is never committed. The coordinator checks both again.
 *
 * <p>The connections stay open for the next call. One call at a time uses them.
 */
public final class TransactionEnds implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(TransactionEnds.class);

  private static final long POLL_MS = 50;

  /**
   * Connections to one coordinator. A broker handles the next request of a connection only when it
   * has answered the last one, and it answers only when the replicas have the change.
   */
  private static final int CONNECTIONS = 8;

  /** The wait while a coordinator moves or loads; each round looks it up again. */
  private static final long BACKOFF_MS = 50;

  /**
   * How long connections may be idle before they are closed. A firewall or proxy may silently drop
   * an idle connection after some minutes, and a request on it would wait for its timeout.
   */
  private static final Duration MAX_REST = Duration.ofSeconds(40);

  /** Errors of a coordinator for which a retry may succeed. */
  private static final Set<Errors> TRY_AGAIN =
      Set.of(
          Errors.COORDINATOR_NOT_AVAILABLE,
          Errors.COORDINATOR_LOAD_IN_PROGRESS,
          Errors.NOT_COORDINATOR,
          Errors.CONCURRENT_TRANSACTIONS,
          Errors.REQUEST_TIMED_OUT,
          Errors.NETWORK_EXCEPTION,
          Errors.UNKNOWN_SERVER_ERROR);

  /** Errors that mean that the transaction is no longer the prepared one. */
  private static final Set<Errors> NOT_THE_PREPARED_ONE =
      Set.of(
          Errors.INVALID_TXN_STATE,
          Errors.INVALID_PRODUCER_EPOCH,
          Errors.PRODUCER_FENCED,
          Errors.INVALID_PRODUCER_ID_MAPPING);

  private final Admin admin;
  private final ClientSettings settings;

  /** Null before the first call, and after one that has failed. */
  private BrokerRequests requests;

  private long usedNanos;

  /**
   * The client identifies a connection by its node id; these numbers give each connection its own.
   */
  private final Map<Node, Integer> numbers = new HashMap<>();

  /** The brokers as they were listed last, by their ids. */
  private Map<Integer, Node> brokers;

  /**
   * @param admin of the same cluster, to find coordinators with
   * @param listed the cluster's brokers, as far as known
   */
  public TransactionEnds(Admin admin, ClientSettings settings, Collection<Node> listed) {
    this.admin = admin;
    this.settings = settings;
    brokers = byId(listed);
  }

  private static Map<Integer, Node> byId(Collection<Node> nodes) {
    return nodes.stream().collect(Collectors.toMap(Node::id, node -> node));
  }

  /** How far a prepared transaction has got, as its coordinator reports it. */
  enum Stand {
    /** It waits for a request to end it. */
    OPEN,
    /** It will be committed; its markers are being written. */
    COMMITTING,
    COMMITTED,
    /** The producer id or epoch has moved on, or the transaction was aborted. */
    UNKNOWN
  }

  /**
   * Commits all these transactions; requests to one coordinator use several connections.
   *
   * @param openAt the ids of the brokers that have just reported some of them as open: they get the
   *     commit request at once. If they do not answer with a success, the transaction is looked up
   *     like the others.
   * @return the transactions whose outcome the coordinators do not know: they were probably
   *     aborted, but a commit whose producer has since moved on looks the same, so the caller has
   *     to read whether their records are visible
   * @throws TimeoutException if some got no clear answer within {@code timeout}
   */
  public synchronized Set<TransactionRef> commit(
      Collection<TransactionRef> prepared, Map<TransactionRef, Integer> openAt, Duration timeout) {
    Set<TransactionRef> left = new HashSet<>(prepared);
    Set<TransactionRef> unknown = new HashSet<>();
    if (left.isEmpty()) {
      return unknown;
    }
    long deadline = System.nanoTime() + timeout.toNanos();
    try {
      commitReported(left, openAt);
      while (!left.isEmpty()) {
        round(coordinators(left, unknown), left, unknown);
        if (left.isEmpty()) {
          break;
        }
        if (System.nanoTime() > deadline) {
          throw new TimeoutException(
              "the coordinators gave no clear answer on the commit of "
                  + left.size()
                  + " transactions, such as "
                  + left.iterator().next().transactionalId());
        }
        KafkaCalls.sleep(BACKOFF_MS);
      }
    } finally {
      if (!left.isEmpty()) {
        close();
      }
    }
    return unknown;
  }

  /**
   * Commits over the connections of the previous call. Transactions that this does not commit stay
   * in the set, and new connections are used from then on: files with passwords and certificates
   * may have been replaced since the old ones were opened.
   */
  private void commitReported(Set<TransactionRef> left, Map<TransactionRef, Integer> openAt) {
    Map<Node, List<TransactionRef>> byCoordinator = new HashMap<>();
    openAt.forEach(
        (transaction, brokerId) -> {
          Node node = brokers.get(brokerId);
          if (node != null && left.contains(transaction)) {
            byCoordinator.computeIfAbsent(node, n -> new ArrayList<>()).add(transaction);
          }
        });
    Set<TransactionRef> committed = new HashSet<>();
    byCoordinator.values().forEach(committed::addAll);
    Set<TransactionRef> open = new HashSet<>(committed);
    Set<TransactionRef> refused = new HashSet<>();
    try {
      round(byCoordinator, open, refused);
    } catch (KafkaException e) {
      LOG.info("Coordinators are asked again: {}", e.toString());
    }
    committed.removeAll(open);
    committed.removeAll(refused);
    left.removeAll(committed);
    if (!left.isEmpty()) {
      close();
    }
  }

  private void connect() {
    usedNanos = System.nanoTime();
    if (requests == null) {
      requests = new BrokerRequests(settings, "eoskafka-transaction-ends");
      closeAfter(MAX_REST.toNanos());
    }
  }

  private void closeAfter(long nanos) {
    BrokerRequests opened = requests;
    // On a thread of its own: it waits while a commit is under way.
    CompletableFuture.delayedExecutor(
            nanos, TimeUnit.NANOSECONDS, work -> Daemon.start("eoskafka-transaction-ends", work))
        .execute(() -> closeIfAtRest(opened));
  }

  private synchronized void closeIfAtRest(BrokerRequests opened) {
    if (requests != opened) {
      return;
    }
    long leftNanos = MAX_REST.toNanos() - (System.nanoTime() - usedNanos);
    if (leftNanos <= 0) {
      close();
    } else {
      closeAfter(leftNanos);
    }
  }

  @Override
  public synchronized void close() {
    if (requests != null) {
      requests.close();
      requests = null;
      numbers.clear();
    }
  }

  /** Asks each coordinator once for each of its transactions. */
  private void round(
      Map<Node, List<TransactionRef>> byCoordinator,
      Set<TransactionRef> left,
      Set<TransactionRef> unknown) {
    if (byCoordinator.isEmpty()) {
      return;
    }
    connect();
    NetworkClient client = requests.client();
    Map<Node, List<TransactionRef>> byConnection = byConnection(byCoordinator);
    requests.setNodes(byConnection.keySet());
    AtomicReference<KafkaException> refusal = new AtomicReference<>();
    long deadline = Time.SYSTEM.milliseconds() + BrokerRequests.TIMEOUT_MS;
    while (!byConnection.isEmpty() || client.hasInFlightRequests()) {
      long now = Time.SYSTEM.milliseconds();
      byConnection.forEach(
          (node, waiting) -> {
            while (!waiting.isEmpty() && client.ready(node, now)) {
              client.send(
                  request(client, node, waiting.remove(0), left, unknown, refusal, now), now);
            }
          });
      byConnection.values().removeIf(List::isEmpty);
      client.poll(POLL_MS, now);
      if (refusal.get() != null) {
        throw refusal.get();
      }
      byConnection.keySet().removeIf(requests::hasFailed);
      if (now > deadline) {
        byConnection.keySet().forEach(node -> client.disconnect(node.idString()));
        return;
      }
    }
  }

  private Map<Node, List<TransactionRef>> byConnection(
      Map<Node, List<TransactionRef>> byCoordinator) {
    Map<Node, List<TransactionRef>> shares = new HashMap<>();
    byCoordinator.forEach(
        (node, transactions) -> {
          int first = CONNECTIONS * numbers.computeIfAbsent(node, n -> numbers.size());
          for (int i = 0; i < transactions.size(); i++) {
            Node connection = new Node(first + i % CONNECTIONS, node.host(), node.port());
            shares.computeIfAbsent(connection, n -> new ArrayList<>()).add(transactions.get(i));
          }
        });
    return shares;
  }

  private static ClientRequest request(
      NetworkClient client,
      Node node,
      TransactionRef prepared,
      Set<TransactionRef> left,
      Set<TransactionRef> unknown,
      AtomicReference<KafkaException> refusal,
      long now) {
    EndTxnRequest.Builder builder =
        new EndTxnRequest.Builder(
            new EndTxnRequestData()
                .setTransactionalId(prepared.transactionalId())
                .setProducerId(prepared.producerId())
                .setProducerEpoch(prepared.producerEpoch())
                .setCommitted(true),
            prepared.version2());
    return client.newClientRequest(
        node.idString(),
        builder,
        now,
        true,
        BrokerRequests.TIMEOUT_MS,
        response -> answered(prepared, response, left, unknown, refusal));
  }

  /**
   * @param refusal receives an error for which a retry is useless: the client swallows exceptions
   *     thrown here
   */
  private static void answered(
      TransactionRef prepared,
      ClientResponse response,
      Set<TransactionRef> left,
      Set<TransactionRef> unknown,
      AtomicReference<KafkaException> refusal) {
    if (response.authenticationException() != null) {
      refusal.set(response.authenticationException());
    } else if (response.versionMismatch() != null) {
      refusal.set(response.versionMismatch());
    } else if (!response.wasDisconnected() && response.hasResponse()) {
      Errors error = ((EndTxnResponse) response.responseBody()).error();
      if (error == Errors.NONE) {
        left.remove(prepared);
      } else if (NOT_THE_PREPARED_ONE.contains(error)) {
        LOG.info("{} could not be committed: {}", prepared, error);
        left.remove(prepared);
        unknown.add(prepared);
      } else if (!TRY_AGAIN.contains(error)) {
        refusal.set(error.exception());
      }
    }
  }

  /** The open transactions by coordinator, without those whose coordinator is not known now. */
  private Map<Node, List<TransactionRef>> coordinators(
      Set<TransactionRef> left, Set<TransactionRef> unknown) {
    brokers = byId(KafkaCalls.get(admin.describeCluster().nodes()));
    DescribeTransactionsResult described =
        admin.describeTransactions(left.stream().map(TransactionRef::transactionalId).toList());
    Map<Node, List<TransactionRef>> shares = new HashMap<>();
    for (TransactionRef prepared : List.copyOf(left)) {
      Stand stand;
      Node node = null;
      try {
        TransactionDescription now =
            KafkaCalls.get(described.description(prepared.transactionalId()));
        stand = stand(prepared, now);
        node = brokers.get(now.coordinatorId());
      } catch (TransactionalIdNotFoundException e) {
        stand = Stand.UNKNOWN;
      } catch (RetriableException e) {
        LOG.info("The coordinator of {} is not known now: {}", prepared, e.toString());
        continue;
      }
      if (stand == Stand.COMMITTED) {
        left.remove(prepared);
      } else if (stand == Stand.UNKNOWN) {
        left.remove(prepared);
        unknown.add(prepared);
      } else if (stand == Stand.OPEN && node != null) {
        shares.computeIfAbsent(node, n -> new ArrayList<>()).add(prepared);
      }
    }
    return shares;
  }

  /**
   * With {@code transaction.version=2} the end of a transaction increments the epoch (KIP-890), and
   * the initialisation before a later transaction increments it again: a commit under the next
   * epoch is that of the prepared transaction. A commit under the same epoch is that of the
   * previous transaction, reported by a former coordinator.
   */
  static Stand stand(TransactionRef prepared, TransactionDescription now) {
    boolean isProducer = now.producerId() == prepared.producerId();
    int epochsSince = now.producerEpoch() - prepared.producerEpoch();
    boolean isEnd = isProducer && epochsSince == (prepared.version2() ? 1 : 0);
    return switch (now.state()) {
      case ONGOING -> isProducer && epochsSince == 0 ? Stand.OPEN : Stand.UNKNOWN;
      case PREPARE_COMMIT -> isEnd ? Stand.COMMITTING : Stand.UNKNOWN;
      case COMPLETE_COMMIT -> isEnd ? Stand.COMMITTED : Stand.UNKNOWN;
      default -> Stand.UNKNOWN;
    };
  }
}
