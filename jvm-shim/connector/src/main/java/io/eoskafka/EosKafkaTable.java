package io.eoskafka;

import io.eoskafka.config.OptionTable;
import io.eoskafka.config.SinkOptions;
import io.eoskafka.config.SourceOptions;
import io.eoskafka.sink.EosKafkaWriteBuilder;
import io.eoskafka.sink.SinkMetrics;
import io.eoskafka.source.EosKafkaScan;
import io.eoskafka.spark.TransactionalSink;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.ReportsSinkMetrics;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Topics as a table: a source and a sink of streams and batches. */
final class EosKafkaTable
    implements SupportsRead, SupportsWrite, TransactionalSink, ReportsSinkMetrics {
  /** The name of the format, as users write it. */
  static final String NAME = "eoskafka";

  private final StructType schema;
  private final Map<String, String> properties;
  private final SinkMetrics metrics = new SinkMetrics();

  /**
   * @param properties of a table in Spark's catalog, including its options
   */
  EosKafkaTable(StructType schema, Map<String, String> properties) {
    this.schema = schema;
    this.properties = properties;
  }

  /**
   * Adds those of the table's own options that belong to one side: SQL reads and writes the same
   * table.
   */
  private CaseInsensitiveStringMap with(String side, CaseInsensitiveStringMap options) {
    Map<String, String> all = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
    properties.forEach(
        (name, value) -> {
          if (OptionTable.isOption(name) && OptionTable.mayBeOn(side, name)) {
            all.put(name, value);
          } else if (name.startsWith(TableCatalog.OPTION_PREFIX)) {
            // A name that the connector does not know is refused.
            String option = name.substring(TableCatalog.OPTION_PREFIX.length());
            if (OptionTable.mayBeOn(side, option)) {
              all.put(option, value);
            }
          }
        });
    all.putAll(options.asCaseSensitiveMap());
    return new CaseInsensitiveStringMap(all);
  }

  @Override
  public String name() {
    return NAME;
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
        // For INSERT INTO. With BATCH_WRITE Spark would run the tasks of a DataFrame's write
        // itself.
        TableCapability.V1_BATCH_WRITE,
        TableCapability.ACCEPT_ANY_SCHEMA);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new EosKafkaScan(SourceOptions.parse(with("source", options)));
  }

  @Override
  public SinkOptions sinkOptions(CaseInsensitiveStringMap written) {
    return SinkOptions.parse(with("sink", written));
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new EosKafkaWriteBuilder(sinkOptions(info.options()), info.schema(), metrics);
  }

  @Override
  public Map<String, String> metrics() {
    return metrics.values();
  }
}
