package io.eoskafka.decision;

import io.eoskafka.transaction.TransactionRef;
import io.eoskafka.wire.AuthorizationErrors;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.LongSupplier;
import org.apache.kafka.common.errors.TimeoutException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Commits the transactions of a decision, and finds those that the brokers have aborted. */
final class RollForward {
  private static final Logger LOG = LoggerFactory.getLogger(RollForward.class);

  /** Coordinators that restart or move take some seconds. */
  private static final Duration COMMIT_TIMEOUT = Duration.ofSeconds(60);

  /**
   * How long a transaction may hide its presence record before its coordinator is asked again, at
   * first. A slow log-in may take longer, so each wait is twice as long as the one before.
   */
  private static final Duration FIRST_WAIT = Duration.ofSeconds(5);

  private final DecisionRecords topic;
  private final EpochCoordinators transactions;
  private final LongSupplier nanoClock;
  private final Duration timeout;

  /**
   * @param transactionTimeoutMs of the writers: after it, none of their transactions is open
   */
  RollForward(
      DecisionRecords topic,
      EpochCoordinators transactions,
      LongSupplier nanoClock,
      int transactionTimeoutMs) {
    this.topic = topic;
    this.transactions = transactions;
    this.nanoClock = nanoClock;
    timeout = Duration.ofMillis(transactionTimeoutMs).plus(COMMIT_TIMEOUT);
  }

  /**
   * Commits what the decision has decided, as far as it is open.
   *
   * @param openAt see {@link io.eoskafka.transaction.TransactionEnds#commit}
   * @return the numbers of the writers whose transactions were aborted: what a reader does not find
   * @throws io.eoskafka.config.EosKafkaException {@code EOSKAFKA_EPOCH_UNSETTLED}
   */
  Set<Integer> of(Decision decision, Map<TransactionRef, Integer> openAt) {
    try {
      return lost(decision, transactions.commit(decision.transactions(), openAt, COMMIT_TIMEOUT));
    } catch (TimeoutException e) {
      throw topic.unsettled(e.getMessage(), e);
    } catch (RuntimeException e) {
      if (AuthorizationErrors.isRefusedLogIn(e)) {
        throw topic.unsettled("a log-in was refused: " + AuthorizationErrors.reason(e), e);
      }
      throw e;
    }
  }

  /**
   * A commit whose answer got lost looks like a transaction that timed out: the presence records
   * tell them apart.
   *
   * @param unknown what coordinators neither have open nor have just committed
   */
  private Set<Integer> lost(Decision decision, Set<TransactionRef> unknown) {
    long deadline = nanoClock.getAsLong() + timeout.toNanos();
    Set<TransactionRef> asked = unknown;
    Duration wait = FIRST_WAIT;
    while (true) {
      try {
        return topic.lost(outputs(decision, asked), wait);
      } catch (TimeoutException e) {
        if (nanoClock.getAsLong() >= deadline) {
          throw e;
        }
      }
      try {
        // A former coordinator that is cut off from the other brokers may have answered before:
        // it does not know the transaction, which is still open.
        asked = transactions.commit(asked, Map.of(), COMMIT_TIMEOUT);
      } catch (TimeoutException e) {
        LOG.info("{}: their coordinators do not answer", asked);
      }
      wait = wait.multipliedBy(2);
    }
  }

  private static List<WriterOutput> outputs(Decision decision, Set<TransactionRef> of) {
    return decision.outputs().stream()
        .filter(output -> output.transaction() != null && of.contains(output.transaction()))
        .toList();
  }
}
