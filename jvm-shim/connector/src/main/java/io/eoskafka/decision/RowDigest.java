package io.eoskafka.decision;

import java.nio.charset.StandardCharsets;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.spark.sql.catalyst.expressions.XXH64;
import org.apache.spark.unsafe.Platform;

/**
 * Tells whether a writer that runs again makes the same records, in whatever order: a sum of 64-bit
 * hashes (xxHash64), one of each record. It finds accidents, not forgeries.
 */
final class RowDigest {
  private static final long SEED = 0x656f736b61666b61L;
  private static final long ABSENT = 0x9e3779b97f4a7c15L;

  private long rows;
  private long sum;

  void add(ProducerRecord<byte[], byte[]> record) {
    long hash = hash(record.topic().getBytes(StandardCharsets.UTF_8), SEED);
    hash = XXH64.hashInt(record.partition() == null ? -1 : record.partition(), hash);
    hash = hash(record.key(), hash);
    hash = hash(record.value(), hash);
    for (Header header : record.headers()) {
      hash = hash(header.key().getBytes(StandardCharsets.UTF_8), hash);
      hash = hash(header.value(), hash);
    }
    rows++;
    sum += hash;
  }

  private static long hash(byte[] bytes, long seed) {
    return bytes == null
        ? XXH64.hashLong(ABSENT, seed)
        : XXH64.hashUnsafeBytes(
            bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length, XXH64.hashInt(bytes.length, seed));
  }

  long rows() {
    return rows;
  }

  long sum() {
    return sum;
  }
}
