package io.eoskafka.transaction;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.config.EosKafkaException;
import io.eoskafka.wire.BrokerRequests;
import io.eoskafka.wire.KafkaCalls;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.ClientResponse;
import org.apache.kafka.clients.NetworkClient;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeTransactionsOptions;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.message.DescribeTransactionsRequestData;
import org.apache.kafka.common.message.DescribeTransactionsResponseData;
import org.apache.kafka.common.message.ListTransactionsRequestData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.DescribeTransactionsRequest;
import org.apache.kafka.common.requests.DescribeTransactionsResponse;
import org.apache.kafka.common.requests.ListTransactionsRequest;
import org.apache.kafka.common.requests.ListTransactionsResponse;
import org.apache.kafka.common.utils.ExponentialBackoff;
import org.apache.kafka.common.utils.Time;

/**
 * Lists all transactional ids that a cluster's coordinators know. The admin client asks the
 * available brokers for the ids that they coordinate, and does not notice ids that no broker
 * coordinates at the moment: while a partition of the transaction log is between two leaders, its
 * transactions are in no answer, and its new leader answers without them until it begins to load
 * them.
 *
 * <p>So each broker is asked three times over one connection, which keeps the order: for probes,
 * for its list, and for the probes again. Probes are unused ids, at least one in each partition.
 * Only a coordinator that has loaded the partition answers that an unused id does not exist. The
 * list is complete when for each probe some broker has answered so both before and after its list.
 */
public final class TransactionLists {
  private static final String TRANSACTION_LOG = "__transaction_state";

  /** The factor by which {@code String.hashCode} multiplies for each character. */
  private static final int HASH_BASE = 31;

  private static final int PROBES = HASH_BASE * HASH_BASE;

  /** If the user may not describe an id, lists do not contain it either. */
  private static final Set<Errors> COORDINATED =
      Set.of(Errors.TRANSACTIONAL_ID_NOT_FOUND, Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED);

  private static final long POLL_MS = 50;

  /** An election takes some tens of milliseconds, or as long as a broker's session. */
  private static final ExponentialBackoff RETRY_MS = new ExponentialBackoff(20, 2, 500, 0.2);

  private final Admin admin;
  private final ClientSettings settings;
  private final List<String> probes;

  /**
   * @param admin of the same cluster, with the same settings
   * @param prefix of transactional ids that the user may describe
   */
  public TransactionLists(Admin admin, ClientSettings settings, String prefix) {
    this.admin = admin;
    this.settings = settings;
    this.probes = probes(prefix);
  }

  /**
   * Ids whose hash codes are consecutive numbers. The absolute value of an id's hash code, modulo
   * the number of partitions, is its partition. So each partition has a probe, whatever the number
   * of partitions is: not every user may ask for it. There may be up to {@link #PROBES} partitions,
   * or half as many if the codes pass 0.
   */
  static List<String> probes(String prefix) {
    List<String> probes = new ArrayList<>();
    for (int i = 0; i < PROBES; i++) {
      char before = (char) ('A' + i / HASH_BASE);
      char last = (char) ('A' + i % HASH_BASE);
      probes.add(prefix + "-probe-" + before + last);
    }
    return probes;
  }

  /**
   * @param pattern matches whole ids, in RE2 syntax; brokers before 4.1 list other ids too
   *     (KIP-1152)
   * @param states empty for all
   * @throws EosKafkaException {@code EOSKAFKA_TRANSACTIONS_NOT_LISTED} if some coordinator does not
   *     answer within {@code kafka.default.api.timeout.ms}
   */
  public Set<String> list(String pattern, Set<TransactionState> states) {
    long deadline = Time.SYSTEM.milliseconds() + settings.apiTimeout().toMillis();
    try (BrokerRequests requests = new BrokerRequests(settings, "eoskafka-transaction-lists")) {
      for (int attempt = 0; ; attempt++) {
        Collection<Node> nodes = KafkaCalls.reach(admin.describeCluster().nodes(), settings);
        List<Answers> answers = ask(requests, nodes, pattern, states, deadline);
        Set<String> covered = new HashSet<>();
        answers.forEach(of -> covered.addAll(of.covered()));
        if (covered.size() == PROBES || covered.isEmpty() && !hasTransactionLog(deadline)) {
          Set<String> ids = new HashSet<>();
          answers.forEach(of -> ids.addAll(of.ids));
          return ids;
        }
        if (Time.SYSTEM.milliseconds() >= deadline) {
          throw EosKafkaException.of(
              "EOSKAFKA_TRANSACTIONS_NOT_LISTED",
              Map.of(
                  "timeout",
                  settings.apiTimeout().toMillis(),
                  "share",
                  100 - 100 * covered.size() / PROBES,
                  "brokers",
                  nodes));
        }
        KafkaCalls.sleep(RETRY_MS.backoff(attempt));
      }
    }
  }

