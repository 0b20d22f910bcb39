package io.eoskafka.task;

import java.io.Serializable;
import org.apache.kafka.common.TopicPartition;

/**
 * What a batch plans for one topic-partition. The plan is made before the scope is known, so the
 * range has both starts, and the reader uses the one of its scope.
 *
 * @param epochStart where reading starts in epoch scope, and with another sink
 * @param groupStart the group's stable offset, where reading starts in task scope
 * @param end the first offset that is not read; {@link #OPEN} if reading ends at a time
 * @param topicId the topic's id, for the stamp
 */
public record SlotRange(
    String topic, int partition, long epochStart, long groupStart, long end, String topicId)
    implements Serializable {

  public static final long OPEN = Long.MAX_VALUE;

  public boolean isOpen() {
    return end == OPEN;
  }

  public TopicPartition topicPartition() {
    return new TopicPartition(topic, partition);
  }

  /** A part of this range, for epoch scope. */
  public SlotRange between(long start, long until) {
    return new SlotRange(topic, partition, start, groupStart, until, topicId);
  }
}
