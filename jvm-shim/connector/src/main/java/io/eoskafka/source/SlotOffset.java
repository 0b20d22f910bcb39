package io.eoskafka.source;

import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;

/**
 * How far a slot was read in real-time mode, as its reader tells Spark.
 *
 * @param reached by topic-partition, the first offset that was not handed out
 */
record SlotOffset(Map<TopicPartition, Long> reached) implements PartitionOffset {}
