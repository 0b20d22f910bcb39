package io.eoskafka.source;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

class RateLimitTest {
  private static final TopicPartition A = new TopicPartition("t", 0);
  private static final TopicPartition B = new TopicPartition("t", 1);
  private static final TopicPartition C = new TopicPartition("u", 0);

  @Test
  void theLimitIsSharedByBacklog() {
    assertThat(RateLimit.apply(8, Map.of(A, 0L, B, 10L), Map.of(A, 30L, B, 20L)))
        .isEqualTo(Map.of(A, 6L, B, 12L));
  }

  @Test
  void aLimitAboveTheBacklogReadsAll() {
    Map<TopicPartition, Long> until = Map.of(A, 30L, B, 20L);
    assertThat(RateLimit.apply(1_000, Map.of(A, 0L, B, 10L), until)).isEqualTo(until);
    assertThat(RateLimit.apply(Long.MAX_VALUE, Map.of(A, 0L, B, 10L), until)).isEqualTo(until);
  }

  @Test
  void aBacklogOfTheWholeOffsetRangeDoesNotOverflow() {
    assertThat(RateLimit.apply(10, Map.of(A, 0L), Map.of(A, Long.MAX_VALUE))).containsEntry(A, 10L);
  }

  @Test
  void everyPartitionWithABacklogMoves() {
    Map<TopicPartition, Long> ends =
        RateLimit.apply(2, Map.of(A, 0L, B, 5L, C, 7L), Map.of(A, 1_000_000L, B, 6L, C, 7L));
    assertThat(ends).containsEntry(B, 6L).containsEntry(C, 7L);
    assertThat(ends.get(A)).isBetween(1L, 2L);
  }

  @Test
  void aPartitionThatIsBehindItsStartStaysWhereItIs() {
    assertThat(RateLimit.apply(5, Map.of(A, 10L), Map.of(A, 8L))).containsEntry(A, 8L);
  }

  @Test
  void whateverTheBacklogsAreNoRangeIsSkippedOrReversed() {
    long seed = System.nanoTime();
    Random random = new Random(seed);
    for (int round = 0; round < 1_000; round++) {
      Map<TopicPartition, Long> from = new HashMap<>();
      Map<TopicPartition, Long> until = new HashMap<>();
      int partitions = 1 + random.nextInt(20);
      for (int p = 0; p < partitions; p++) {
        long start = random.nextInt(1_000);
        from.put(new TopicPartition("t", p), start);
        until.put(new TopicPartition("t", p), start + random.nextInt(random.nextInt(500) + 1));
      }
      long limit = 1 + random.nextInt(2_000);
      Map<TopicPartition, Long> ends = RateLimit.apply(limit, from, until);
      assertThat(ends.keySet()).as("seed %d", seed).isEqualTo(until.keySet());
      long total = 0;
      for (TopicPartition p : until.keySet()) {
        assertThat(ends.get(p)).as("seed %d", seed).isBetween(from.get(p), until.get(p));
        if (from.get(p) < until.get(p)) {
          assertThat(ends.get(p)).as("seed %d", seed).isGreaterThan(from.get(p));
        }
        total += ends.get(p) - from.get(p);
      }
      assertThat(total).as("seed %d", seed).isLessThanOrEqualTo(limit + partitions);
    }
  }
}
