package io.eoskafka.task;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** When an attempt may continue with an idle producer, without asking the group. */
class SlotProducersTest {
  private static SlotRange from(int partition, long groupStart) {
    return new SlotRange("t", partition, groupStart, groupStart, 100, "id");
  }

  @ParameterizedTest(name = "planned from {0} and {1}: {2}")
  @CsvSource({"5, 7, true", "5, 8, false", "4, 7, false", "6, 7, false"})
  void everyPartitionMustStartWhereTheProducersCommitsHaveEnded(
      long first, long second, boolean follows) {
    Map<TopicPartition, OffsetAndMetadata> committed =
        Map.of(
            new TopicPartition("t", 0),
            new OffsetAndMetadata(5),
            new TopicPartition("t", 1),
            new OffsetAndMetadata(7));
    SlotWork work = new SlotWork(3, List.of(from(0, first), from(1, second)), null);
    assertThat(SlotProducers.follows(committed, work)).isEqualTo(follows);
  }

  @Test
  void aPartitionThatTheProducerHasNotHadIsFetched() {
    Map<TopicPartition, OffsetAndMetadata> committed = new HashMap<>();
    SlotWork work = new SlotWork(3, List.of(from(0, 0)), null);
    assertThat(SlotProducers.follows(committed, work)).isFalse();
    committed.put(new TopicPartition("t", 0), new OffsetAndMetadata(0));
    // More may be known than is planned.
    committed.put(new TopicPartition("t", 1), new OffsetAndMetadata(7));
    assertThat(SlotProducers.follows(committed, work)).isTrue();
  }
}
