package io.eoskafka.source;

import io.eoskafka.task.SlotRange;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;

/**
 * How far one topic-partition is read: what the consumer has fetched of it, and which of these
 * records have been handed out. It outlives the batch, with what was fetched beyond the batch's
 * end.
 *
 * <p>The partition is drained when its buffer holds no record before the planned end and the
 * position has reached that end. The position alone will not do: after a poll it is past records
 * that nobody has seen yet. Nor will the last record's offset: control records and aborted ones
 * have offsets too.
 */
final class PartitionCursor {
  @SuppressWarnings("unchecked")
  private static final ConsumerRecord<byte[], byte[]>[] NONE = new ConsumerRecord[0];

  private final TopicPartition partition;

  /** Not the client's list: each record would be got through two wrappers. */
  private ConsumerRecord<byte[], byte[]>[] buffer = NONE;

  private int index;

  /** The consumer's position: after everything in the buffer, control records included. */
  private long position;

  private Optional<Integer> leaderEpoch = Optional.empty();

  /** Where the batch that is being read ends, or the last one ended. */
  private long end = -1;

  private boolean reading;

  /** Of the topic that was planned; another one may come to have its name. */
  private String topicId;

  /** Whether records, or bounds, of another topic's log have come. */
  private boolean isReplaced;

  /** Whether any record of this batch was handed out. */
  private boolean hasGiven;

  PartitionCursor(TopicPartition partition) {
    this.partition = partition;
  }

  /**
   * Begins with another batch.
   *
   * @param start where this attempt begins to read
   * @return whether it continues where the last batch has ended; otherwise the consumer has to seek
   */
  boolean begin(SlotRange range, long start) {
    boolean continues = start == end;
    if (!continues) {
      restartAt(start);
    }
    end = range.end();
    reading = true;
    topicId = range.topicId();
    isReplaced = false;
    hasGiven = false;
    return continues;
  }

  /**
   * Takes what a poll has returned of this partition, when everything before has been handed out.
   *
   * @param next the consumer's position after these records
   * @param topicIds by which the consumer fetches
   */
  void fetched(
      List<ConsumerRecord<byte[], byte[]>> records,
      OffsetAndMetadata next,
      Map<String, Uuid> topicIds) {
    isToldOf(topicIds);
    buffer = records.toArray(NONE);
    index = 0;
    position = next.offset();
    leaderEpoch = next.leaderEpoch();
  }

  /**
   * A broker has said something of the log; it is of the topic that the consumer knows at that
   * time.
   */
  void isToldOf(Map<String, Uuid> topicIds) {
    isReplaced |= isOfOtherTopic(topicIds);
  }

  /** The next record before the planned end, or null if none is in the buffer. */
  ConsumerRecord<byte[], byte[]> nextRecord() {
    if (isBufferEmpty()) {
      // A resting consumer must not hold on to what its last batch has read.
      moveTo(position);
      return null;
    }
    ConsumerRecord<byte[], byte[]> record = buffer[index];
    if (record.offset() >= end) {
      return null;
    }
    index++;
    hasGiven = true;
    return record;
  }

  /** The first offset that was not handed out; what is not in the buffer holds no record. */
  private long next() {
    return isBufferEmpty() ? position : buffer[index].offset();
  }

  boolean isBufferEmpty() {
    return index == buffer.length;
  }

  /** Whether everything before the planned end has been handed out. */
  boolean isDrained() {
    return next() >= end;
  }

  /**
   * How far the records are out: the planned end if the partition is drained, since control records
   * may lie between the last record and that. With the position's leader epoch, also if the
   * position is further: an older epoch than that of what lies before the offset would look like a
   * truncated log to the next reader, a later one does not: for a later epoch, the leader returns
   * the end of the previous one, which is below the offset only if the log was cut.
   *
   * @param plannedEnd of the range; this cursor has forgotten it if the partition is gone
   */
  OffsetAndMetadata reached(long plannedEnd) {
    return new OffsetAndMetadata(Math.min(next(), plannedEnd), leaderEpoch, "");
  }

  private void moveTo(long offset) {
    buffer = NONE;
    index = 0;
    position = offset;
  }

  /** Reading starts at an offset that the consumer seeks. */
  void restartAt(long offset) {
    moveTo(offset);
    leaderEpoch = Optional.empty();
  }

  /**
   * Records at the position are gone, and the consumer seeks where fetching continues. What was
   * fetched before is handed out all the same, unless it would be fetched again.
   */
  void skipTo(long next) {
    if (next < position) {
      restartAt(next);
      return;
    }
    position = next;
    leaderEpoch = Optional.empty();
  }

  /**
   * Nothing more can be read, because the partition is gone. Whatever has its name next is sought
   * anew.
   *
   * @param isOpen whether time ends the reading, so that no planned end counts as reached
   */
  void giveUp(boolean isOpen) {
    moveTo(isOpen ? next() : end);
    end = -1;
  }

  /** Time has ended the reading: the next batch continues with what was not handed out. */
  void endHere() {
    end = next();
  }

  /** Whether more is to be read for the batch. */
  boolean isReading() {
    return reading;
  }

  void stopReading() {
    reading = false;
  }

  /** Whether a topic other than the planned one has the name by now, or has had it meanwhile. */
  boolean isReplaced(Map<String, Uuid> topicIds) {
    return isReplaced || isOfOtherTopic(topicIds);
  }

  private boolean isOfOtherTopic(Map<String, Uuid> topicIds) {
    Uuid id = topicIds.get(partition.topic());
    return id != null && !isOf(id.toString());
  }

  /** Whether that is the topic whose records it has. */
  boolean isOf(String ofTopicId) {
    return topicId.equals(ofTopicId);
  }

  boolean hasGiven() {
    return hasGiven;
  }

  TopicPartition partition() {
    return partition;
  }

  long position() {
    return position;
  }

  long end() {
    return end;
  }
}
