package io.eoskafka.task;

import io.eoskafka.group.GroupOffsets;
import io.eoskafka.transaction.ExecutorClients;
import io.eoskafka.transaction.TransactionalProducer;
import java.time.Duration;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;

/**
 * Waits until the group has taken over what an attempt's transaction has done with its offsets.
 *
 * <p>Brokers up to Kafka 3.9.0 answer the end of a transaction before that, and know pending
 * offsets by the producer id alone (KAFKA-17507). They would treat offsets that the same
 * transactional id sends meanwhile as those of the former transaction: as committed, although
 * theirs is aborted later, or as aborted. So an attempt reports, and goes on with another
 * transaction, only after this. One that dies before is followed by an attempt of the same
 * partitions, or by a start, and each of these waits until no offsets of its partitions are
 * pending.
 */
final class EndedOffsets {
  /** Of one try; between tries another broker may be asked. */
  private static final Duration TRY = Duration.ofSeconds(5);

  private static final Duration TIMEOUT = Duration.ofSeconds(60);

  private EndedOffsets() {}

  /**
   * @param producer of the transaction; null if there was none
   * @param least by topic-partition, what the group has after a commit, or had before an abort; a
   *     former coordinator that is cut off may have less. Empty if no offsets were sent
   * @throws io.eoskafka.config.EosKafkaException {@code EOSKAFKA_OFFSETS_UNSTABLE}
   */
  static void await(
      TransactionalProducer producer, TaskScope scope, Map<TopicPartition, Long> least) {
    if (least.isEmpty() || !producer.mayLeaveOffsetsPending()) {
      return;
    }
    String group = scope.identity().group();
    long deadline = System.nanoTime() + TIMEOUT.toNanos();
    while (true) {
      try {
        new GroupOffsets(ExecutorClients.admin(scope.source()), group).await(least, TRY);
        return;
      } catch (TimeoutException e) {
        ExecutorClients.forget(scope.source());
        if (System.nanoTime() > deadline) {
          throw GroupOffsets.stillUnstable(group, TIMEOUT, e);
        }
      }
    }
  }
}
