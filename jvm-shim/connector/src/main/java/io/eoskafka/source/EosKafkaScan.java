package io.eoskafka.source;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SourceOptions;
import io.eoskafka.spark.SparkVersion;
import java.util.Map;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;

/** The source as Spark plans it. */
public final class EosKafkaScan implements Scan, ScanBuilder {
  private final SourceOptions options;

  public EosKafkaScan(SourceOptions options) {
    this.options = options;
  }

  /** The built-in connector's columns. */
  public static StructType schema(boolean includeHeaders) {
    return RecordRow.schema(includeHeaders);
  }

  @Override
  public Scan build() {
    return this;
  }

  @Override
  public StructType readSchema() {
    return schema(options.includeHeaders());
  }

  @Override
  public String description() {
    return "eoskafka[" + options.strategyValue() + "]";
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return ScanMetrics.ofScan();
  }

  @Override
  public Batch toBatch() {
    return new EosKafkaBatch(options);
  }

  @Override
  public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
    if (!options.ending().isEmpty()) {
      throw EosKafkaException.of("EOSKAFKA_STREAM_WITH_END", Map.of());
    }
    if (SparkVersion.refusesCheckpointV1()) {
      return new CheckpointV1Stream(options, checkpointLocation);
    }
    return SparkVersion.hasRealTime()
        ? new RealTimeMicroBatchStream(options, checkpointLocation)
        : new EosKafkaMicroBatchStream(options, checkpointLocation);
  }
}
