package io.eoskafka.transaction;

import io.eoskafka.identity.Fence;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;

/** The one place that builds a {@link ConsumerGroupMetadata}: its constructor is to be removed. */
public final class GroupMetadata {
  private GroupMetadata() {}

  @SuppressWarnings({"deprecation", "removal"})
  public static ConsumerGroupMetadata of(Fence fence) {
    return new ConsumerGroupMetadata(
        fence.group(),
        fence.generation(),
        fence.memberId(),
        Optional.ofNullable(fence.instanceId()));
  }
}
