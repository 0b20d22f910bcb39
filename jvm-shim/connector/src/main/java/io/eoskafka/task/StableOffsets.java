package io.eoskafka.task;

import io.eoskafka.group.GroupOffsets;
import io.eoskafka.transaction.ExecutorClients;
import io.eoskafka.transaction.TransactionalProducer;
import io.eoskafka.wire.KafkaCalls;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Waits, for an attempt, until no open transaction has pending offsets in its group. Each try gets
 * the executor's client again, because another task may have replaced it.
 */
final class StableOffsets {
  private static final Logger LOG = LoggerFactory.getLogger(StableOffsets.class);

  /** Transaction markers arrive within a second, or later if a broker restarts. */
  private static final Duration TIMEOUT = Duration.ofSeconds(60);

  private static final Duration TRY = Duration.ofSeconds(5);

  private static final long RETRY_MS = 20;

  private final TaskScope scope;

  StableOffsets(TaskScope scope) {
    this.scope = scope;
  }

  private GroupOffsets group() {
    return new GroupOffsets(ExecutorClients.admin(scope.source()), scope.identity().group());
  }

  /**
   * The stable offsets of these partitions.
   *
   * @throws io.eoskafka.config.EosKafkaException {@code EOSKAFKA_OFFSETS_UNSTABLE}
   */
  Map<TopicPartition, OffsetAndMetadata> fetch(Collection<TopicPartition> partitions) {
    long deadline = System.nanoTime() + TIMEOUT.toNanos();
    while (true) {
      try {
        return group().stable(partitions, TRY);
      } catch (TimeoutException e) {
        if (System.nanoTime() > deadline) {
          throw GroupOffsets.stillUnstable(scope.identity().group(), TIMEOUT, e);
        }
      }
    }
  }

  /**
   * Waits until the group has the offsets of a committed transaction.
   *
   * <p>Brokers up to Kafka 3.9.0 answer the end of a transaction before that, and track pending
   * offsets by producer id alone (KAFKA-17507). They would mistake offsets that the same
   * transactional id sends in the meantime for those of the former transaction: as committed,
   * although their own transaction is aborted later, or as aborted. So an attempt reports, or
   * begins another transaction, only after this wait. If it dies before that, the next attempt on
   * the same partitions, or the next start, waits until no offsets of its partitions are pending.
   *
   * @param producer of the transaction
   * @param committed by topic-partition
   * @throws io.eoskafka.config.EosKafkaException {@code EOSKAFKA_OFFSETS_UNSTABLE}
   */
  void awaitCommitted(TransactionalProducer producer, Map<TopicPartition, Long> committed) {
    if (producer.mayLeaveOffsetsPending() && !arrive(committed)) {
      throw GroupOffsets.stillUnstable(scope.identity().group(), TIMEOUT, null);
    }
  }

  /**
   * The same after an abort, for an attempt that is not retried because its partitions have moved
   * to another driver. Transactions of that driver may keep the offsets pending; then this gives up
   * with a warning.
   *
   * @param producer of the transaction; null if there was none
   * @param sentFrom where the group was before, by topic-partition; empty if no offsets were sent
   */
  void awaitAborted(TransactionalProducer producer, Map<TopicPartition, Long> sentFrom) {
    if (!sentFrom.isEmpty() && producer.mayLeaveOffsetsPending() && !arrive(sentFrom)) {
      LOG.warn(
          "Offsets of group {} are still pending: {}", scope.identity().group(), sentFrom.keySet());
    }
  }

  /**
   * Whether each of these partitions had, at some time, this offset or a later one as its stable
   * offset.
   */
  private boolean arrive(Map<TopicPartition, Long> least) {
    long began = System.nanoTime();
    boolean isForgotten = false;
    Map<TopicPartition, Long> left = new HashMap<>(least);
    while (true) {
      left.keySet().retainAll(group().behind(left, scope.skipsDeleted()));
      if (left.isEmpty()) {
        return true;
      }
      long waited = System.nanoTime() - began;
      if (waited > TIMEOUT.toNanos()) {
        return false;
      }
      if (waited > TRY.toNanos() && !isForgotten) {
        // A former coordinator may have answered, with older offsets.
        ExecutorClients.forget(scope.source());
        isForgotten = true;
      }
      KafkaCalls.sleep(RETRY_MS);
    }
  }
}
