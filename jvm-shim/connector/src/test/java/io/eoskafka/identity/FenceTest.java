package io.eoskafka.identity;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.eoskafka.group.ExclusiveMembership;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

class FenceTest {
  @Test
  void aFenceThatTheBrokerWouldNotCheckCannotBeMade() {
    assertThatThrownBy(() -> new Fence("g", -1, "m", "i"))
        .isInstanceOf(IllegalArgumentException.class);
    assertThatThrownBy(() -> new Fence("g", 0, "", "i"))
        .isInstanceOf(IllegalArgumentException.class);
    assertThatThrownBy(() -> new Fence("g", 0, null, "i"))
        .isInstanceOf(IllegalArgumentException.class);
  }

  @Test
  void offsetsOfManyPartitionsAreSplitIntoCommitsThatFit() {
    Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
    for (int i = 0; i < 2 * ExclusiveMembership.PARTITIONS_PER_COMMIT + 1; i++) {
      offsets.put(new TopicPartition("t", i), new OffsetAndMetadata(i));
    }
    List<Map<TopicPartition, OffsetAndMetadata>> parts = ExclusiveMembership.parts(offsets);
    assertThat(parts).hasSize(3);
    assertThat(parts).allMatch(part -> part.size() <= ExclusiveMembership.PARTITIONS_PER_COMMIT);
    Map<TopicPartition, OffsetAndMetadata> together = new HashMap<>();
    parts.forEach(together::putAll);
    assertThat(together).isEqualTo(offsets);
    assertThat(ExclusiveMembership.parts(Map.of())).isEmpty();
  }
}
