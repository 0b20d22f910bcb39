package io.eoskafka.source;

import static org.assertj.core.api.Assertions.assertThat;

import io.eoskafka.task.SlotRange;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeSet;
import net.jqwik.api.Example;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.LongRange;
import net.jqwik.api.constraints.Size;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;

/** What has been handed out of a partition, and what counts as reached. */
class PartitionCursorTest {
  private static final TopicPartition PARTITION = new TopicPartition("t", 0);
  private static final Uuid ID = new Uuid(1, 2);
  private static final Uuid OTHER_ID = new Uuid(3, 4);
  private static final Map<String, Uuid> SAME = Map.of("t", ID);

  private static SlotRange upTo(long end) {
    return new SlotRange("t", 0, 0, 0, end, ID.toString());
  }

  private static PartitionCursor begun(long start, long end) {
    PartitionCursor cursor = new PartitionCursor(PARTITION);
    assertThat(cursor.begin(upTo(end), start)).isFalse();
    return cursor;
  }

  private static List<ConsumerRecord<byte[], byte[]>> records(long... offsets) {
    List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
    for (long offset : offsets) {
      records.add(new ConsumerRecord<>("t", 0, offset, null, new byte[0]));
    }
    return records;
  }

  private static OffsetAndMetadata position(long offset, int leaderEpoch) {
    return new OffsetAndMetadata(offset, Optional.of(leaderEpoch), "");
  }

  @Example
  void isNotDrainedByItsPositionWhileRecordsAreInTheBuffer() {
    PartitionCursor cursor = begun(5, 8);
    cursor.fetched(records(5, 6), position(8, 1), SAME);
    assertThat(cursor.isDrained()).isFalse();
    assertThat(cursor.reached(8)).isEqualTo(position(5, 1));
    assertThat(cursor.nextRecord().offset()).isEqualTo(5);
    assertThat(cursor.nextRecord().offset()).isEqualTo(6);
    assertThat(cursor.nextRecord()).isNull();
    assertThat(cursor.isDrained()).isTrue();
    // With the epoch of what lies before, although the last offset is a control record's.
    assertThat(cursor.reached(8)).isEqualTo(position(8, 1));
  }

  @Example
  void keepsWhatLiesBeyondTheEndForTheNextBatch() {
    PartitionCursor cursor = begun(5, 6);
    cursor.fetched(records(5, 6, 7), position(8, 1), SAME);
    assertThat(cursor.nextRecord().offset()).isEqualTo(5);
    assertThat(cursor.nextRecord()).isNull();
    // The epoch of the position: that of the end may be an earlier one, which does no harm.
    assertThat(cursor.reached(6)).isEqualTo(position(6, 1));
    assertThat(cursor.hasGiven()).isTrue();

    assertThat(cursor.begin(upTo(8), 6)).isTrue();
    assertThat(cursor.hasGiven()).isFalse();
    assertThat(cursor.nextRecord().offset()).isEqualTo(6);
  }

  @Example
  void anEndIsReachedWithALeaderEpochAlsoIfNothingButControlRecordsIsBeyondIt() {
    PartitionCursor cursor = begun(5, 6);
    cursor.fetched(records(5), position(8, 1), SAME);
    assertThat(cursor.nextRecord().offset()).isEqualTo(5);
    assertThat(cursor.reached(6)).isEqualTo(position(6, 1));
  }

  @Example
  void dropsWhatItHasWhenABatchBeginsElsewhere() {
    PartitionCursor cursor = begun(5, 6);
    cursor.fetched(records(5, 6, 7), position(8, 1), SAME);
    assertThat(cursor.begin(upTo(8), 5)).isFalse();
    assertThat(cursor.isBufferEmpty()).isTrue();
    assertThat(cursor.reached(8)).isEqualTo(new OffsetAndMetadata(5, Optional.empty(), ""));
  }

