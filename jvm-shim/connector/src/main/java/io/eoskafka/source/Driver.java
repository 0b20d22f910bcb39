package io.eoskafka.source;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.task.TransactionalSink;
import java.util.Map;
import java.util.UUID;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;

/** What a source learns of the running query from its thread. */
final class Driver {
  private Driver() {}

  static SparkContext sparkContext() {
    return SparkContext.getOrCreate();
  }

  /** Whether the query whose thread this is writes to our sink. */
  static boolean sinkIsTransactional() {
    SparkSession session = (SparkSession) SparkSession.active();
    String queryId = session.sparkContext().getLocalProperty(StreamExecution.QUERY_ID_KEY());
    StreamExecution query =
        queryId == null
            ? null
            : session.sharedState().activeStreamingQueries().get(UUID.fromString(queryId));
    if (query == null) {
      throw EosKafkaException.of(
          "EOSKAFKA_SCOPE_BROKEN",
          Map.of("detail", "the source was started outside a streaming query"));
    }
    return query.sink() instanceof TransactionalSink;
  }
}
