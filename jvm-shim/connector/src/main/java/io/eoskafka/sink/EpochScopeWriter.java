package io.eoskafka.sink;

import io.eoskafka.decision.WriterOutput;
import io.eoskafka.decision.WriterReport;
import io.eoskafka.decision.WriterScope;
import io.eoskafka.decision.WriterTransaction;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;

/** Writes a task's rows into a transaction that the driver will decide on. */
final class EpochScopeWriter implements DataWriter<InternalRow> {
  private final RecordBuilder records;
  private final WriterTransaction transaction;

  /**
   * @param writer the number of this task in its stage
   */
  EpochScopeWriter(WriterScope scope, int writer, OutputColumns columns) {
    this.transaction = new WriterTransaction(scope, writer, columns.topicOption());
    this.records = new RecordBuilder(columns);
  }

  @Override
  public void write(InternalRow row) {
    transaction.send(records.build(row));
  }

  @Override
  public ReportMessage commit() {
    TaskContext task = TaskContext.get();
    WriterOutput output = transaction.prepare();
    boolean isFirst = task.stageAttemptNumber() == 0 && task.attemptNumber() == 0;
    return ReportMessage.of(
        new WriterReport(output, isFirst && !transaction.mayOpenLate(), transaction.takeFailed()));
  }

  @Override
  public void abort() {
    transaction.abort();
  }

  @Override
  public void close() {}
}
