package io.eoskafka;

import io.eoskafka.config.SinkOptions;
import io.eoskafka.config.SourceOptions;
import io.eoskafka.query.TransactionalSink;
import io.eoskafka.sink.EosKafkaWriteBuilder;
import io.eoskafka.sink.SinkMetrics;
import io.eoskafka.source.EosKafkaScan;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.ReportsSinkMetrics;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Topics as a table: a source and a sink of streams and batches. */
final class EosKafkaTable
    implements SupportsRead, SupportsWrite, TransactionalSink, ReportsSinkMetrics {
  private final StructType schema;
  private final SinkMetrics metrics = new SinkMetrics();

  EosKafkaTable(StructType schema) {
    this.schema = schema;
  }

  @Override
  public String name() {
    return EosKafkaProvider.NAME;
  }

  @SuppressWarnings("deprecation") // Spark still asks a streaming source's table for it.
  @Override
  public StructType schema() {
    return schema;
  }

  @Override
  public Set<TableCapability> capabilities() {
    return Set.of(
        TableCapability.BATCH_READ,
        TableCapability.MICRO_BATCH_READ,
        TableCapability.STREAMING_WRITE,
        TableCapability.ACCEPT_ANY_SCHEMA);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new EosKafkaScan(SourceOptions.parse(options));
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new EosKafkaWriteBuilder(SinkOptions.parse(info.options()), info.schema(), metrics);
  }

  @Override
  public Map<String, String> metrics() {
    return metrics.values();
  }
}
