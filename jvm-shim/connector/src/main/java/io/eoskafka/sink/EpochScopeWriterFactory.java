package io.eoskafka.sink;

import io.eoskafka.decision.WriterScope;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;

/**
 * @param scope of the batch's writers
 */
record EpochScopeWriterFactory(WriterScope scope, OutputColumns columns)
    implements StreamingDataWriterFactory {
  @Override
  public DataWriter<InternalRow> createWriter(int partitionId, long taskId, long epochId) {
    return new EpochScopeWriter(scope, partitionId, columns);
  }
}
