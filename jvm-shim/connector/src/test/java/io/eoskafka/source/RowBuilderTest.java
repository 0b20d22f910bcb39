package io.eoskafka.source;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.charset.StandardCharsets;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.junit.jupiter.api.Test;

class RowBuilderTest {
  private static byte[] bytes(String text) {
    return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
  }

  private static ConsumerRecord<byte[], byte[]> record(
      String topic, long offset, String key, String value, Headers headers) {
    return new ConsumerRecord<>(
        topic,
        3,
        offset,
        1_700_000_000_123L,
        TimestampType.LOG_APPEND_TIME,
        -1,
        -1,
        bytes(key),
        bytes(value),
        headers,
        Optional.empty());
  }

  @Test
  void everyColumnIsThere() {
    UnsafeRow row =
        new RowBuilder(false).build(record("tópic", 42, "key", "value", new RecordHeaders()));
    assertThat(row.numFields()).isEqualTo(7);
    assertThat(row.getBinary(0)).isEqualTo(bytes("key"));
    assertThat(row.getBinary(1)).isEqualTo(bytes("value"));
    assertThat(row.getUTF8String(2)).hasToString("tópic");
    assertThat(row.getInt(3)).isEqualTo(3);
    assertThat(row.getLong(4)).isEqualTo(42);
    assertThat(row.getLong(5)).isEqualTo(1_700_000_000_123_000L);
    assertThat(row.getInt(6)).isEqualTo(1);
  }

  @Test
  void nullAndEmptyAreNotTheSame() {
    RowBuilder rows = new RowBuilder(false);
    UnsafeRow nulls = rows.build(record("t", 1, null, null, new RecordHeaders())).copy();
    UnsafeRow empty = rows.build(record("t", 2, "", "", new RecordHeaders())).copy();
    assertThat(nulls.isNullAt(0)).isTrue();
    assertThat(nulls.isNullAt(1)).isTrue();
    assertThat(empty.isNullAt(0)).isFalse();
    assertThat(empty.getBinary(0)).isEmpty();
    assertThat(empty.getBinary(1)).isEmpty();
  }

  @Test
  void aRowDoesNotKeepTheFormersNullsOrBytes() {
    RowBuilder rows = new RowBuilder(true);
    rows.build(
        record("a long topic", 1, null, "a long value " + "x".repeat(5_000), headers("h", "v")));
    UnsafeRow row = rows.build(record("t", 2, "k", "v", new RecordHeaders()));
    assertThat(row.getBinary(0)).isEqualTo(bytes("k"));
    assertThat(row.getBinary(1)).isEqualTo(bytes("v"));
    assertThat(row.getUTF8String(2)).hasToString("t");
    assertThat(row.isNullAt(7)).isTrue();
    row = rows.build(record("t", 3, "k", null, headers("h", "v")));
    assertThat(row.isNullAt(1)).isTrue();
    assertThat(row.isNullAt(7)).isFalse();
  }

  @Test
  void headersAreKeptInOrderWithDuplicatesAndNulls() {
    Headers given = new RecordHeaders();
    given.add("a", bytes("1"));
    given.add("b", null);
    given.add("a", bytes(""));
    given.add("", bytes("x".repeat(1_000)));
    given.add("ü", new byte[] {0, -1});
    UnsafeRow row = new RowBuilder(true).build(record("t", 1, "k", "v", given));
    ArrayData headers = row.getArray(7);
    assertThat(headers.numElements()).isEqualTo(5);
    assertHeader(headers, 0, "a", bytes("1"));
    assertHeader(headers, 1, "b", null);
    assertHeader(headers, 2, "a", new byte[0]);
    assertHeader(headers, 3, "", bytes("x".repeat(1_000)));
    assertHeader(headers, 4, "ü", new byte[] {0, -1});
    assertThat(row.getBinary(1)).isEqualTo(bytes("v"));
  }

  private static Headers headers(String key, String value) {
    return new RecordHeaders().add(key, bytes(value));
  }

  private static void assertHeader(ArrayData headers, int index, String key, byte[] value) {
    InternalRow header = headers.getStruct(index, 2);
    assertThat(header.getUTF8String(0)).hasToString(key);
    if (value == null) {
      assertThat(header.isNullAt(1)).isTrue();
    } else {
      assertThat(header.getBinary(1)).isEqualTo(value);
    }
  }
}
