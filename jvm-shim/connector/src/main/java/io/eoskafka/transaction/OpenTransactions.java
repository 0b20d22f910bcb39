package io.eoskafka.transaction;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.wire.KafkaCalls;
import java.util.List;
import java.util.OptionalLong;
import java.util.Set;
import java.util.function.LongPredicate;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.common.KafkaFuture;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Ends the transactions that earlier runs and lost executors have left behind. */
public final class OpenTransactions {
  private static final Logger LOG = LoggerFactory.getLogger(OpenTransactions.class);

  /** All of them within one timeout. */
  private static final int CALLS_AT_ONCE = 100;

  private final Admin admin;
  private final TransactionLists lists;

  /**
   * @param admin of the cluster, with the same settings
   * @param prefix of transactional ids that this user has rights on
   */
  public OpenTransactions(Admin admin, ClientSettings settings, String prefix) {
    this.admin = admin;
    this.lists = new TransactionLists(admin, settings, prefix);
  }

  /**
   * Aborts every open transaction of a driver's task-scope producers and fences the producers
   * themselves, idle ones too: otherwise offsets stay unstable, and readers of the output wait,
   * until the transactions time out.
   *
   * @param producers see {@link io.eoskafka.identity.Identity#producers}
   */
  public void end(String producers) {
    fence(
        list(TransactionalId.brokerPattern(producers), Set.of()).stream()
            .filter(id -> TransactionalId.isOf(id, producers))
            .toList());
  }

  /**
   * Aborts the transactions that a query's writers have left open in epoch scope.
   *
   * @param runs selects the runs of these writers: never a later run, which belongs to another
   *     driver
   * @param onlyOpen whether producers without an open transaction are left alone
   * @param except ids that are left alone
   */
  public void endWriters(String ownerId, LongPredicate runs, boolean onlyOpen, Set<String> except) {
    fence(
        list(
                TransactionalId.brokerPatternOfWriters(ownerId),
                onlyOpen ? Set.of(TransactionState.ONGOING) : Set.of())
            .stream()
            .filter(id -> !except.contains(id))
            .filter(
                id -> {
                  OptionalLong run = TransactionalId.runOfWriter(id, ownerId);
                  return run.isPresent() && runs.test(run.getAsLong());
                })
            .toList());
  }

  /** The highest run of a query's writers that the brokers know, or -1. */
  public long highestRun(String ownerId) {
    return list(TransactionalId.brokerPatternOfWriters(ownerId), Set.of()).stream()
        .map(id -> TransactionalId.runOfWriter(id, ownerId))
        .flatMapToLong(OptionalLong::stream)
        .max()
        .orElse(-1);
  }

  /** Aborts the open transactions of these ids, and fences their producers. */
  public void fence(List<String> ids) {
    if (ids.isEmpty()) {
      return;
    }
    LOG.info("Ending what former attempts left of {} transactional producers", ids.size());
    // Each in a call of its own: a call asks a broker for one id after the other and pauses in
    // between, for retry.backoff.max.ms at last.
    for (int from = 0; from < ids.size(); from += CALLS_AT_ONCE) {
      List<String> some = ids.subList(from, Math.min(ids.size(), from + CALLS_AT_ONCE));
      KafkaCalls.get(
          KafkaFuture.allOf(
              some.stream()
                  .map(id -> admin.fenceProducers(List.of(id)).all())
                  .toArray(KafkaFuture[]::new)));
    }
  }

  Set<String> list(String pattern, Set<TransactionState> states) {
    return lists.list(pattern, states);
  }
}
