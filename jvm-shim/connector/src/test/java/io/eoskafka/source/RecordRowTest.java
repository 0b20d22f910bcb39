package io.eoskafka.source;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.charset.StandardCharsets;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.StructType;
import org.junit.jupiter.api.Test;

class RecordRowTest {
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
    InternalRow row =
        RecordRow.create(false).of(record("tópic", 42, "key", "value", new RecordHeaders()));
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
    RecordRow row = RecordRow.create(false);
    InternalRow nulls = row.of(record("t", 1, null, null, new RecordHeaders())).copy();
    InternalRow empty = row.of(record("t", 2, "", "", new RecordHeaders())).copy();
    assertThat(nulls.isNullAt(0)).isTrue();
    assertThat(nulls.isNullAt(1)).isTrue();
    assertThat(empty.isNullAt(0)).isFalse();
    assertThat(empty.getBinary(0)).isEmpty();
    assertThat(empty.getBinary(1)).isEmpty();
  }

  @Test
  void itsProjectionIsARowOfSparks() {
    RecordRow row = RecordRow.create(true);
    UnsafeProjection projection = UnsafeProjection.create(RecordRow.schema(true));
    Headers given = headers("h", "v");
    assertThat(projection.apply(row.of(record("a topic", 1, null, "x".repeat(5_000), given))))
        .satisfies(
            first -> {
              assertThat(first.isNullAt(0)).isTrue();
              assertThat(first.getBinary(1)).hasSize(5_000);
              assertHeader(first.getArray(7), 0, "h", bytes("v"));
            });
    UnsafeRow second = projection.apply(row.of(record("t", 2, "k", null, new RecordHeaders())));
    assertThat(second.getBinary(0)).isEqualTo(bytes("k"));
    assertThat(second.isNullAt(1)).isTrue();
    assertThat(second.getUTF8String(2)).hasToString("t");
    assertThat(second.getInt(3)).isEqualTo(3);
    assertThat(second.getLong(4)).isEqualTo(2);
    assertThat(second.getLong(5)).isEqualTo(1_700_000_000_123_000L);
    assertThat(second.getInt(6)).isEqualTo(1);
    assertThat(second.isNullAt(7)).isTrue();
  }

  @Test
  void columnsCanBeAskedForByTheirType() {
    InternalRow row = RecordRow.create(true).of(record("t", 2, "k", null, headers("h", "v")));
    StructType schema = RecordRow.schema(true);
    assertThat(row.toSeq(schema).mkString("|"))
        .matches("\\[B@\\w+\\|null\\|t\\|3\\|2\\|1700000000123000\\|1\\|.*");
    assertThat(row.getBinaryView(0).getBytes()).isEqualTo(bytes("k"));
    assertThat(row.getBinaryView(1)).isNull();
  }

  @Test
  void aTimestampThatSparkCannotHoldIsAnError() {
    ConsumerRecord<byte[], byte[]> late =
        new ConsumerRecord<>(
            "t",
            0,
            7,
            Long.MAX_VALUE,
            TimestampType.CREATE_TIME,
            -1,
            -1,
            null,
            null,
            new RecordHeaders(),
            Optional.empty());
    assertThatThrownBy(() -> RecordRow.create(false).of(late))
        .hasMessageContaining("EOSKAFKA_TIMESTAMP_TOO_LARGE");
  }

  @Test
  void headersAreKeptInOrderWithDuplicatesAndNulls() {
    Headers given = new RecordHeaders();
    given.add("a", bytes("1"));
    given.add("b", null);
    given.add("a", bytes(""));
    given.add("", bytes("x".repeat(1_000)));
    given.add("ü", new byte[] {0, -1});
    InternalRow row = RecordRow.create(true).of(record("t", 1, "k", "v", given));
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
