package io.eoskafka.bench;

import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Reads partitions from their beginnings to given ends, with one assigned consumer. */
final class Reader implements AutoCloseable {
  private static final Duration POLL = Duration.ofMillis(500);

  private final KafkaConsumer<byte[], byte[]> consumer;
  private final Map<TopicPartition, Long> ends;
  private final Set<TopicPartition> unread;

  Reader(PeerProgram.Clients clients, Map<TopicPartition, Long> ends) {
    Map<String, Object> settings = new HashMap<>(clients.consumer());
    settings.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, clients.servers());
    settings.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
    settings.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
    settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "none");
    settings.put(ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class);
    settings.put(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class);
    this.consumer = new KafkaConsumer<>(settings);
    this.ends = ends;
    this.unread = new HashSet<>(ends.keySet());
  }

  void prepare() {
    consumer.assign(ends.keySet());
    consumer.seekToBeginning(ends.keySet());
    ends.keySet().forEach(consumer::position);
  }

  boolean hasMore() {
    return !unread.isEmpty();
  }

  /** The next records; notes how far each partition is read. */
  ConsumerRecords<byte[], byte[]> poll(Map<TopicPartition, OffsetAndMetadata> reached) {
    ConsumerRecords<byte[], byte[]> records = consumer.poll(POLL);
    records
        .nextOffsets()
        .forEach(
            (partition, next) -> {
              reached.put(partition, next);
              if (next.offset() >= ends.get(partition)) {
                unread.remove(partition);
              }
            });
    return records;
  }

  @Override
  public void close() {
    consumer.close();
  }
}
