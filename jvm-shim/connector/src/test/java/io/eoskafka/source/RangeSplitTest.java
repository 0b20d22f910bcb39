package io.eoskafka.source;

import static org.assertj.core.api.Assertions.assertThat;

import io.eoskafka.config.SourceOptions.Split;
import io.eoskafka.task.SlotRange;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

class RangeSplitTest {
  private static SlotRange range(int partition, long start, long end) {
    return new SlotRange("t", partition, start, start, end, "id");
  }

  private static List<String> cut(int minPartitions, long maxRecords, SlotRange... ranges) {
    return RangeSplit.cut(List.of(ranges), new Split(minPartitions, maxRecords)).stream()
        .map(piece -> piece.partition() + ":" + piece.epochStart() + "-" + piece.end())
        .toList();
  }

  @Test
  void nothingIsCutWithoutASplitOrWhereRangesAreEnough() {
    assertThat(cut(0, 0, range(0, 5, 105), range(1, 0, 3))).containsExactly("0:5-105", "1:0-3");
    assertThat(cut(2, 100, range(0, 5, 105), range(1, 0, 3))).containsExactly("0:5-105", "1:0-3");
    assertThat(cut(4, 4)).isEmpty();
  }

  @Test
  void theLargestPiecesAreCutFirst() {
    assertThat(cut(4, 0, range(0, 0, 100), range(1, 0, 10)))
        .containsExactly("0:0-34", "0:34-67", "0:67-100", "1:0-10");
    assertThat(cut(4, 0, range(0, 0, 10), range(1, 0, 10)))
        .containsExactly("0:0-5", "0:5-10", "1:0-5", "1:5-10");
  }

  @Test
  void noPieceIsLargerThanItMayBe() {
    assertThat(cut(0, 3, range(0, 7, 15), range(1, 0, 3)))
        .containsExactly("0:7-10", "0:10-13", "0:13-15", "1:0-3");
  }

  @Test
  void bothBoundsHold() {
    assertThat(cut(2, 4, range(0, 0, 12))).hasSize(3);
    assertThat(cut(5, 4, range(0, 0, 12))).hasSize(5);
  }

  @Test
  void aPieceHasAnOffsetAtLeast() {
    assertThat(cut(50, 0, range(0, 3, 5), range(1, 9, 10)))
        .containsExactly("0:3-4", "0:4-5", "1:9-10");
  }

  @Test
  void offsetsNearTheEndOfLongDoNotOverflow() {
    long start = 1;
    long end = Long.MAX_VALUE;
    List<SlotRange> pieces = RangeSplit.cut(List.of(range(0, start, end)), new Split(3, 0));
    assertThat(pieces).hasSize(3).allMatch(piece -> piece.epochStart() < piece.end());
    assertThat(pieces.get(0).epochStart()).isEqualTo(start);
    assertThat(pieces.get(2).end()).isEqualTo(end);
  }

  @Test
  void piecesOfAPartitionFollowEachOtherAndHaveAllOfIt() {
    Random random = new Random(7);
    for (int round = 0; round < 500; round++) {
      List<SlotRange> ranges = new ArrayList<>();
      for (int partition = 0; partition < 1 + random.nextInt(6); partition++) {
        long start = random.nextInt(1_000);
        ranges.add(range(partition, start, start + 1 + random.nextInt(10_000)));
      }
      Split split = new Split(random.nextInt(40), random.nextInt(3_000));
      List<SlotRange> pieces = RangeSplit.cut(ranges, split);
      assertThat(RangeSplit.cut(ranges, split)).isEqualTo(pieces);
      long records = ranges.stream().mapToLong(r -> r.end() - r.epochStart()).sum();
      assertThat((long) pieces.size())
          .isGreaterThanOrEqualTo(Math.min(split.minPartitions(), records));
      for (SlotRange range : ranges) {
        long next = range.epochStart();
        for (SlotRange piece : pieces) {
          if (piece.partition() == range.partition()) {
            assertThat(piece.epochStart()).isEqualTo(next);
            assertThat(piece.end() - piece.epochStart())
                .isBetween(1L, split.maxRecords() == 0 ? Long.MAX_VALUE : split.maxRecords());
            next = piece.end();
          }
        }
        assertThat(next).isEqualTo(range.end());
      }
    }
  }
}
