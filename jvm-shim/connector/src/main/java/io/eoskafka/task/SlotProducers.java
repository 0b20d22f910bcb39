package io.eoskafka.task;

import io.eoskafka.transaction.ExecutorClients;
import io.eoskafka.transaction.TransactionalId;
import io.eoskafka.transaction.TransactionalProducer;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.TaskContext;

/**
 * The producers of this JVM's slots that rest between two batches, with what each has committed. An
 * attempt that follows its own slot's last commit, by the driver's word, continues with its
 * producer, and needs neither {@code initTransactions} nor a stable fetch.
 */
public final class SlotProducers {
  /** Names this JVM for the driver; executor ids repeat across runs of a query. */
  static final String JVM = java.util.UUID.randomUUID().toString();

  private static final IdlePool<Idle> POOL = new IdlePool<>(idle -> idle.producer.close());

  /**
   * A producer that no attempt has.
   *
   * @param committed by topic-partition, what the group has as far as the producer's attempts know
   * @param unconfirmed of these, the starts that {@link StartConfirmation} has still to ask about
   */
  record Idle(
      TransactionalProducer producer,
      Map<TopicPartition, OffsetAndMetadata> committed,
      Map<TopicPartition, Long> unconfirmed) {}

  private SlotProducers() {}

  /**
   * The producer with which this attempt may continue. Any other one of this id is closed: it is
   * compared after it was taken, since another attempt may have used it in between.
   */
  static Optional<Idle> take(String transactionalId, TaskScope scope, SlotWork work) {
    Idle idle = POOL.take(transactionalId);
    if (idle == null) {
      return Optional.empty();
    }
    if (TaskContext.get().attemptNumber() == 0
        && TaskContext.get().stageAttemptNumber() == 0
        && JVM.equals(work.owner())
        && idle.producer.hasSettings(scope.sink(), scope.transactionTimeoutMs())
        && follows(idle.committed, work)) {
      return Optional.of(idle);
    }
    idle.producer.close();
    return Optional.empty();
  }

  /** Whether a slot is planned to start just where these commits have ended. */
  static boolean follows(Map<TopicPartition, OffsetAndMetadata> committed, SlotWork work) {
    return work.ranges().stream()
        .allMatch(
            r -> {
              OffsetAndMetadata offset = committed.get(r.topicPartition());
              return offset != null && offset.offset() == r.groupStart();
            });
  }

  /** For the next batch, after a commit. */
  static void rest(
      String transactionalId,
      TransactionalProducer producer,
      Map<TopicPartition, OffsetAndMetadata> committed,
      Map<TopicPartition, Long> unconfirmed) {
    POOL.put(transactionalId, new Idle(producer, committed, unconfirmed));
  }

  /** Closes resting clients, at the executor's end. */
  public static void closeResting() {
    POOL.closeIf(id -> true);
    ExecutorClients.closeAll();
  }

  /**
   * Closes the producers that rest in this JVM for a query that has stopped: each keeps the buffers
   * that it has used. Those of executors in other JVMs rest until nobody has taken them for long.
   *
   * @param producers the query's identity, as transactional ids have it
   */
  public static void closeResting(String producers) {
    POOL.closeIf(id -> TransactionalId.isOf(id, producers));
  }
}
