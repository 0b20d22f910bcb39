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
 * The producers of this JVM's slots that are idle between two batches, with what each has
 * committed. If the driver has planned an attempt to start at its own slot's last commit, the
 * attempt continues with that producer, and needs neither {@code initTransactions} nor a stable
 * fetch.
 */
public final class SlotProducers {
  /** Identifies this JVM to the driver; executor ids repeat across runs of a query. */
  static final String JVM = java.util.UUID.randomUUID().toString();

  private static final IdlePool<Idle> POOL = new IdlePool<>(idle -> idle.producer.close());

  /**
   * A producer that no attempt is using.
   *
   * @param committed by topic-partition, what the group has as far as the producer's attempts know
   * @param unconfirmed of these, the starts that {@link StartConfirmation} has yet to confirm
   */
  record Idle(
      TransactionalProducer producer,
      Map<TopicPartition, OffsetAndMetadata> committed,
      Map<TopicPartition, Long> unconfirmed) {}

  private SlotProducers() {}

  /**
   * The producer with which this attempt may continue. A producer of this id that does not fit is
   * closed. It is checked after it has been taken, because another attempt may have used it before.
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

  /** Whether a slot is planned to start exactly at these committed offsets. */
  static boolean follows(Map<TopicPartition, OffsetAndMetadata> committed, SlotWork work) {
    return work.ranges().stream()
        .allMatch(
            r -> {
              OffsetAndMetadata offset = committed.get(r.topicPartition());
              return offset != null && offset.offset() == r.groupStart();
            });
  }

  /** Keeps a producer for the next batch, after a commit. */
  static void rest(
      String transactionalId,
      TransactionalProducer producer,
      Map<TopicPartition, OffsetAndMetadata> committed,
      Map<TopicPartition, Long> unconfirmed) {
    POOL.put(transactionalId, new Idle(producer, committed, unconfirmed));
  }

  /** Closes idle clients when the executor shuts down. */
  public static void closeResting() {
    POOL.closeIf(id -> true);
    ExecutorClients.closeAll();
  }

  /**
   * Closes this JVM's idle producers of a query that has stopped: each of them holds the buffers
   * that it has used. Producers of executors in other JVMs are closed when they have been idle for
   * too long.
   *
   * @param producers the query's identity, as in its transactional ids
   */
  public static void closeResting(String producers) {
    POOL.closeIf(id -> TransactionalId.isOf(id, producers));
  }
}
