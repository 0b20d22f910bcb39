package io.eoskafka.task;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.group.GroupInspector;
import io.eoskafka.identity.Fence;
import io.eoskafka.transaction.ExecutorClients;
import io.eoskafka.transaction.TransactionalProducer;
import java.util.Map;
import java.util.Optional;
import java.util.function.Consumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;

/**
 * The fence of a driver that is the only member of its group. It polls between batches only, so the
 * fence of a batch stays the same until the batch ends.
 */
record DriverFence(TaskScope scope) implements FenceSource {
  @Override
  public boolean isOwned() {
    return true;
  }

  @Override
  public void requireMember() {
    // A former driver's task must not fence the task of the new driver that has the same id.
    if (!members().holds(scope.fence())) {
      throw TransactionalProducer.fencedByGroup(scope.fence(), members(), null);
    }
  }

  private GroupInspector members() {
    return new GroupInspector(ExecutorClients.admin(scope.source()), scope.identity().group());
  }

  @Override
  public Optional<Fence> fence() {
    return Optional.of(scope.fence());
  }

  @Override
  public boolean commitRefused(
      TransactionalProducer producer,
      Map<TopicPartition, OffsetAndMetadata> offsets,
      Fence refused,
      EosKafkaException refusal,
      Consumer<Node> confirm) {
    throw refusal;
  }

  @Override
  public boolean isLost(EosKafkaException e) {
    return false;
  }

  @Override
  public void ended() {}
}
