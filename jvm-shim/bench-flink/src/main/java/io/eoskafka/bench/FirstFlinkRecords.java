package io.eoskafka.bench;

import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * Notes when a consumer that Flink has made gets its first records. Flink copies the settings of
 * its clients, so the moment of the present run is not among them as in {@link FirstRecords}, but
 * here. Called once a poll.
 */
public final class FirstFlinkRecords implements ConsumerInterceptor<byte[], byte[]> {
  static volatile FirstRecords.Moment moment = new FirstRecords.Moment();

  @Override
  public void configure(Map<String, ?> settings) {}

  @Override
  public ConsumerRecords<byte[], byte[]> onConsume(ConsumerRecords<byte[], byte[]> records) {
    if (!records.isEmpty()) {
      moment.note();
    }
    return records;
  }

  @Override
  public void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {}

  @Override
  public void close() {}
}