  /**
   * Whether the cluster has a transaction log although no broker has a partition of it. Brokers
   * create it for the first transaction. If the user may not describe it, this request makes a
   * broker create it.
   */
  private boolean hasTransactionLog(long deadline) {
    try {
      KafkaCalls.get(admin.describeTopics(List.of(TRANSACTION_LOG)).allTopicNames());
    } catch (UnknownTopicOrPartitionException e) {
      return false;
    } catch (EosKafkaException | KafkaException e) {
      long left = Math.max(0, deadline - Time.SYSTEM.milliseconds());
      KafkaCalls.isDoneWithin(
          Duration.ofMillis(left),
          admin
              .describeTransactions(
                  probes.subList(0, 1), new DescribeTransactionsOptions().timeoutMs((int) left))
              .all());
    }
    return true;
  }

  private List<Answers> ask(
      BrokerRequests requests,
      Collection<Node> nodes,
      String pattern,
      Set<TransactionState> states,
      long deadline) {
    requests.setNodes(nodes);
    NetworkClient client = requests.client();
    List<Answers> all = new ArrayList<>();
    nodes.forEach(node -> all.add(new Answers(node)));
    List<Answers> left = new ArrayList<>(all);
    long end = Math.min(deadline, Time.SYSTEM.milliseconds() + BrokerRequests.TIMEOUT_MS);
    while (!left.isEmpty()) {
      if (Thread.currentThread().isInterrupted()) {
        // The query was stopped: the network client would poll without a pause.
        throw KafkaCalls.asJava(new InterruptException("stopped while transactions were listed"));
      }
      long now = Time.SYSTEM.milliseconds();
      for (Answers of : left) {
        if (of.sent < Answers.REQUESTS && client.ready(of.node, now)) {
          AbstractRequest.Builder<?> request =
              of.sent == 1
                  ? listRequest(hasPatterns(requests, of.node) ? pattern : null, states)
                  : new DescribeTransactionsRequest.Builder(
                      new DescribeTransactionsRequestData().setTransactionalIds(probes));
          of.sent++;
          client.send(
              client.newClientRequest(
                  of.node.idString(), request, now, true, BrokerRequests.TIMEOUT_MS, of::take),
              now);
        }
      }
      client.poll(POLL_MS, now);
      left.removeIf(of -> of.isDone() || requests.hasFailed(of.node));
      if (now > end) {
        left.forEach(of -> client.disconnect(of.node.idString()));
        return all;
      }
    }
    return all;
  }

  private static boolean hasPatterns(BrokerRequests requests, Node node) {
    return requests.versions(node).orElseThrow().latestUsableVersion(ApiKeys.LIST_TRANSACTIONS)
        >= 2;
  }

  private static ListTransactionsRequest.Builder listRequest(
      String pattern, Set<TransactionState> states) {
    return new ListTransactionsRequest.Builder(
        new ListTransactionsRequestData()
            .setStateFilters(states.stream().map(TransactionState::toString).toList())
            .setTransactionalIdPattern(pattern));
  }

  /** The answers of one broker, in the order of the requests. */
  private static final class Answers {
    static final int REQUESTS = 3;

    private final Node node;
    private final List<Set<String>> coordinated = new ArrayList<>();
    private final List<String> ids = new ArrayList<>();
    private int sent;
    private int answered;
    private boolean isListed;

    private Answers(Node node) {
      this.node = node;
    }

    boolean isDone() {
      return answered == REQUESTS;
    }

    /** The probes of the partitions that its list covers. */
    Set<String> covered() {
      if (!isListed || coordinated.size() < 2) {
        return Set.of();
      }
      Set<String> covered = new HashSet<>(coordinated.get(0));
      covered.retainAll(coordinated.get(1));
      return covered;
    }

    private void take(ClientResponse response) {
      answered++;
      if (response.responseBody() instanceof DescribeTransactionsResponse described) {
        coordinated.add(
            described.data().transactionStates().stream()
                .filter(state -> COORDINATED.contains(Errors.forCode(state.errorCode())))
                .map(DescribeTransactionsResponseData.TransactionState::transactionalId)
                .collect(Collectors.toSet()));
      } else if (response.responseBody() instanceof ListTransactionsResponse listed) {
        isListed = listed.data().errorCode() == Errors.NONE.code();
        listed.data().transactionStates().forEach(state -> ids.add(state.transactionalId()));
      }
    }
  }
}
