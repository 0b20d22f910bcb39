package io.eoskafka.source;

import io.eoskafka.config.SourceOptions;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeMode;

/** A source that real-time mode may have: Spark 4.0 has no such interface. */
class RealTimeMicroBatchStream extends EosKafkaMicroBatchStream implements SupportsRealTimeMode {
  RealTimeMicroBatchStream(SourceOptions options, String sourcePath) {
    super(options, sourcePath);
  }
}
