package io.eoskafka.source;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.spark.SparkVersion;
import java.util.HashMap;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A record as Spark's operators see it: one row for all records, whose columns are made when they
 * are read. Spark plans a projection over every scan of rows, which copies just those columns that
 * the query needs; a key or value is handed to it as the consumer's own array, and nobody writes to
 * that.
 *
 * <p>Spark's own class of rows has every getter of the running version, also those that later
 * versions add.
 */
class RecordRow extends GenericInternalRow {
  private static final long serialVersionUID = 1L;

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

  /** Spark has microseconds. */
  private static final long LATEST_MS = Long.MAX_VALUE / 1_000;

  private static final int KEY = 0;
  private static final int VALUE = 1;
  private static final int TOPIC = 2;
  private static final int PARTITION = 3;
  private static final int OFFSET = 4;
  private static final int TIMESTAMP = 5;
  private static final int TIMESTAMP_TYPE = 6;
  private static final int HEADERS = 7;

  private final boolean includeHeaders;
  private final transient Map<String, UTF8String> topics = new HashMap<>();
  private transient ConsumerRecord<byte[], byte[]> record;

  RecordRow(boolean includeHeaders) {
    this.includeHeaders = includeHeaders;
  }

  /** A row with the getters of the running Spark. */
  static RecordRow create(boolean includeHeaders) {
    return SparkVersion.hasBinaryView()
        ? new BinaryViewRow(includeHeaders)
        : new RecordRow(includeHeaders);
  }

  /** The built-in connector's columns. */
  static StructType schema(boolean includeHeaders) {
    return includeHeaders ? WITH_HEADERS : WITHOUT_HEADERS;
  }

  /**
   * This row, of another record.
   *
   * @throws EosKafkaException {@code EOSKAFKA_TIMESTAMP_TOO_LARGE}; not where the column is read,
   *     since Spark's {@code try_} functions would make a null of it
   */
  RecordRow of(ConsumerRecord<byte[], byte[]> next) {
    if (next.timestamp() > LATEST_MS || next.timestamp() < -LATEST_MS) {
      throw EosKafkaException.of(
          "EOSKAFKA_TIMESTAMP_TOO_LARGE",
          Map.of(
              "topic", next.topic(),
              "partition", next.partition(),
              "offset", next.offset(),
              "timestamp", next.timestamp()));
    }
    record = next;
    return this;
  }

  @Override
  public int numFields() {
    return schema(includeHeaders).length();
  }

  @Override
  public RecordRow copy() {
    return create(includeHeaders).of(record);
  }

  @Override
  public boolean isNullAt(int ordinal) {
    return switch (ordinal) {
      case KEY -> record.key() == null;
      case VALUE -> record.value() == null;
      case HEADERS -> !record.headers().iterator().hasNext();
      default -> false;
    };
  }

  @Override
  public final byte[] getBinary(int ordinal) {
    return switch (ordinal) {
      case KEY -> record.key();
      case VALUE -> record.value();
      default -> throw otherType(ordinal);
    };
  }

  @Override
  public UTF8String getUTF8String(int ordinal) {
    if (ordinal != TOPIC) {
      throw otherType(ordinal);
    }
    return topics.computeIfAbsent(record.topic(), UTF8String::fromString);
  }

  @Override
  public int getInt(int ordinal) {
    return switch (ordinal) {
      case PARTITION -> record.partition();
      case TIMESTAMP_TYPE -> record.timestampType().id;
      default -> throw otherType(ordinal);
    };
  }

  @Override
  public long getLong(int ordinal) {
    return switch (ordinal) {
      case OFFSET -> record.offset();
      case TIMESTAMP -> record.timestamp() * 1_000;
      default -> throw otherType(ordinal);
    };
  }

  @Override
  public ArrayData getArray(int ordinal) {
    if (ordinal != HEADERS) {
      throw otherType(ordinal);
    }
    Header[] all = record.headers().toArray();
    if (all.length == 0) {
      return null;
    }
    Object[] rows = new Object[all.length];
    for (int i = 0; i < all.length; i++) {
      rows[i] =
          new GenericInternalRow(
              new Object[] {UTF8String.fromString(all[i].key()), all[i].value()});
    }
    return new GenericArrayData(rows);
  }

  /** What getters have that are not here: no column is of their type. */
  @Override
  public Object genericGet(int ordinal) {
    if (isNullAt(ordinal)) {
      return null;
    }
    return switch (ordinal) {
      case KEY, VALUE -> getBinary(ordinal);
      case TOPIC -> getUTF8String(ordinal);
      case PARTITION, TIMESTAMP_TYPE -> getInt(ordinal);
      case OFFSET, TIMESTAMP -> getLong(ordinal);
      case HEADERS -> getArray(ordinal);
      default -> throw otherType(ordinal);
    };
  }

  @Override
  public Object[] values() {
    return IntStream.range(0, numFields()).mapToObj(this::genericGet).toArray();
  }

  @Override
  public void setNullAt(int ordinal) {
    throw new UnsupportedOperationException("A record's row is not written to");
  }

  @Override
  public void update(int ordinal, Object value) {
    throw new UnsupportedOperationException("A record's row is not written to");
  }

  private static UnsupportedOperationException otherType(int ordinal) {
    return new UnsupportedOperationException("Column " + ordinal + " is not of this type");
  }
}
