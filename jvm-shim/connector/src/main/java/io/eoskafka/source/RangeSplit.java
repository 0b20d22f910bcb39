package io.eoskafka.source;

import io.eoskafka.config.SourceOptions;
import io.eoskafka.task.SlotRange;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.PriorityQueue;

/**
 * Cuts ranges into pieces for more tasks than there are topic-partitions. The same ranges and the
 * same split give the same pieces, whoever plans: an epoch that runs again has to have the writers
 * that it had.
 */
final class RangeSplit {
  private RangeSplit() {}

  private static final class Share {
    final int place;
    final long size;
    long pieces;

    Share(int place, long size, long pieces) {
      this.place = place;
      this.size = size;
      this.pieces = pieces;
    }

    double sizeOfPiece() {
      return (double) size / pieces;
    }
  }

  /**
   * @param ranges each with something to read, of different partitions
   * @return the ranges as they are where they are enough, and none is too large
   */
  static List<SlotRange> cut(List<SlotRange> ranges, SourceOptions.Split split) {
    if (split.isNone() || ranges.isEmpty()) {
      return ranges;
    }
    List<Share> shares = new ArrayList<>();
    long total = 0;
    for (SlotRange range : ranges) {
      long size = range.end() - range.epochStart();
      long pieces = split.maxRecords() == 0 ? 1 : (size - 1) / split.maxRecords() + 1;
      shares.add(new Share(shares.size(), size, pieces));
      total += pieces;
    }
    // One more piece for the range with the largest ones, until there are enough.
    PriorityQueue<Share> largestFirst =
        new PriorityQueue<>(
            Comparator.comparingDouble(Share::sizeOfPiece)
                .reversed()
                .thenComparingInt(share -> share.place));
    largestFirst.addAll(shares);
    for (; total < split.minPartitions(); total++) {
      Share largest = largestFirst.remove();
      if (largest.pieces == largest.size) {
        break;
      }
      largest.pieces++;
      largestFirst.add(largest);
    }
    List<SlotRange> cut = new ArrayList<>();
    for (Share share : shares) {
      SlotRange range = ranges.get(share.place);
      for (long piece = 0; piece < share.pieces; piece++) {
        cut.add(
            range.between(
                range.epochStart() + offsetOf(piece, share),
                range.epochStart() + offsetOf(piece + 1, share)));
      }
    }
    return cut;
  }

  /** Where a piece begins within its range; sizes differ by one at most. */
  private static long offsetOf(long piece, Share share) {
    return share.size / share.pieces * piece + Math.min(piece, share.size % share.pieces);
  }
}
