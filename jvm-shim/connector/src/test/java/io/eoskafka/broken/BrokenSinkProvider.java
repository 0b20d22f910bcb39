package io.eoskafka.broken;

import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A sink that is wrong on purpose, {@code format("eoskafka-broken")}: it commits records in
 * transactions of its own, many to a task, and leaves the source offsets to Spark's log. A killed
 * task has then committed records whose offsets are not. Proofs of exactly-once must catch it.
 */
public final class BrokenSinkProvider implements TableProvider, DataSourceRegister {
  private static final int RECORDS_PER_TRANSACTION = 200;

  @Override
  public String shortName() {
    return "eoskafka-broken";
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return new StructType();
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> options) {
    return new BrokenTable();
  }

  private static final class BrokenTable implements SupportsWrite {
    @Override
    public String name() {
      return "eoskafka-broken";
    }

    @Override
    @SuppressWarnings("deprecation")
    public StructType schema() {
      return new StructType();
    }

    @Override
    public Set<TableCapability> capabilities() {
      return Set.of(TableCapability.STREAMING_WRITE, TableCapability.ACCEPT_ANY_SCHEMA);
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
      BrokenWriterFactory factory =
          new BrokenWriterFactory(
              info.options().get("kafka.bootstrap.servers"),
              info.options().get("topic"),
              ordinal(info.schema(), "key"),
              ordinal(info.schema(), "value"),
              info.schema().apply("key").dataType() instanceof StringType,
              info.schema().apply("value").dataType() instanceof StringType);
      return new WriteBuilder() {
        @Override
        public Write build() {
          return new Write() {
            @Override
            public StreamingWrite toStreaming() {
              return new BrokenWrite(factory);
            }
          };
        }
      };
    }

    private static int ordinal(StructType schema, String name) {
      return schema.fieldIndex(name);
    }
  }

  private record BrokenWrite(BrokenWriterFactory factory) implements StreamingWrite {
    @Override
    public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
      return factory;
    }

    @Override
    public void commit(long epochId, WriterCommitMessage[] messages) {}

    @Override
    public void abort(long epochId, WriterCommitMessage[] messages) {}
  }

  private record BrokenWriterFactory(
      String servers, String topic, int key, int value, boolean keyIsString, boolean valueIsString)
      implements StreamingDataWriterFactory {
    @Override
    public DataWriter<InternalRow> createWriter(int partitionId, long taskId, long epochId) {
      return new BrokenWriter(this, partitionId);
    }
  }

  private record Done() implements WriterCommitMessage {}

  private static final class BrokenWriter implements DataWriter<InternalRow> {
    private static final DataType STRING = DataTypes.StringType;
    private static final DataType BINARY = DataTypes.BinaryType;

    private final BrokenWriterFactory settings;
    private final KafkaProducer<byte[], byte[]> producer;
    private int inTransaction;

    BrokenWriter(BrokenWriterFactory settings, int partition) {
      this.settings = settings;
      producer =
          new KafkaProducer<>(
              Map.of(
                  ProducerConfig.BOOTSTRAP_SERVERS_CONFIG,
                  settings.servers(),
                  ProducerConfig.TRANSACTIONAL_ID_CONFIG,
                  "eoskafka-broken-" + UUID.randomUUID() + "-" + partition,
                  // Nobody fences these ids: what a killed task leaves open ends by itself.
                  ProducerConfig.TRANSACTION_TIMEOUT_CONFIG,
                  5_000,
                  ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG,
                  ByteArraySerializer.class,
                  ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG,
                  ByteArraySerializer.class));
      producer.initTransactions();
    }

    @Override
    public void write(InternalRow row) {
      if (inTransaction == 0) {
        producer.beginTransaction();
      }
      producer.send(
          new ProducerRecord<>(
              settings.topic(),
              bytes(row, settings.key(), settings.keyIsString()),
              bytes(row, settings.value(), settings.valueIsString())));
      if (++inTransaction == RECORDS_PER_TRANSACTION) {
        producer.commitTransaction();
        inTransaction = 0;
      }
    }

    private static byte[] bytes(InternalRow row, int ordinal, boolean isString) {
      if (row.isNullAt(ordinal)) {
        return null;
      }
      return isString
          ? row.get(ordinal, STRING).toString().getBytes(java.nio.charset.StandardCharsets.UTF_8)
          : (byte[]) row.get(ordinal, BINARY);
    }

    @Override
    public WriterCommitMessage commit() {
      if (inTransaction > 0) {
        producer.commitTransaction();
      }
      return new Done();
    }

    @Override
    public void abort() {}

    @Override
    public void close() {
      producer.close(java.time.Duration.ZERO);
    }
  }
}
