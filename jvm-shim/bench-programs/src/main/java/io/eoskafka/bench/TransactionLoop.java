package io.eoskafka.bench;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Consume, transform (nothing), produce, with offsets in the transaction: what somebody writes who
 * needs nothing but this one copy. Each thread has a consumer, with partitions assigned to it, and
 * a producer. A transaction is as long as it may be, so that few commits cost time.
 */
final class TransactionLoop implements PeerProgram.Peer {
  private static final long COMMIT_NANOS = Duration.ofSeconds(10).toNanos();

  private final PeerProgram.Clients clients;

  TransactionLoop(PeerProgram.Clients clients) {
    this.clients = clients;
  }

  @Override
  public long run(String input, String output, String name) throws Exception {
    return Threads.run(
        Threads.workers(
            clients, input, (share, thread) -> new Worker(clients, share, output, name, thread)));
  }

  /** A transactional producer of bytes. */
  static KafkaProducer<byte[], byte[]> producer(PeerProgram.Clients clients, String id) {
    Map<String, Object> settings = new HashMap<>(clients.producer());
    settings.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, clients.servers());
    settings.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, id);
    settings.put(ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class);
    settings.put(ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class);
    return new KafkaProducer<>(settings);
  }

  private static final class Worker implements Threads.Worker {
    private final Reader reader;
    private final KafkaProducer<byte[], byte[]> producer;
    private final String output;
    private final ConsumerGroupMetadata group;

    Worker(
        PeerProgram.Clients clients,
        Map<TopicPartition, Long> ends,
        String output,
        String name,
        int thread) {
      this.reader = new Reader(clients, ends);
      this.producer = producer(clients, name + "-" + thread);
      this.output = output;
      this.group = new ConsumerGroupMetadata(name);
    }

    @Override
    public void prepare() {
      producer.initTransactions();
      producer.partitionsFor(output);
      reader.prepare();
    }

    @Override
    public void work() {
      Map<TopicPartition, OffsetAndMetadata> reached = new HashMap<>();
      while (reader.hasMore()) {
        producer.beginTransaction();
        long commit = System.nanoTime() + COMMIT_NANOS;
        while (reader.hasMore() && System.nanoTime() < commit) {
          for (ConsumerRecord<byte[], byte[]> record : reader.poll(reached)) {
            producer.send(new ProducerRecord<>(output, record.key(), record.value()));
          }
        }
        producer.sendOffsetsToTransaction(reached, group);
        // Fails if a record has.
        producer.commitTransaction();
        reached.clear();
      }
    }

    @Override
    public void close() {
      reader.close();
      producer.close();
    }
  }
}
