package io.eoskafka.transaction;

import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TransactionState;

/**
 * Ends what drivers of a shared group have left that are no longer in it: their open transactions,
 * and once also their idle producers, since an executor that was paused may begin another one.
 */
public final class GoneDrivers {
  private final Admin admin;
  private final String sharedId;
  private final Supplier<Set<String>> present;

  /** Those whose idle producers are fenced. */
  private final Set<String> ended = new HashSet<>();

  /**
   * @param sharedId see {@link io.eoskafka.group.Identity#sharedId}
   * @param present tells the checkpoint ids of the drivers that are in the group; asked after the
   *     transactions, so that one that has just come back is not taken for gone
   */
  public GoneDrivers(Admin admin, String sharedId, Supplier<Set<String>> present) {
    this.admin = admin;
    this.sharedId = sharedId;
    this.present = present;
  }

  public synchronized void end() {
    record Found(String id, String driver, boolean isOpen) {}
    List<Found> all =
        OpenTransactions.list(admin, TransactionalId.brokerPatternOfShared(sharedId), Set.of())
            .stream()
            .flatMap(
                listed ->
                    TransactionalId.driverOf(listed.transactionalId(), sharedId).stream()
                        .map(
                            driver ->
                                new Found(
                                    listed.transactionalId(),
                                    driver,
                                    listed.state() == TransactionState.ONGOING)))
            .toList();
    if (all.isEmpty()) {
      return;
    }
    Set<String> drivers = present.get();
    ended.removeAll(drivers);
    List<Found> gone =
        all.stream()
            .filter(found -> !drivers.contains(found.driver()))
            .filter(found -> found.isOpen() || !ended.contains(found.driver()))
            .toList();
    OpenTransactions.fence(admin, gone.stream().map(Found::id).toList());
    gone.forEach(found -> ended.add(found.driver()));
  }
}
