package io.eoskafka.sink;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SinkOptions;
import io.eoskafka.config.SinkOptions.TransactionScope;
import io.eoskafka.decision.EpochBatch;
import io.eoskafka.decision.EpochOwner;
import io.eoskafka.decision.EpochSession;
import io.eoskafka.decision.WriterReport;
import io.eoskafka.decision.WriterScope;
import io.eoskafka.query.RunningQuery;
import io.eoskafka.task.WriterTransaction;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import org.apache.spark.api.java.function.Function2;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.catalyst.InternalRow;

/**
 * A batch write: always epoch scope, so all of its rows are visible at once or none ever. Inside
 * {@code foreachBatch} it takes effect once per batch, however often Spark runs the batch.
 */
public final class BatchWrite {
  private BatchWrite() {}

  /**
   * @throws EosKafkaException {@code EOSKAFKA_SAVE_MODE}, {@code EOSKAFKA_SECOND_WRITE}, {@code
   *     EOSKAFKA_WRITE_ID_USED}, and those of an epoch
   */
  public static void run(Dataset<Row> rows, SaveMode mode, SinkOptions options) {
    if (mode == SaveMode.Overwrite || mode == SaveMode.Ignore) {
      throw EosKafkaException.of("EOSKAFKA_SAVE_MODE", Map.of("mode", mode));
    }
    if (options.transactionScope() == TransactionScope.TASK) {
      throw EosKafkaException.of(
          "EOSKAFKA_SCOPE_REFUSED", Map.of("reason", "a batch write is always in epoch scope"));
    }
    OutputColumns columns = OutputColumns.of(rows.schema(), options.topic());
    Optional<RunningQuery> query = RunningQuery.onThisThread();
    if (query.isPresent()) {
      EpochOwner owner = EpochOwner.ofForeachBatch(query.get(), options.writeId().orElse(""));
      write(rows, columns, EpochSession.of(owner, options), query.get().batch());
      return;
    }
    boolean comesAgain = options.writeId().isPresent();
    EpochOwner owner =
        EpochOwner.ofJob(options.writeId().orElseGet(() -> UUID.randomUUID().toString()));
    EpochSession session = EpochSession.of(owner, options);
    try {
      write(rows, columns, session, 0);
      if (!comesAgain) {
        session.forget();
      }
    } finally {
      session.close();
    }
  }

  private static void write(
      Dataset<Row> rows, OutputColumns columns, EpochSession session, long epoch) {
    EpochBatch batch = session.begin(epoch);
    try {
      List<TaskReport> reports =
          rows.queryExecution()
              .toRdd()
              .toJavaRDD()
              .mapPartitionsWithIndex(new WriteTask(batch.scope(), columns), true)
              .collect();
      batch.commit(
          reports.stream().map(report -> report.as(WriterReport.class)).toList(), List.of());
    } catch (RuntimeException e) {
      batch.abort();
      throw e;
    }
  }

  /** Writes one partition. */
  private record WriteTask(WriterScope scope, OutputColumns columns)
      implements Function2<Integer, Iterator<InternalRow>, Iterator<TaskReport>> {
    @Override
    public Iterator<TaskReport> call(Integer partition, Iterator<InternalRow> rows) {
      EpochScopeWriter writer =
          new EpochScopeWriter(new WriterTransaction(scope, partition), columns);
      try {
        while (rows.hasNext()) {
          writer.write(rows.next());
        }
        return List.of(writer.commit()).iterator();
      } catch (RuntimeException | Error e) {
        writer.abort();
        throw e;
      }
    }
  }
}
