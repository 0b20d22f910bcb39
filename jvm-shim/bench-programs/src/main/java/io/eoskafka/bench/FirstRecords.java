package io.eoskafka.bench;

import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * Notes when a consumer that Kafka Streams has made gets its first records, which may be before the
 * program is told that its threads run. Called once a poll.
 */
public final class FirstRecords implements ConsumerInterceptor<byte[], byte[]> {
  /** What the consumers of one run share; they find it under this name among their settings. */
  static final class Moment {
    static final String SETTING = "eoskafka.bench.moment";

    private final CountDownLatch came = new CountDownLatch(1);
    private volatile long nanos;

    void note() {
      if (came.getCount() > 0) {
        nanos = System.nanoTime();
        came.countDown();
      }
    }

    /**
     * @return {@link System#nanoTime} of the first records of all
     */
    long await() throws InterruptedException {
      came.await();
      return nanos;
    }
  }

  private Moment moment;

  @Override
  public void configure(Map<String, ?> settings) {
    moment = (Moment) settings.get(Moment.SETTING);
  }

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
