package io.eoskafka.spark;

import io.eoskafka.config.SinkOptions;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The sink that commits source offsets with its output, so that the group is authoritative. */
public interface TransactionalSink {
  /**
   * @param written the options of a query's write; a table in Spark's catalog adds its own
   */
  SinkOptions sinkOptions(CaseInsensitiveStringMap written);
}
