package io.eoskafka.task;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.faults.FaultPoint;
import io.eoskafka.identity.Fence;
import io.eoskafka.transaction.ExecutorClients;
import io.eoskafka.transaction.TransactionEnds;
import io.eoskafka.transaction.TransactionalProducer;
import io.eoskafka.wire.KafkaCalls;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;

/**
 * The fence of a driver that shares its group, requested for each commit: the generation may change
 * at any time, and partitions may move to another driver.
 */
final class LeasedFence implements FenceSource {
  /** The driver learns of a new generation as soon as all members have joined it. */
  private static final Duration NEXT_FENCE = Duration.ofSeconds(5);

  /** A member learns of its loss with a heartbeat; with KIP-848 it sends one every five seconds. */
  private static final Duration LOSS_HEARD = Duration.ofSeconds(15);

  private static final long RETRY_MS = 10;

  /** The driver's answers about the attempt's slots, through {@link FenceLeases}. */
  interface Driver {
    boolean isOwned();

    boolean hasMoved();

    Optional<Fence> lease();

    void ended();
  }

  private final TaskScope scope;
  private final Driver driver;
  private final Duration nextFence;
  private final Duration lossHeard;

  LeasedFence(TaskScope scope, Driver driver, Duration nextFence, Duration lossHeard) {
    this.scope = scope;
    this.driver = driver;
    this.nextFence = nextFence;
    this.lossHeard = lossHeard;
  }

  static LeasedFence of(TaskScope scope, String transactionalId, Supplier<List<Integer>> slots) {
    Driver driver =
        new Driver() {
          @Override
          public boolean isOwned() {
            return FenceLeases.isOwned(scope, slots.get());
          }

          @Override
          public boolean hasMoved() {
            return FenceLeases.hasMoved(scope, slots.get());
          }

          @Override
          public Optional<Fence> lease() {
            return FenceLeases.lease(scope, slots.get(), transactionalId);
          }

          @Override
          public void ended() {
            FenceLeases.ended(scope, slots.get());
          }
        };
    return new LeasedFence(scope, driver, NEXT_FENCE, LOSS_HEARD);
  }

  @Override
  public boolean isOwned() {
    return driver.isOwned();
  }

  /** Nothing to check here: a driver that has lost the partitions refuses the lease. */
  @Override
  public void requireMember() {}

  @Override
  public Optional<Fence> fence() {
    return driver.lease();
  }

  @Override
  public boolean commitRefused(
      TransactionalProducer producer,
      Map<TopicPartition, OffsetAndMetadata> offsets,
      Fence refused,
      EosKafkaException refusal,
      Consumer<Node> confirm) {
    if (!isMoving(refusal.getCause())) {
      throw refusal;
    }
    return commitWithNextFence(producer, offsets, refused, confirm);
  }

  /** Whether the group has a new generation since the driver was asked. */
  private boolean isMoving(Throwable refusal) {
    return refusal instanceof CommitFailedException
        || refusal instanceof FencedInstanceIdException && !driver.isOwned();
  }

  /**
   * The group has a new generation that the driver did not know of when it gave the fence. If the
   * driver keeps the partitions, the transaction can still be committed: its offsets are sent with
   * the fence of that generation. They and the commit bypass the producer, which could only abort
   * now.
   *
   * @return false if the partitions have moved, or there is no other fence in time
   */
  private boolean commitWithNextFence(
      TransactionalProducer producer,
      Map<TopicPartition, OffsetAndMetadata> offsets,
      Fence refused,
      Consumer<Node> confirm) {
    FaultPoint.AFTER_REFUSAL.reach();
    long deadline = System.nanoTime() + nextFence.toNanos();
    while (System.nanoTime() < deadline) {
      Optional<Fence> fence = driver.lease();
      if (fence.isEmpty()) {
        return false;
      }
      if (fence.get().equals(refused)) {
        KafkaCalls.sleep(RETRY_MS);
        continue;
      }
      Optional<Node> accepted =
          producer.addOffsetsViaCoordinator(
              offsets, fence.get(), ExecutorClients.coordinators(scope.sink()));
      if (accepted.isPresent()) {
        confirm.accept(accepted.get());
        FaultPoint.AFTER_OFFSETS.reach();
        try (TransactionEnds ends =
            new TransactionEnds(ExecutorClients.admin(scope.sink()), scope.sink(), List.of())) {
          producer.commitViaCoordinator(ends);
        }
        return true;
      }
      refused = fence.get();
    }
    return false;
  }

  /**
   * Whether the producer was fenced because partitions have moved, which is normal in a shared
   * group: their new owner ends this driver's open transactions, possibly before this driver learns
   * of the loss. Nothing of the attempt is visible, so it counts as one that got no fence. If the
   * driver keeps the partitions, another attempt has fenced it or its transaction has timed out:
   * then it has failed.
   */
  @Override
  public boolean isLost(EosKafkaException e) {
    if (!FenceSource.mayHaveEnded(e)) {
      return false;
    }
    long deadline = System.nanoTime() + lossHeard.toNanos();
    while (!driver.hasMoved()) {
      if (System.nanoTime() > deadline) {
        return false;
      }
      KafkaCalls.sleep(RETRY_MS);
    }
    return true;
  }

  @Override
  public void ended() {
    driver.ended();
  }
}
