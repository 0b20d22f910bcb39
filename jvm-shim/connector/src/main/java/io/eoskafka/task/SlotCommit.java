package io.eoskafka.task;

import java.io.Serializable;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/**
 * What a task tells the driver: how far its slot's offsets are committed.
 *
 * @param identityId the source's identity; a batch may have several sources
 * @param jvm the JVM that keeps the slot's producer
 * @param executorId Spark's name of its executor
 * @param offsets by topic-partition, the first offset not yet taken effect
 */
public record SlotCommit(
    String identityId,
    int slot,
    String jvm,
    String executorId,
    String host,
    Map<TopicPartition, Long> offsets)
    implements Serializable {}
