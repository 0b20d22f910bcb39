package io.eoskafka.source;

import io.eoskafka.identity.Stamp;
import java.util.Objects;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * What was found out about a partition.
 *
 * @param committed the group's stable offset with a stamp of ours, or null
 * @param topicId of the partition's topic now
 * @param keptTopicId the id under which the checkpoint knows it, or null
 * @param logged the start of the batch that Spark is about to plan, or null
 * @param isLogEmpty whether Spark's log has no partition at all
 * @param initial the initial-offset file's entry, or null
 * @param decidedStart where the decided batch that Spark runs again began, or null
 * @param byOption the offset that {@code startingOffsets} gives, or null if nobody has asked
 * @param logStart the first offset of the partition's log
 * @param logEnd its high watermark
 * @param restart where it continues by {@link RestartedPartitions}, or null
 * @param isUnresolved whether it existed when the shared group began, and no driver has committed
 *     its start
 */
record PartitionFacts(
    TopicPartition partition,
    OffsetAndMetadata committed,
    String topicId,
    String keptTopicId,
    Long logged,
    boolean isLogEmpty,
    Long initial,
    Long decidedStart,
    Long byOption,
    long logStart,
    long logEnd,
    Long restart,
    boolean isUnresolved) {

  PartitionFacts {
    Objects.requireNonNull(topicId);
  }

  /** Of the group's offset, or null. */
  Stamp stamp() {
    return committed == null ? null : Stamp.parse(committed.metadata()).orElseThrow();
  }

  /** Whether the group's offset is of a topic that had the name before. */
  boolean isOfFormerTopic() {
    return committed != null && !stamp().topicId().equals(topicId);
  }

  /** Whether the checkpoint knows the topic under another id. */
  boolean isRecreatedSince() {
    return keptTopicId != null && !keptTopicId.equals(topicId);
  }

  /** Whether the decided batch that Spark runs again has read a former topic of that name. */
  boolean isRecreatedSinceDecision() {
    return decidedStart != null && isRecreatedSince();
  }

  /**
   * As {@code logged}. If a topic was created again before Spark had logged a batch, it is where
   * the query began: there Spark's first batch begins, too.
   */
  Long sparkStart() {
    return committed == null && isRecreatedSince() && isLogEmpty ? initial : logged;
  }

  /** Whether the checkpoint knows the partition: then the group had its offset. */
  boolean wasFound() {
    return keptTopicId != null && !isUnresolved;
  }
}
