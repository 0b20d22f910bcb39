package io.eoskafka.transaction;

import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.kafka.clients.admin.TransactionState;

/** Ends the transactions that drivers have left behind when they left a shared group. */
public final class DepartedDrivers {
  private static final Set<TransactionState> OPEN = Set.of(TransactionState.ONGOING);

  /** In all other states the outcome of the transaction is decided. */
  private static final Set<TransactionState> OPEN_OR_IDLE =
      Set.of(
          TransactionState.ONGOING,
          TransactionState.EMPTY,
          TransactionState.COMPLETE_COMMIT,
          TransactionState.COMPLETE_ABORT);

  private final OpenTransactions transactions;
  private final String sharedId;
  private final Supplier<Set<String>> present;

  /** Drivers that were in the group in this run. */
  private final Set<String> seen = new HashSet<>();

  /**
   * @param sharedId see {@link io.eoskafka.identity.Identity#sharedId}
   * @param present returns the checkpoint ids of the drivers that are in the group
   */
  public DepartedDrivers(
      OpenTransactions transactions, String sharedId, Supplier<Set<String>> present) {
    this.transactions = transactions;
    this.sharedId = sharedId;
    this.present = present;
  }

  /** Aborts their open transactions. */
  public void endOpen() {
    List<String> open = list(OPEN);
    if (!open.isEmpty()) {
      // Asked afterwards, so that one that has just come back is not taken for gone.
      Set<String> there = present.get();
      transactions.fence(open.stream().filter(id -> !there.contains(driver(id))).toList());
    }
  }

  /**
   * The same, and fences the idle producers of drivers that have left during this run: a paused
   * executor may begin another transaction, which nobody would end. It does not do so for all
   * drivers that have ever left, because a transactional id that is initialised repeatedly never
   * expires.
   *
   * <p>To be called from one thread only.
   */
  public void endSeen() {
    endOpen();
    Set<String> there = present.get();
    seen.addAll(there);
    Set<String> gone = new HashSet<>(seen);
    gone.removeAll(there);
    if (!gone.isEmpty()) {
      List<String> idle = list(OPEN_OR_IDLE);
      gone.removeAll(present.get());
      transactions.fence(idle.stream().filter(id -> gone.contains(driver(id))).toList());
      seen.removeAll(gone);
    }
  }

  private List<String> list(Set<TransactionState> states) {
    return transactions.list(TransactionalId.brokerPatternOfShared(sharedId), states).stream()
        .filter(id -> TransactionalId.driverOf(id, sharedId).isPresent())
        .toList();
  }

  private String driver(String transactionalId) {
    return TransactionalId.driverOf(transactionalId, sharedId).orElseThrow();
  }
}
