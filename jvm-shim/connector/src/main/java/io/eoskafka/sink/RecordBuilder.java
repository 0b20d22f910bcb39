package io.eoskafka.sink;

import io.eoskafka.config.EosKafkaException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.unsafe.types.UTF8String;

/** Makes a record from a row. */
final class RecordBuilder {
  private final OutputColumns columns;
  private final Map<UTF8String, String> topics = new HashMap<>();

  RecordBuilder(OutputColumns columns) {
    this.columns = columns;
  }

  ProducerRecord<byte[], byte[]> build(InternalRow row) {
    return new ProducerRecord<>(
        columns.topicOption() != null ? columns.topicOption() : topic(row),
        columns.partition() < 0 || row.isNullAt(columns.partition())
            ? null
            : row.getInt(columns.partition()),
        null,
        bytes(row, columns.key(), columns.keyIsString()),
        bytes(row, columns.value(), columns.valueIsString()),
        columns.headers() < 0 || row.isNullAt(columns.headers())
            ? null
            : headers(row.getArray(columns.headers())));
  }

  private String topic(InternalRow row) {
    if (row.isNullAt(columns.topic())) {
      throw EosKafkaException.of("EOSKAFKA_NULL_TOPIC", Map.of());
    }
    UTF8String topic = row.getUTF8String(columns.topic());
    String known = topics.get(topic);
    if (known == null) {
      known = topic.toString();
      if (known.equals(columns.decisionTopic())) {
        throw EosKafkaException.of("EOSKAFKA_ROW_FOR_DECISIONS", Map.of("topic", known));
      }
      // The row's memory is reused.
      topics.put(topic.clone(), known);
    }
    return known;
  }

  private static byte[] bytes(InternalRow row, int ordinal, boolean isString) {
    if (ordinal < 0 || row.isNullAt(ordinal)) {
      return null;
    }
    return isString ? row.getUTF8String(ordinal).getBytes() : row.getBinary(ordinal);
  }

  private static List<Header> headers(ArrayData array) {
    List<Header> headers = new ArrayList<>(array.numElements());
    for (int i = 0; i < array.numElements(); i++) {
      InternalRow header = array.getStruct(i, 2);
      if (header == null || header.isNullAt(0)) {
        throw EosKafkaException.of("EOSKAFKA_NULL_HEADER", Map.of());
      }
      headers.add(
          new RecordHeader(
              header.getUTF8String(0).toString(), header.isNullAt(1) ? null : header.getBinary(1)));
    }
    return headers;
  }
}
