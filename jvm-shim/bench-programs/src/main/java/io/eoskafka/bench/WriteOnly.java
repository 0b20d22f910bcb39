package io.eoskafka.bench;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * The other half of the limit of a pipeline: writes records that are in memory already, as many as
 * the input has, in one transaction a thread.
 */
final class WriteOnly implements PeerProgram.Peer {
  private static final int SAMPLE = 10_000;
  private static final long SAMPLE_BYTES = 64L << 20;

  private final PeerProgram.Clients clients;

  WriteOnly(PeerProgram.Clients clients) {
    this.clients = clients;
  }

  @Override
  public long run(String input, String output, String name) throws Exception {
    return Threads.run(
        Threads.workers(
            clients,
            input,
            (share, thread) -> new Worker(clients, share, output, name + "-" + thread)));
  }

  private static final class Worker implements Threads.Worker {
    private final PeerProgram.Clients clients;
    private final Map<TopicPartition, Long> ends;
    private final KafkaProducer<byte[], byte[]> producer;
    private final String output;
    private final List<ConsumerRecord<byte[], byte[]>> sample = new ArrayList<>();

    Worker(PeerProgram.Clients clients, Map<TopicPartition, Long> ends, String output, String id) {
      this.clients = clients;
      this.ends = ends;
      this.producer = TransactionLoop.producer(clients, id);
      this.output = output;
    }

    @Override
    public void prepare() {
      producer.initTransactions();
      producer.partitionsFor(output);
      try (Reader reader = new Reader(clients, ends)) {
        reader.prepare();
        long bytes = 0;
        while (reader.hasMore() && sample.size() < SAMPLE && bytes < SAMPLE_BYTES) {
          for (ConsumerRecord<byte[], byte[]> record : reader.poll(new HashMap<>())) {
            sample.add(record);
            bytes += record.value().length;
          }
        }
      }
    }

    @Override
    public void work() {
      long records = ends.values().stream().mapToLong(end -> end).sum();
      producer.beginTransaction();
      for (long n = 0; n < records; n++) {
        ConsumerRecord<byte[], byte[]> record = sample.get((int) (n % sample.size()));
        producer.send(new ProducerRecord<>(output, record.key(), record.value()));
      }
      producer.commitTransaction();
    }

    @Override
    public void close() {
      producer.close();
    }
  }
}
