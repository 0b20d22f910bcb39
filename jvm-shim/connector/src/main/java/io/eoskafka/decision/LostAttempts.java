package io.eoskafka.decision;

import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicLong;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Ends the transactions of writers' attempts that have not reported, of this run and of former
 * ones. One that stays open does no harm but to those who read its partitions: they wait for it.
 */
final class LostAttempts {
  private static final Logger LOG = LoggerFactory.getLogger(LostAttempts.class);

  private final String ownerId;
  private final DecisionLog log;
  private final EpochCoordinators transactions;
  private final Executor background;
  private final AtomicLong idSeries = new AtomicLong();
  private volatile CompletableFuture<Void> last = CompletableFuture.completedFuture(null);
  private volatile boolean closed;

  LostAttempts(
      String ownerId, DecisionLog log, EpochCoordinators transactions, Executor background) {
    this.ownerId = ownerId;
    this.log = log;
    this.transactions = transactions;
    this.background = background;
  }

  /** The number that the transactional ids of the next epoch's writers have in common. */
  long idSeries() {
    return idSeries.get();
  }

  /**
   * Ends them beside what follows. {@link #await} has to come before the next epoch's writers
   * begin: it would end their transactions too.
   *
   * @param mayBegin whether there may be an attempt that has not reported, and may yet begin
   */
  void endLater(boolean mayBegin) {
    beginSeries(mayBegin);
    last = CompletableFuture.runAsync(this::end, background);
  }

  /** Waits until {@link #endLater} is done, whether it has succeeded or not. */
  void await() {
    last.exceptionally(error -> null).join();
  }

  /**
   * Ends them. If that fails, they stay open until the next epoch or start.
   *
   * @param mayBegin as of {@link #endLater}
   */
  void endIfPossible(boolean mayBegin) {
    beginSeries(mayBegin);
    end();
  }

  /** An attempt that begins late initialises its id: no later attempt may have the same one. */
  private void beginSeries(boolean mayBegin) {
    if (mayBegin) {
      idSeries.incrementAndGet();
    }
  }

  private void end() {
    try {
      if (closed) {
        // The query's end closes the clients, and a function's write on another thread goes on.
        transactions.whileClosing(this::end);
      } else {
        end(transactions);
      }
    } catch (RuntimeException e) {
      LOG.warn("Transactions of lost attempts stay open until the next epoch or start", e);
    }
  }

  private void end(EpochCoordinators by) {
    // A run without forerunners in this topic knows nothing of others: they may be decided.
    by.endWriters(
        ownerId, run -> run == log.run() || !log.isNew() && run < log.run(), true, Set.of());
  }

  /** The session closes its clients after this. */
  void close() {
    closed = true;
    await();
  }
}
