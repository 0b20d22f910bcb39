package io.eoskafka.bench;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Fills a benchmark's input topic.
 *
 * <p>Record {@code n} goes to partition {@code (n / 1000) % partitions}. Its value is a chain of
 * 64-bit words in network byte order, cut off at the wanted length: {@code n}, then {@code mix(n)},
 * {@code mix(n + 1·STEP)}, … so that whoever counts the output (eoskafka/bench/values.py) can tell
 * every byte of it from {@code n} alone. It has no key, or {@code n} as one.
 */
public final class InputLoader {
  private static final int RUN_LENGTH = 1000;
  private static final long STEP = 0x9E3779B97F4A7C15L;

  private InputLoader() {}

  /**
   * @param arguments bootstrap servers, topic, partitions, records, bytes of a value (at least 8),
   *     and whether records have keys (true, false)
   */
  public static void main(String[] arguments) {
    String topic = arguments[1];
    int partitions = Integer.parseInt(arguments[2]);
    long records = Long.parseLong(arguments[3]);
    int bytes = Integer.parseInt(arguments[4]);
    boolean keyed = Boolean.parseBoolean(arguments[5]);
    AtomicReference<Exception> failure = new AtomicReference<>();
    try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings(arguments[0]))) {
      for (long n = 0; n < records && failure.get() == null; n++) {
        int partition = (int) (n / RUN_LENGTH % partitions);
        byte[] key = keyed ? ByteBuffer.allocate(Long.BYTES).putLong(n).array() : null;
        producer.send(
            new ProducerRecord<>(topic, partition, key, value(n, bytes)),
            (metadata, e) -> {
              if (e != null) {
                failure.compareAndSet(null, e);
              }
            });
      }
    }
    if (failure.get() != null) {
      throw new IllegalStateException("The input was not written whole", failure.get());
    }
  }

  private static Map<String, Object> settings(String servers) {
    return Map.ofEntries(
        Map.entry(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, servers),
        Map.entry(ProducerConfig.LINGER_MS_CONFIG, 20),
        Map.entry(ProducerConfig.BATCH_SIZE_CONFIG, 256 << 10),
        Map.entry(ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class),
        Map.entry(ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class));
  }

  private static byte[] value(long n, int bytes) {
    int words = (bytes + Long.BYTES - 1) / Long.BYTES;
    ByteBuffer value = ByteBuffer.allocate(words * Long.BYTES).putLong(n);
    for (int word = 1; word < words; word++) {
      value.putLong(mix(n + (word - 1) * STEP));
    }
    return value.array().length == bytes ? value.array() : Arrays.copyOf(value.array(), bytes);
  }

  /** The finalizer of SplitMix64 (Steele, Lea, Flood 2014): no two words of it look alike. */
  private static long mix(long z) {
    z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
    z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
    return z ^ (z >>> 31);
  }
}
