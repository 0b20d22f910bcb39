package io.eoskafka.sink;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.task.TaskAttempts;
import io.eoskafka.task.TaskReport;
import io.eoskafka.task.TaskTransaction;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** Writes a task's rows into the transaction that its reader has entered. */
final class TaskScopeWriter implements DataWriter<InternalRow> {
  private final String token;
  private final RecordBuilder records;
  private TaskTransaction transaction;

  TaskScopeWriter(String token, OutputColumns columns) {
    this.token = token;
    this.records = new RecordBuilder(columns);
  }

  @Override
  public void write(InternalRow row) {
    if (transaction == null) {
      transaction = entered();
      if (transaction == null) {
        throw EosKafkaException.of(
            "EOSKAFKA_SCOPE_BROKEN", Map.of("detail", "a row came from no reader of this batch"));
      }
    }
    transaction.send(records.build(row));
  }

  private TaskTransaction entered() {
    TaskTransaction current = TaskAttempts.current();
    if (current != null && !current.token().equals(token)) {
      throw EosKafkaException.of(
          "EOSKAFKA_SCOPE_BROKEN",
          Map.of("detail", "reader has " + current.token() + ", writer has " + token));
    }
    return current;
  }

  @Override
  public WriterCommitMessage commit() {
    if (transaction == null) {
      transaction = entered();
    }
    // An empty report for a task without input: Spark runs one task for a batch with no partitions.
    return ReportMessage.of(transaction == null ? TaskReport.EMPTY : transaction.commit());
  }

  @Override
  public void abort() {
    if (transaction != null) {
      transaction.abort();
    }
  }

  @Override
  public void close() {}
}
