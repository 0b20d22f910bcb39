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
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A batch write: always epoch scope, so all of its rows are visible at once or none ever. Inside
 * {@code foreachBatch} it takes effect once per batch, however often Spark runs the batch.
 */
public final class BatchWrite {
  private static final Logger LOG = LoggerFactory.getLogger(BatchWrite.class);

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
      write(rows, columns, EpochSession.of(owner, options), query.get().batch(), options, false);
      return;
    }
    RunningQuery.checkpointOf(rows)
        .ifPresent(
            checkpoint -> {
              throw EosKafkaException.of(
                  "EOSKAFKA_WRITE_OFF_THREAD", Map.of("checkpoint", checkpoint));
            });
    boolean comesAgain = options.writeId().isPresent();
    String name = options.writeId().orElseGet(() -> UUID.randomUUID().toString());
    LOG.info("Batch write {} begins", name);
    EpochSession session =
        EpochSession.of(EpochOwner.ofJob(name, options.decisionTopic()), options);
    try {
      write(rows, columns, session, 0, options, !comesAgain);
      if (!comesAgain) {
        forget(session, name);
      }
    } finally {
      session.close();
    }
  }

  private static void forget(EpochSession session, String name) {
    try {
      session.forget();
    } catch (RuntimeException e) {
      LOG.warn("Batch write {} has taken effect; its entry stays in the decision topic", name, e);
    }
  }

  /**
   * @param onlyOnce whether a repetition would not be known as one
   */
  private static void write(
      Dataset<Row> rows,
      OutputColumns columns,
      EpochSession session,
      long epoch,
      SinkOptions options,
      boolean onlyOnce) {
    EpochBatch batch = session.begin(epoch, options);
    boolean done = false;
    try {
      List<ReportMessage> reports =
          rows.queryExecution()
              .toRdd()
              .toJavaRDD()
              .mapPartitionsWithIndex(new WriteTask(batch.scope(), columns), true)
              .collect();
      batch.commit(
          reports.stream().map(report -> report.as(WriterReport.class)).toList(), List.of());
      done = true;
    } catch (RuntimeException e) {
      if (onlyOnce && batch.mayBeDecided()) {
        throw EosKafkaException.of(
            "EOSKAFKA_JOB_UNSETTLED",
            Map.of("owner", session.ownerName(), "cause", EosKafkaException.plain(e)),
            e);
      }
      throw e;
    } finally {
      // Not in the catch: Spark throws checked exceptions that Java does not know of.
      if (!done) {
        batch.abort();
      }
    }
  }

  /** Writes one partition. */
  private record WriteTask(WriterScope scope, OutputColumns columns)
      implements Function2<Integer, Iterator<InternalRow>, Iterator<ReportMessage>> {
    @Override
    public Iterator<ReportMessage> call(Integer partition, Iterator<InternalRow> rows) {
      EpochScopeWriter writer =
          new EpochScopeWriter(new WriterTransaction(scope, partition), columns);
      boolean done = false;
      try {
        while (rows.hasNext()) {
          writer.write(rows.next());
        }
        ReportMessage report = writer.commit();
        done = true;
        return List.of(report).iterator();
      } finally {
        if (!done) {
          writer.abort();
        }
      }
    }
  }
}
