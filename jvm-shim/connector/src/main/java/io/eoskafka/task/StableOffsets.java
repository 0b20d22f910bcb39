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
 * An attempt's waits until no transaction is open over offsets of its group. Each try asks for the
 * executor's client anew: another task may have had it replaced meanwhile.
 */
final class StableOffsets {
  private static final Logger LOG = LoggerFactory.getLogger(StableOffsets.class);

  /** Markers of a transaction arrive within a second; a broker that restarts may need more. */
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
   * Waits until the group has taken over the offsets of a transaction that was committed.
   *
   * <p>Brokers up to Kafka 3.9.0 answer the end of a transaction before that, and know pending
   * offsets by the producer id alone (KAFKA-17507). They would treat offsets that the same
   * transactional id sends meanwhile as those of the former transaction: as committed, although
   * theirs is aborted later, or as aborted. So an attempt reports, and goes on with another
   * transaction, only after this. One that dies before is followed by an attempt of the same
   * partitions, or by a start, and each of these waits until no offsets of its partitions are
   * pending.
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
   * The same after an abort, for an attempt that is not repeated since its partitions have moved to
   * another driver. That one's own transactions may make it wait; then it gives up.
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

  /** Whether each of these partitions was stable at some time, with this offset or a later one. */
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
        // A former coordinator may have answered: it has less.
        ExecutorClients.forget(scope.source());
        isForgotten = true;
      }
      KafkaCalls.sleep(RETRY_MS);
    }
  }
}
