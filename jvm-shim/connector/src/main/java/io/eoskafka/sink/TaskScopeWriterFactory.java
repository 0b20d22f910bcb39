package io.eoskafka.sink;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;

/**
 * @param token of the batch's scope; the reader in the same task must carry the same
 */
record TaskScopeWriterFactory(String token, OutputColumns columns)
    implements StreamingDataWriterFactory {
  @Override
  public DataWriter<InternalRow> createWriter(int partitionId, long taskId, long epochId) {
    return new TaskScopeWriter(token, columns);
  }
}
