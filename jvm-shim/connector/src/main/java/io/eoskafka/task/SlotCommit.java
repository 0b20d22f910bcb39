package io.eoskafka.task;

import java.io.Serializable;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/**
 * What a task tells the driver: how far its slot's offsets are committed.
 *
 * @param producers of the source's {@link io.eoskafka.identity.Identity}; a batch may have several
 *     sources
 * @param jvm the JVM that keeps the slot's producer
 * @param executorId Spark's id of its executor
 * @param offsets by topic-partition, the first offset that has not taken effect; empty if the task
 *     got no fence because partitions have moved to another driver of the group: then it has
 *     aborted its transaction
 * @param endedEarly whether it stopped before its planned end, so that it could commit in time
 * @param stableWaitMs how long the task had to wait until its start was stable, in milliseconds
 */
public record SlotCommit(
    String producers,
    int slot,
    String jvm,
    String executorId,
    String host,
    Map<TopicPartition, Long> offsets,
    boolean endedEarly,
    long stableWaitMs)
    implements Serializable {}
