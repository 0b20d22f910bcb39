package io.eoskafka.source;

import static org.assertj.core.api.Assertions.assertThat;

import io.eoskafka.config.SourceOptions;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.streaming.CompositeReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.Test;

class RateLimitTest {
  private static final ReadLimit FIVE_OF_EACH = new RateLimit.PerPartition(5);
  private static final TopicPartition A = new TopicPartition("t", 0);
  private static final TopicPartition B = new TopicPartition("t", 1);
  private static final TopicPartition C = new TopicPartition("u", 0);

  @Test
  void theLimitIsSharedByBacklog() {
    assertThat(RateLimit.share(8, Map.of(A, 0L, B, 10L), Map.of(A, 30L, B, 20L)))
        .isEqualTo(Map.of(A, 6L, B, 12L));
  }

  @Test
  void aLimitAboveTheBacklogReadsAll() {
    Map<TopicPartition, Long> until = Map.of(A, 30L, B, 20L);
    assertThat(RateLimit.share(1_000, Map.of(A, 0L, B, 10L), until)).isEqualTo(until);
    assertThat(RateLimit.share(Long.MAX_VALUE, Map.of(A, 0L, B, 10L), until)).isEqualTo(until);
  }

  @Test
  void aBacklogOfTheWholeOffsetRangeDoesNotOverflow() {
    assertThat(RateLimit.share(10, Map.of(A, 0L), Map.of(A, Long.MAX_VALUE))).containsEntry(A, 10L);
  }

  @Test
  void everyPartitionWithABacklogMoves() {
    Map<TopicPartition, Long> ends =
        RateLimit.share(2, Map.of(A, 0L, B, 5L, C, 7L), Map.of(A, 1_000_000L, B, 6L, C, 7L));
    assertThat(ends).containsEntry(B, 6L).containsEntry(C, 7L);
    assertThat(ends.get(A)).isBetween(1L, 2L);
  }

  @Test
  void aPartitionThatIsBehindItsStartStaysWhereItIs() {
    assertThat(RateLimit.share(5, Map.of(A, 10L), Map.of(A, 8L))).containsEntry(A, 8L);
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
      Map<TopicPartition, Long> ends = RateLimit.share(limit, from, until);
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

  @Test
  void ofEachPartitionNoMoreIsReadThanItsLimit() {
    assertThat(
            RateLimit.apply(
                List.of(FIVE_OF_EACH), Map.of(A, 0L, B, 10L, C, 7L), Map.of(A, 30L, B, 15L, C, 9L)))
        .isEqualTo(Map.of(A, 5L, B, 15L, C, 9L));
  }

  @Test
  void aLimitOfEachPartitionNeverMovesOneThatIsBehindItsStartOrHasNone() {
    assertThat(RateLimit.apply(List.of(FIVE_OF_EACH), Map.of(A, 10L), Map.of(A, 8L, B, 20L)))
        .isEqualTo(Map.of(A, 8L, B, 20L));
  }

  @Test
  void theGreatestLimitOfEachPartitionDoesNotOverflow() {
    assertThat(
            RateLimit.apply(
                List.of(new RateLimit.PerPartition(Long.MAX_VALUE)),
                Map.of(A, 10L),
                Map.of(A, 30L)))
        .isEqualTo(Map.of(A, 30L));
  }

  @Test
  void theTotalIsSharedByWhatEachPartitionMayRead() {
    // By their backlogs, A would have all but one offset.
    for (List<ReadLimit> limits :
        List.of(
            List.of(FIVE_OF_EACH, ReadLimit.maxRows(6)),
            List.of(ReadLimit.maxRows(6), FIVE_OF_EACH))) {
      assertThat(RateLimit.apply(limits, Map.of(A, 0L, B, 0L), Map.of(A, 1_000L, B, 5L)))
          .isEqualTo(Map.of(A, 3L, B, 3L));
    }
  }

  @Test
  void otherLimitsOfSparkDoNotMoveTheEnds() {
    Map<TopicPartition, Long> until = Map.of(A, 30L);
    assertThat(
            RateLimit.apply(
                List.of(ReadLimit.allAvailable(), ReadLimit.minRows(2, 5)), Map.of(A, 0L), until))
        .isEqualTo(until);
  }

  @Test
  void sparkIsGivenAllLimitsOfTheOptions() {
    assertThat(RateLimit.readLimit(limits(Map.of()))).isEqualTo(ReadLimit.allAvailable());
    assertThat(RateLimit.readLimit(limits(Map.of("maxOffsetsPerPartition", "5"))))
        .isEqualTo(FIVE_OF_EACH);
    ReadLimit all =
        RateLimit.readLimit(
            limits(
                Map.of(
                    "minOffsetsPerTrigger", "2",
                    "maxTriggerDelay", "3s",
                    "maxOffsetsPerPartition", "5",
                    "maxOffsetsPerTrigger", "6")));
    assertThat(((CompositeReadLimit) all).getReadLimits())
        .containsExactly(ReadLimit.minRows(2, 3_000), FIVE_OF_EACH, ReadLimit.maxRows(6));
  }

  private static SourceOptions.BatchLimits limits(Map<String, String> options) {
    Map<String, String> given = new HashMap<>(options);
    given.put("kafka.bootstrap.servers", "broker:9092");
    given.put("subscribe", "t");
    return SourceOptions.parse(new CaseInsensitiveStringMap(given)).limits();
  }
}
