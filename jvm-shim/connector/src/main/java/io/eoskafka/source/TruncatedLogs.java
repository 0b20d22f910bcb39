package io.eoskafka.source;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.wire.KafkaCalls;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.LogTruncationException;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.TimeoutException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Finds logs that were cut below an offset, by an unclean leader election: also those that have
 * grown beyond it since, with other records. A committed offset has the leader epoch of what lies
 * before it, and a leader knows where that epoch has ended in its log (KIP-320). Kafka's admin
 * client does not ask for this; its consumer does so before it reads.
 */
final class TruncatedLogs {
  private static final Logger LOG = LoggerFactory.getLogger(TruncatedLogs.class);
  private static final Duration TIMEOUT = Duration.ofSeconds(30);

  private TruncatedLogs() {}

  /**
   * @param committed offsets; one without a leader epoch says nothing
   * @return for each partition whose log was cut below its offset, the offset up to which the log
   *     is unchanged
   */
  static Map<TopicPartition, Long> ends(
      ClientSettings client, String clientId, Map<TopicPartition, OffsetAndMetadata> committed) {
    Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>(committed);
    offsets.values().removeIf(offset -> offset.leaderEpoch().isEmpty());
    Map<TopicPartition, Long> ends = new HashMap<>();
    if (offsets.isEmpty()) {
      return ends;
    }
    try (KafkaConsumer<byte[], byte[]> consumer =
        new KafkaConsumer<>(client.dataConsumer(clientId))) {
      consumer.assign(offsets.keySet());
      // It compares an offset only if it knows who leads the partition.
      consumer.beginningOffsets(offsets.keySet(), TIMEOUT);
      offsets.forEach(consumer::seek);
      for (TopicPartition partition : offsets.keySet()) {
        compare(consumer, partition, ends);
      }
    } catch (TimeoutException e) {
      LOG.warn("Whether logs were cut could not be found out, and is left to the tasks", e);
    } catch (InterruptException e) {
      throw KafkaCalls.asJava(e);
    }
    return ends;
  }

  private static void compare(
      KafkaConsumer<byte[], byte[]> consumer,
      TopicPartition partition,
      Map<TopicPartition, Long> ends) {
    while (true) {
      try {
        consumer.position(partition, TIMEOUT);
        return;
      } catch (LogTruncationException e) {
        e.divergentOffsets().forEach((cut, end) -> ends.put(cut, end.offset()));
        // Of any partitions. Without their leader epochs they are not compared again.
        e.offsetOutOfRangePartitions().forEach(consumer::seek);
        LOG.warn("Logs were cut: {}", e.toString());
      }
    }
  }
}
