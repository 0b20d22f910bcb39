package io.eoskafka.source;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

class OffsetLagTest {
  private static final TopicPartition A = new TopicPartition("t", 0);
  private static final TopicPartition B = new TopicPartition("t", 1);
  private static final TopicPartition C = new TopicPartition("t", 2);

  @Test
  void theLagIsOverThePartitionsThatWereRead() {
    assertThat(OffsetLag.metrics(Map.of(A, 10L, B, 20L, C, 5L), Map.of(A, 4L, B, 17L)))
        .isEqualTo(
            Map.of(
                "minOffsetsBehindLatest", "3",
                "maxOffsetsBehindLatest", "6",
                "avgOffsetsBehindLatest", "4.5"));
  }

  @Test
  void whatWasReadSinceTheLastLookIsNoNegativeLag() {
    assertThat(OffsetLag.metrics(Map.of(A, 10L), Map.of(A, 12L)))
        .containsEntry("minOffsetsBehindLatest", "0");
  }

  @Test
  void withoutAPartitionThatWasReadThereIsNoLag() {
    assertThat(OffsetLag.metrics(Map.of(A, 10L), Map.of(B, 1L))).isEmpty();
  }
}
