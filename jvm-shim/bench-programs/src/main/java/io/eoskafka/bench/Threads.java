package io.eoskafka.bench;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.BiFunction;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;

/** What peers with threads of their own have in common. */
final class Threads {
  /** If one of them fails, the others do not wait for it for ever. */
  private static final long READY_S = 60;

  private static final Comparator<TopicPartition> BY_NUMBER =
      Comparator.comparingInt(TopicPartition::partition);

  private Threads() {}

  /** One thread of a peer: gets ready, waits for the others, and works. */
  interface Worker extends AutoCloseable {
    void prepare() throws Exception;

    void work() throws Exception;

    @Override
    void close();
  }

  /**
   * @return nanoseconds from where every worker was ready until the last one had done its work
   */
  static long run(List<? extends Worker> workers) throws Exception {
    long[] began = new long[1];
    CyclicBarrier ready = new CyclicBarrier(workers.size(), () -> began[0] = System.nanoTime());
    ExecutorService threads = Executors.newFixedThreadPool(workers.size());
    try {
      List<Future<Long>> ended = new ArrayList<>();
      for (Worker worker : workers) {
        ended.add(
            threads.submit(
                (Callable<Long>)
                    () -> {
                      try (worker) {
                        worker.prepare();
                        ready.await(READY_S, TimeUnit.SECONDS);
                        worker.work();
                        return System.nanoTime();
                      }
                    }));
      }
      long last = 0;
      for (Future<Long> end : ended) {
        last = Math.max(last, end.get());
      }
      return last - began[0];
    } finally {
      threads.shutdownNow();
    }
  }

  /** The partitions of a topic that have records, and the offsets where these end. */
  static Map<TopicPartition, Long> ends(Admin admin, String topic) throws Exception {
    Map<TopicPartition, OffsetSpec> wanted = new TreeMap<>(BY_NUMBER);
    for (TopicPartitionInfo partition :
        admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions()) {
      wanted.put(new TopicPartition(topic, partition.partition()), OffsetSpec.latest());
    }
    Map<TopicPartition, ListOffsetsResultInfo> found = admin.listOffsets(wanted).all().get();
    Map<TopicPartition, Long> ends = new TreeMap<>(BY_NUMBER);
    found.forEach(
        (partition, end) -> {
          if (end.offset() > 0) {
            ends.put(partition, end.offset());
          }
        });
    return ends;
  }

  /** A worker for each thread, with its share of a topic's partitions and their ends. */
  static <W extends Worker> List<W> workers(
      PeerProgram.Clients clients,
      String input,
      BiFunction<Map<TopicPartition, Long>, Integer, W> maker)
      throws Exception {
    Map<TopicPartition, Long> ends;
    try (Admin admin = Admin.create(clients.admin())) {
      ends = ends(admin, input);
    }
    List<W> workers = new ArrayList<>();
    for (int thread = 0; thread < PeerProgram.THREADS; thread++) {
      workers.add(maker.apply(share(ends, thread), thread));
    }
    return workers;
  }

  private static Map<TopicPartition, Long> share(Map<TopicPartition, Long> ends, int thread) {
    Map<TopicPartition, Long> share = new HashMap<>();
    int next = 0;
    for (Map.Entry<TopicPartition, Long> end : ends.entrySet()) {
      if (next++ % PeerProgram.THREADS == thread) {
        share.put(end.getKey(), end.getValue());
      }
    }
    return share;
  }
}
