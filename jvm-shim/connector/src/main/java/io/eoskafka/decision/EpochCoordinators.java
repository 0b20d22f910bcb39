package io.eoskafka.decision;

import io.eoskafka.transaction.TransactionRef;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.LongPredicate;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.common.KafkaFuture;

/** What a session asks of the transaction coordinators. */
interface EpochCoordinators {
  /** See {@link io.eoskafka.transaction.OpenTransactions#endWriters}. */
  void endWriters(String ownerId, LongPredicate runs, boolean onlyOpen, Set<String> except);

  /** See {@link io.eoskafka.transaction.OpenTransactions#highestRun}. */
  long highestRun(String ownerId);

  /** See {@link io.eoskafka.transaction.TransactionEnds#commit}. */
  Set<TransactionRef> commit(
      Collection<TransactionRef> prepared, Map<TransactionRef, Integer> openAt, Duration timeout);

  /** What the coordinators say of these transactional ids; all are asked at once. */
  Map<String, KafkaFuture<TransactionDescription>> describe(List<String> transactionalIds);

  /** Does something with clients of its own that wait for a short time only. */
  void whileClosing(Consumer<EpochCoordinators> work);

  /** Closes without waiting. */
  void close();
}
