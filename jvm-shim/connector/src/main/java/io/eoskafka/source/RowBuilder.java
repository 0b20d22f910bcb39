package io.eoskafka.source;

import io.eoskafka.config.EosKafkaException;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeArrayWriter;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Writes a record straight into the row format that Spark's operators read. The row is reused, as
 * operators that keep rows copy them.
 */
final class RowBuilder {
  private static final StructType HEADER =
      new StructType().add("key", DataTypes.StringType).add("value", DataTypes.BinaryType);
  private static final StructType WITHOUT_HEADERS =
      new StructType()
          .add("key", DataTypes.BinaryType)
          .add("value", DataTypes.BinaryType)
          .add("topic", DataTypes.StringType)
          .add("partition", DataTypes.IntegerType)
          .add("offset", DataTypes.LongType)
          .add("timestamp", DataTypes.TimestampType)
          .add("timestampType", DataTypes.IntegerType);
  private static final StructType WITH_HEADERS =
      WITHOUT_HEADERS.add("headers", DataTypes.createArrayType(HEADER));

  private final boolean includeHeaders;
  private final UnsafeRowWriter row;
  private final Map<String, UTF8String> topics = new HashMap<>();
  private String lastTopic;
  private UTF8String lastTopicUtf8;

  RowBuilder(boolean includeHeaders) {
    this.includeHeaders = includeHeaders;
    row = new UnsafeRowWriter(schema(includeHeaders).length(), 256);
  }

  /** The built-in connector's columns. */
  static StructType schema(boolean includeHeaders) {
    return includeHeaders ? WITH_HEADERS : WITHOUT_HEADERS;
  }

  UnsafeRow build(ConsumerRecord<byte[], byte[]> record) {
    row.reset();
    row.zeroOutNullBytes();
    writeBytes(row, 0, record.key());
    writeBytes(row, 1, record.value());
    row.write(2, topic(record.topic()));
    row.write(3, record.partition());
    row.write(4, record.offset());
    row.write(5, microseconds(record));
    row.write(6, record.timestampType().id);
    if (includeHeaders) {
      writeHeaders(record.headers());
    }
    return row.getRow();
  }

  private static long microseconds(ConsumerRecord<byte[], byte[]> record) {
    try {
      return Math.multiplyExact(record.timestamp(), 1_000L);
    } catch (ArithmeticException e) {
      throw EosKafkaException.of(
          "EOSKAFKA_TIMESTAMP_TOO_LARGE",
          Map.of(
              "topic", record.topic(),
              "partition", record.partition(),
              "offset", record.offset(),
              "timestamp", record.timestamp()),
          e);
    }
  }

  private UTF8String topic(String topic) {
    if (topic != lastTopic) {
      lastTopic = topic;
      lastTopicUtf8 = topics.computeIfAbsent(topic, UTF8String::fromString);
    }
    return lastTopicUtf8;
  }

  private static void writeBytes(UnsafeRowWriter writer, int ordinal, byte[] bytes) {
    if (bytes == null) {
      writer.setNullAt(ordinal);
    } else {
      writer.write(ordinal, bytes);
    }
  }

  private void writeHeaders(Headers headers) {
    Header[] all = headers.toArray();
    if (all.length == 0) {
      row.setNullAt(7);
      return;
    }
    int before = row.cursor();
    UnsafeArrayWriter array = new UnsafeArrayWriter(row, 8);
    array.initialize(all.length);
    UnsafeRowWriter header = new UnsafeRowWriter(array, 2);
    for (int i = 0; i < all.length; i++) {
      int beforeHeader = array.cursor();
      header.resetRowWriter();
      header.write(0, UTF8String.fromString(all[i].key()));
      writeBytes(header, 1, all[i].value());
      array.setOffsetAndSizeFromPreviousCursor(i, beforeHeader);
    }
    row.setOffsetAndSizeFromPreviousCursor(7, before);
  }
}
