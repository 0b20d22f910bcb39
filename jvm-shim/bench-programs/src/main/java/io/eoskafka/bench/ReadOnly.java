package io.eoskafka.bench;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;

/** Half of the limit of a pipeline: reads the input and looks at each value. */
final class ReadOnly implements PeerProgram.Peer {
  private final PeerProgram.Clients clients;

  ReadOnly(PeerProgram.Clients clients) {
    this.clients = clients;
  }

  @Override
  public long run(String input, String output, String name) throws Exception {
    List<Worker> workers =
        Threads.workers(clients, input, (share, thread) -> new Worker(clients, share));
    long nanos = Threads.run(workers);
    long read = workers.stream().mapToLong(worker -> worker.records).sum();
    long expected = workers.stream().mapToLong(worker -> worker.expected).sum();
    long bytes = workers.stream().mapToLong(worker -> worker.bytes).sum();
    if (read != expected || bytes == 0) {
      throw new IllegalStateException(
          "read " + read + " of " + expected + " records, " + bytes + " bytes");
    }
    return nanos;
  }

  private static final class Worker implements Threads.Worker {
    private final Reader reader;
    private final long expected;
    private long records;
    private long bytes;

    Worker(PeerProgram.Clients clients, Map<TopicPartition, Long> ends) {
      this.reader = new Reader(clients, ends);
      this.expected = ends.values().stream().mapToLong(end -> end).sum();
    }

    @Override
    public void prepare() {
      reader.prepare();
    }

    @Override
    public void work() {
      while (reader.hasMore()) {
        for (ConsumerRecord<byte[], byte[]> record : reader.poll(new HashMap<>())) {
          records++;
          bytes += record.value().length;
        }
      }
    }

    @Override
    public void close() {
      reader.close();
    }
  }
}
