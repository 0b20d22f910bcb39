package io.eoskafka.task;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.identity.Fence;
import io.eoskafka.transaction.TransactionalProducer;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;

/**
 * Where an attempt gets the fence for its offsets, and what this tells about the ownership of its
 * driver's partitions.
 */
interface FenceSource {
  /**
   * @param slots the numbers of the slots that the attempt's readers have entered so far
   */
  static FenceSource of(TaskScope scope, String transactionalId, Supplier<List<Integer>> slots) {
    return scope.identity().isShared()
        ? LeasedFence.of(scope, transactionalId, slots)
        : new DriverFence(scope);
  }

  /**
   * Whether an error may mean that another process has ended the attempt's transaction: its
   * producer was fenced, or its offsets are no longer pending. Then nothing of the attempt is
   * visible.
   */
  static boolean mayHaveEnded(EosKafkaException e) {
    return e.condition().equals("EOSKAFKA_ATTEMPT_FENCED")
        || e.condition().equals("EOSKAFKA_START_NOT_CONFIRMED");
  }

  /** Whether the driver still owns the partitions. If not, the attempt does nothing. */
  boolean isOwned();

  /**
   * Called before {@code initTransactions}.
   *
   * @throws EosKafkaException {@code EOSKAFKA_FENCED_BY_GROUP} for a task of a former driver
   */
  void requireMember();

  /** The fence for one commit; empty if the driver no longer owns the partitions. */
  Optional<Fence> fence();

  /**
   * The group has refused a producer's offsets. The producer itself can only abort now, but its
   * open transaction can still be committed by requests that bypass it.
   *
   * @param refused the fence that the offsets carried
   * @param confirm called with the coordinator that has accepted the offsets, before the
   *     transaction ends
   * @return whether the transaction was committed; if not, the partitions have moved
   * @throws EosKafkaException the refusal, if the attempt has failed
   */
  boolean commitRefused(
      TransactionalProducer producer,
      Map<TopicPartition, OffsetAndMetadata> offsets,
      Fence refused,
      EosKafkaException refusal,
      Consumer<Node> confirm);

  /** Whether the attempt's producer was fenced because its partitions have moved. */
  boolean isLost(EosKafkaException e);

  /** The attempt no longer has an open transaction. */
  void ended();
}
