package io.eoskafka.decision;

import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Ends the transactions of writers' attempts that have not reported, of this run and of former
 * ones. A transaction that stays open harms only the readers of its partitions, which wait for it.
 */
final class LostAttempts {
  private static final Logger LOG = LoggerFactory.getLogger(LostAttempts.class);

  /** How long the end of a session waits for brokers that do not answer. */
  private static final long CLOSING_S = 5;

  private final String ownerId;
  private final DecisionLog log;
  private final EpochCoordinators transactions;
  private final Executor background;
  private IdSeries idSeries = IdSeries.FIRST;
  private volatile CompletableFuture<Void> last = CompletableFuture.completedFuture(null);
  private volatile boolean closed;

  LostAttempts(
      String ownerId, DecisionLog log, EpochCoordinators transactions, Executor background) {
    this.ownerId = ownerId;
    this.log = log;
    this.transactions = transactions;
    this.background = background;
  }

  /** Of the next epoch's writers. */
  synchronized IdSeries idSeries() {
    return idSeries;
  }

  /** Attempts of these writers may not have reported, and may yet begin. */
  synchronized void mayBegin(Set<Integer> writers) {
    idSeries = idSeries.next(writers);
  }

  /** Attempts of any writer may not have reported, and may yet begin. */
  synchronized void mayBegin() {
    idSeries = idSeries.next();
  }

  /**
   * Ends them in the background. {@link #await} must be called before the next epoch's writers
   * begin: otherwise their transactions would be ended too.
   */
  void endLater() {
    last = CompletableFuture.runAsync(this::end, background);
  }

  /** Waits until {@link #endLater} is done, whether it has succeeded or not. */
  void await() {
    last.exceptionally(error -> null).join();
  }

  /** Ends them. If that fails, they stay open until the next epoch or start. */
  void end() {
    try {
      if (closed) {
        // The query's end closes the clients, and a function's write on another thread goes on.
        transactions.whileClosing(this::end);
      } else {
        end(transactions);
      }
    } catch (RuntimeException e) {
      // A broker may have been asked to end one, and do it late.
      mayBegin();
      LOG.warn("Transactions of lost attempts stay open until the next epoch or start", e);
    }
  }

  private void end(EpochCoordinators by) {
    // A run without forerunners in this topic knows nothing of others: they may be decided.
    by.endWriters(
        ownerId, run -> run == log.run() || !log.isNew() && run < log.run(), true, Set.of());
  }

  /** The session closes its clients after this: what is not done by then fails. */
  void close() {
    closed = true;
    last.copy().orTimeout(CLOSING_S, TimeUnit.SECONDS).exceptionally(error -> null).join();
  }
}
