package io.eoskafka.decision;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.junit.jupiter.api.Test;

class RowDigestTest {
  private static ProducerRecord<byte[], byte[]> record(
      Integer partition, String key, String value) {
    return new ProducerRecord<>("t", partition, bytes(key), bytes(value));
  }

  private static byte[] bytes(String text) {
    return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
  }

  @SafeVarargs
  private static long digest(ProducerRecord<byte[], byte[]>... records) {
    RowDigest digest = new RowDigest();
    for (ProducerRecord<byte[], byte[]> record : records) {
      digest.add(record);
    }
    assertThat(digest.rows()).isEqualTo(records.length);
    return digest.sum();
  }

  @Test
  void theOrderDoesNotCount() {
    assertThat(digest(record(null, "a", "1"), record(null, "b", "2")))
        .isEqualTo(digest(record(null, "b", "2"), record(null, "a", "1")));
  }

  @Test
  void everyPartOfARecordCounts() {
    long one = digest(record(null, "a", "1"));
    assertThat(digest(record(null, "a", "2"))).isNotEqualTo(one);
    assertThat(digest(record(null, "b", "1"))).isNotEqualTo(one);
    assertThat(digest(record(3, "a", "1"))).isNotEqualTo(one);
    assertThat(digest(record(null, null, "1"))).isNotEqualTo(digest(record(null, "", "1")));
    assertThat(digest(record(null, "a", null))).isNotEqualTo(digest(record(null, "a", "")));
    assertThat(
            digest(
                new ProducerRecord<>(
                    "t", null, null, bytes("a"), bytes("1"), List.of(new RecordHeader("h", null)))))
        .isNotEqualTo(one);
    assertThat(digest(new ProducerRecord<>("u", bytes("a"), bytes("1")))).isNotEqualTo(one);
  }

  @Test
  void bytesDoNotMoveFromKeyToValueUnnoticed() {
    assertThat(digest(record(null, "ab", "c"))).isNotEqualTo(digest(record(null, "a", "bc")));
  }
}
