package io.eoskafka.task;

import java.io.Serializable;
import org.apache.kafka.common.TopicPartition;

/**
 * What a batch plans for one topic-partition. Planning never clips: it comes before the scope is
 * known, so both starts are here and the reader takes the one its scope needs.
 *
 * @param epochStart where reading starts in epoch scope, and without a sink of ours
 * @param groupStart the group's stable offset, where it starts in task scope
 * @param end the first offset that is not read; {@link #OPEN} where time ends the reading
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

  /** A piece of it, for epoch scope. */
  public SlotRange between(long start, long until) {
    return new SlotRange(topic, partition, start, groupStart, until, topicId);
  }
}
