package io.eoskafka.decision;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.transaction.OpenTransactions;
import io.eoskafka.transaction.TransactionEnds;
import io.eoskafka.transaction.TransactionRef;
import io.eoskafka.wire.Admins;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.LongPredicate;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeTransactionsResult;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;

/** The transaction coordinators of a sink's cluster, asked by an admin client. */
final class AdminCoordinators implements EpochCoordinators {
  private static final String CLIENT_ID = "eoskafka-driver-epochs";

  private final Admin admin;
  private final ClientSettings client;
  private final String transactionalIdPrefix;
  private final OpenTransactions transactions;
  private final TransactionEnds ends;

  /**
   * @param admin of the cluster, with the same settings; it is this one's to close
   * @param transactionalIdPrefix of ids that this user has rights on
   * @param brokers of the cluster, as far as known
   */
  AdminCoordinators(
      Admin admin, ClientSettings client, String transactionalIdPrefix, Collection<Node> brokers) {
    this.admin = admin;
    this.client = client;
    this.transactionalIdPrefix = transactionalIdPrefix;
    transactions = new OpenTransactions(admin, client, transactionalIdPrefix);
    ends = new TransactionEnds(admin, client, brokers);
  }

  /** An admin client for the coordinators of a cluster. */
  static Admin admin(ClientSettings client) {
    return Admins.create(client, CLIENT_ID);
  }

  @Override
  public void endWriters(String ownerId, LongPredicate runs, boolean onlyOpen, Set<String> except) {
    transactions.endWriters(ownerId, runs, onlyOpen, except);
  }

  @Override
  public long highestRun(String ownerId) {
    return transactions.highestRun(ownerId);
  }

  @Override
  public Set<TransactionRef> commit(
      Collection<TransactionRef> prepared, Map<TransactionRef, Integer> openAt, Duration timeout) {
    return ends.commit(prepared, openAt, timeout);
  }

  @Override
  public Map<String, KafkaFuture<TransactionDescription>> describe(List<String> transactionalIds) {
    DescribeTransactionsResult described = admin.describeTransactions(transactionalIds);
    Map<String, KafkaFuture<TransactionDescription>> found = new HashMap<>();
    transactionalIds.forEach(id -> found.put(id, described.description(id)));
    return found;
  }

  @Override
  public void whileClosing(Consumer<EpochCoordinators> work) {
    ClientSettings soon = client.closing();
    try (Admin closing = admin(soon)) {
      work.accept(new AdminCoordinators(closing, soon, transactionalIdPrefix, List.of()));
    }
  }

  @Override
  public void close() {
    ends.close();
    admin.close(Duration.ZERO);
  }
}
