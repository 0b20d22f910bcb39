package io.eoskafka.source;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

class ComparedOffsetsTest {
  private static final TopicPartition ONE = new TopicPartition("t", 0);
  private static final TopicPartition OTHER = new TopicPartition("t", 1);

  private final ComparedOffsets compared = new ComparedOffsets();

  private static OffsetAndMetadata at(long offset, int leaderEpoch) {
    return new OffsetAndMetadata(offset, Optional.of(leaderEpoch), "");
  }

  @Test
  void anOffsetIsComparedOnceWhileItsPartitionIsBehind() {
    assertThat(compared.take(Map.of(ONE, at(5, 1)))).containsOnlyKeys(ONE);
    assertThat(compared.take(Map.of(ONE, at(5, 1), OTHER, at(5, 1)))).containsOnlyKeys(OTHER);
    assertThat(compared.take(Map.of(ONE, at(5, 1), OTHER, at(5, 1)))).isEmpty();
  }

  @Test
  void anotherOffsetOrLeaderEpochIsCompared() {
    compared.take(Map.of(ONE, at(5, 1), OTHER, at(5, 1)));
    assertThat(compared.take(Map.of(ONE, at(6, 1), OTHER, at(5, 2))))
        .isEqualTo(Map.of(ONE, at(6, 1), OTHER, at(5, 2)));
  }

  @Test
  void aPartitionThatIsBehindAgainIsComparedAgain() {
    compared.take(Map.of(ONE, at(5, 1)));
    assertThat(compared.take(Map.of())).isEmpty();
    assertThat(compared.take(Map.of(ONE, at(5, 1)))).containsOnlyKeys(ONE);
  }
}
