package io.eoskafka.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Kafka Streams with {@code exactly_once_v2}, from topic to topic. A run begins when its first
 * records come, and ends when the group's stable offsets are at the input's ends.
 */
final class StreamsCopy implements PeerProgram.Peer {
  private static final Duration CLOSE = Duration.ofSeconds(30);
  private static final long START_S = 60;
  private static final long LOOK_MS = 20;

  private final PeerProgram.Clients clients;

  StreamsCopy(PeerProgram.Clients clients) {
    this.clients = clients;
  }

  @Override
  public long run(String input, String output, String name) throws Exception {
    FirstRecords.Moment first = new FirstRecords.Moment();
    try (Admin admin = Admin.create(clients.admin());
        KafkaStreams streams = streams(input, output, name, first, Map.of())) {
      Map<TopicPartition, Long> ends = Threads.ends(admin, input);
      AtomicReference<Throwable> failure = new AtomicReference<>();
      streams.setUncaughtExceptionHandler(
          e -> {
            failure.set(e);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
          });
      streams.start();
      while (!hasReached(admin, name, ends)) {
        if (failure.get() != null) {
          throw new IllegalStateException(failure.get());
        }
        Thread.sleep(LOOK_MS);
      }
      long nanos = System.nanoTime() - first.await();
      end(streams);
      return nanos;
    }
  }

  @Override
  public AutoCloseable follow(String input, String output, String name, Duration commitInterval)
      throws Exception {
    KafkaStreams streams =
        streams(
            input,
            output,
            name,
            new FirstRecords.Moment(),
            Map.of(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, commitInterval.toMillis()));
    CountDownLatch running = new CountDownLatch(1);
    streams.setStateListener(
        (state, former) -> {
          if (state == KafkaStreams.State.RUNNING) {
            running.countDown();
          }
        });
    streams.start();
    if (!running.await(START_S, TimeUnit.SECONDS)) {
      streams.close(CLOSE);
      throw new IllegalStateException("Kafka Streams does not run, it is " + streams.state());
    }
    return () -> end(streams);
  }

  /** It leaves its group, which can be deleted then. */
  private static void end(KafkaStreams streams) {
    streams.close(
        CloseOptions.timeout(CLOSE)
            .withGroupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP));
    streams.cleanUp();
  }

  private KafkaStreams streams(
      String input,
      String output,
      String name,
      FirstRecords.Moment first,
      Map<String, Object> other)
      throws IOException {
    StreamsBuilder builder = new StreamsBuilder();
    builder.stream(input, Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
        .to(output, Produced.with(Serdes.ByteArray(), Serdes.ByteArray()));
    Path folder = Files.createTempDirectory("eoskafka-bench-streams");
    Properties settings = new Properties();
    settings.putAll(other);
    clients.consumer().forEach((k, v) -> settings.put(StreamsConfig.mainConsumerPrefix(k), v));
    clients.producer().forEach((k, v) -> settings.put(StreamsConfig.producerPrefix(k), v));
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, clients.servers());
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, name);
    settings.put(StreamsConfig.STATE_DIR_CONFIG, folder.toString());
    settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
    settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, PeerProgram.THREADS);
    settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
    settings.put(
        StreamsConfig.mainConsumerPrefix(ConsumerConfig.INTERCEPTOR_CLASSES_CONFIG),
        FirstRecords.class.getName());
    settings.put(StreamsConfig.mainConsumerPrefix(FirstRecords.Moment.SETTING), first);
    return new KafkaStreams(builder.build(), settings);
  }

  private static boolean hasReached(Admin admin, String group, Map<TopicPartition, Long> ends)
      throws Exception {
    Map<TopicPartition, OffsetAndMetadata> committed =
        admin
            .listConsumerGroupOffsets(
                group, new ListConsumerGroupOffsetsOptions().requireStable(true))
            .partitionsToOffsetAndMetadata()
            .get();
    return ends.entrySet().stream()
        .allMatch(
            end -> {
              OffsetAndMetadata offset = committed.get(end.getKey());
              return offset != null && offset.offset() >= end.getValue();
            });
  }
}
