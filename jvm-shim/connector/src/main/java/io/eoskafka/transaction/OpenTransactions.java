package io.eoskafka.transaction;

import io.eoskafka.wire.KafkaCalls;
import java.util.Collection;
import java.util.List;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Ends what earlier runs and lost executors left behind. */
public final class OpenTransactions {
  private static final Logger LOG = LoggerFactory.getLogger(OpenTransactions.class);

  private OpenTransactions() {}

  /**
   * Aborts every open transaction of the identity's task-scope producers and fences the producers
   * themselves, idle ones too: without it offsets stay unstable, and readers of the output wait,
   * until the transactions time out.
   */
  public static void end(Admin admin, String identityId) {
    List<String> ids =
        list(admin, identityId).stream()
            .map(TransactionListing::transactionalId)
            .filter(id -> TransactionalId.isOf(id, identityId))
            .toList();
    if (ids.isEmpty()) {
      return;
    }
    LOG.info("Ending what former runs left of {} transactional producers: {}", ids.size(), ids);
    KafkaCalls.get(admin.fenceProducers(ids).all());
  }

  private static Collection<TransactionListing> list(Admin admin, String identityId) {
    try {
      return KafkaCalls.get(
          admin
              .listTransactions(
                  new ListTransactionsOptions()
                      .filterOnTransactionalIdPattern(TransactionalId.brokerPattern(identityId)))
              .all());
    } catch (UnsupportedVersionException e) {
      // Brokers before 4.1 have no filter by name (KIP-1152).
      return KafkaCalls.get(admin.listTransactions().all());
    }
  }
}