  @Example
  void continuesWithWhatWasNotHandedOutWhenTimeHasEndedTheReading() {
    PartitionCursor cursor = begun(5, SlotRange.OPEN);
    cursor.fetched(records(5, 7), position(8, 1), SAME);
    assertThat(cursor.nextRecord().offset()).isEqualTo(5);
    cursor.endHere();
    assertThat(cursor.begin(upTo(SlotRange.OPEN), 7)).isTrue();
    assertThat(cursor.nextRecord().offset()).isEqualTo(7);
  }

  @Example
  void aPartitionThatIsGoneCountsAsReadToItsPlannedEndAndIsSoughtAnew() {
    PartitionCursor cursor = begun(5, 8);
    cursor.giveUp(false);
    assertThat(cursor.isDrained()).isTrue();
    assertThat(cursor.reached(8).offset()).isEqualTo(8);
    assertThat(cursor.begin(upTo(9), 8)).isFalse();
  }

  @Example
  void aPartitionThatIsGoneAndHasNoPlannedEndCountsAsReadAsFarAsItWas() {
    PartitionCursor cursor = begun(5, SlotRange.OPEN);
    cursor.fetched(records(5, 6), position(7, 1), SAME);
    cursor.nextRecord();
    cursor.giveUp(true);
    assertThat(cursor.reached(SlotRange.OPEN).offset()).isEqualTo(6);
    assertThat(cursor.nextRecord()).isNull();
  }

  @Example
  void noticesATopicThatHasItsName() {
    PartitionCursor cursor = begun(5, 8);
    cursor.fetched(records(5), position(6, 1), SAME);
    assertThat(cursor.isReplaced(SAME)).isFalse();
    // The consumer's metadata may be without the topic for a moment.
    assertThat(cursor.isReplaced(Map.of())).isFalse();
    assertThat(cursor.isReplaced(Map.of("t", OTHER_ID))).isTrue();
    cursor.fetched(records(6), position(7, 1), Map.of("t", OTHER_ID));
    assertThat(cursor.isReplaced(Map.of())).isTrue();
    cursor.begin(upTo(9), 7);
    assertThat(cursor.isReplaced(SAME)).isFalse();
  }

  /**
   * A log with gaps, read in batches with any ends and in polls of any size. At any time, all
   * records before what counts as reached were handed out, once and in order, and none after.
   */
  @Property
  void whatIsReachedIsWhatWasHandedOut(
      @ForAll @Size(max = 40) List<@LongRange(max = 60) Long> log,
      @ForAll @Size(min = 1, max = 5) List<@IntRange(max = 25) Integer> lengths,
      @ForAll @Size(min = 1, max = 5) List<@IntRange(min = 1, max = 12) Integer> polls,
      @ForAll boolean endsInTime) {
    TreeSet<Long> offsets = new TreeSet<>(log);
    PartitionCursor cursor = new PartitionCursor(PARTITION);
    List<Long> given = new ArrayList<>();
    long start = 0;
    int poll = 0;
    boolean hasBegun = false;
    for (int length : lengths) {
      long end = start + length;
      long begins = start;
      assertThat(cursor.begin(upTo(end), start)).isEqualTo(hasBegun);
      hasBegun = true;
      while (!cursor.isDrained()) {
        ConsumerRecord<byte[], byte[]> record = cursor.nextRecord();
        if (record == null) {
          long from = cursor.position();
          long to = from + polls.get(poll++ % polls.size());
          cursor.fetched(
              records(offsets.subSet(from, to).stream().mapToLong(o -> o).toArray()),
              position(to, 1),
              SAME);
        } else {
          given.add(record.offset());
          assertThat(record.offset()).isBetween(begins, end - 1);
        }
        requireHandedOut(cursor.reached(end).offset(), offsets, given);
        if (endsInTime && given.size() % 3 == 2 && !cursor.isDrained()) {
          cursor.endHere();
          break;
        }
      }
      start = cursor.reached(end).offset();
    }
  }

  private static void requireHandedOut(long reached, TreeSet<Long> offsets, List<Long> given) {
    assertThat(given).containsExactlyElementsOf(offsets.headSet(reached));
  }
}
