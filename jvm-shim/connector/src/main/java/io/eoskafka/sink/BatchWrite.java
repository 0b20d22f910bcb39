package io.eoskafka.sink;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SinkOptions;
import io.eoskafka.config.SinkOptions.TransactionScope;
import io.eoskafka.decision.DecisionOwners;
import io.eoskafka.decision.EpochBatch;
import io.eoskafka.decision.EpochOwner;
import io.eoskafka.decision.EpochSession;
import io.eoskafka.decision.WriterReport;
import io.eoskafka.decision.WriterScope;
import io.eoskafka.spark.Rows;
import io.eoskafka.spark.RunningQuery;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.api.java.function.Function2;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.catalyst.InternalRow;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A batch write. It is always in epoch scope: one decision says whether all of its rows take effect
 * or none does. The rows then become visible to {@code read_committed} consumers writer by writer.
 * Inside {@code foreachBatch} a write takes effect once per batch, however often Spark runs the
 * batch.
 */
public final class BatchWrite {
  private static final Logger LOG = LoggerFactory.getLogger(BatchWrite.class);

  /**
   * The owners whose writes are running in this JVM: the query's run, if any, and the owner's id.
   */
  private static final Set<String> WRITING = ConcurrentHashMap.newKeySet();

  private BatchWrite() {}

  /**
   * @throws EosKafkaException {@code EOSKAFKA_SAVE_MODE}, {@code EOSKAFKA_SECOND_WRITE}, {@code
   *     EOSKAFKA_WRITE_ID_USED}, {@code EOSKAFKA_WRITE_IN_PROGRESS}, {@code
   *     EOSKAFKA_WRITE_RENAMED}, {@code EOSKAFKA_WRITE_OFF_THREAD}, {@code
   *     EOSKAFKA_WRITE_THROUGH_CONNECT}, and those of an epoch
   */
  public static void run(Dataset<Row> rows, SaveMode mode, SinkOptions options) {
    if (mode == SaveMode.Overwrite || mode == SaveMode.Ignore) {
      throw EosKafkaException.of("EOSKAFKA_SAVE_MODE", Map.of("mode", mode));
    }
    if (options.transactionScope() == TransactionScope.TASK) {
      throw EosKafkaException.of(
          "EOSKAFKA_SCOPE_REFUSED", Map.of("reason", "a batch write is always in epoch scope"));
    }
    OutputColumns columns = OutputColumns.of(rows.schema(), options);
    Optional<RunningQuery> query = RunningQuery.ofWrite(rows);
    String writeId = options.writeId().orElse("");
    EpochOwner owner =
        query
            .map(running -> EpochOwner.ofForeachBatch(running, writeId))
            .orElseGet(
                () ->
                    EpochOwner.ofJob(
                        options.writeId().orElseGet(() -> UUID.randomUUID().toString()),
                        options.decisionTopic()));
    // A thread of a run that was stopped may still write.
    String writing = query.map(running -> running.runId() + "/").orElse("") + owner.id();
    if (!WRITING.add(writing)) {
      // Before it has an id: it would fence the first one's producers.
      throw EosKafkaException.of("EOSKAFKA_WRITE_IN_PROGRESS", Map.of("owner", owner.name()));
    }
    try {
      if (query.isPresent()) {
        DecisionOwners.of(query.get())
            .write(owner, query.get(), options, batch -> write(rows, columns, batch));
      } else {
        runJob(rows, columns, owner, options);
      }
    } finally {
      WRITING.remove(writing);
    }
  }

  private static void runJob(
      Dataset<Row> rows, OutputColumns columns, EpochOwner owner, SinkOptions options) {
    boolean comesAgain = options.writeId().isPresent();
    LOG.info("Batch write {} begins", owner.writeId());
    EpochSession session = EpochSession.open(owner, options);
    EpochBatch batch = null;
    boolean done = false;
    try {
      batch = session.begin(0, options);
      write(rows, columns, batch);
      done = true;
    } catch (RuntimeException e) {
      if (!comesAgain && batch != null && batch.mayBeDecided()) {
        throw EosKafkaException.of(
            "EOSKAFKA_JOB_UNSETTLED",
            Map.of("owner", session.ownerName(), "cause", EosKafkaException.plain(e)),
            e);
      }
      throw e;
    } finally {
      // Not in a catch block: Spark throws checked exceptions that it does not declare.
      if (!comesAgain && (done || batch == null || !batch.mayBeDecided())) {
        forget(session, owner.writeId());
      }
      session.close();
    }
  }

  private static void forget(EpochSession session, String name) {
    try {
      session.forget();
    } catch (RuntimeException e) {
      LOG.warn("The entry of batch write {} stays in the decision topic", name, e);
    }
  }

  private static void write(Dataset<Row> rows, OutputColumns columns, EpochBatch batch) {
    boolean done = false;
    try {
      List<ReportMessage> reports =
          Rows.asOperatorsHave(rows)
              .mapPartitionsWithIndex(new WriteTask(batch.scope(), columns), true)
              .collect();
      batch.commit(
          reports.stream().map(report -> report.as(WriterReport.class)).toList(), List.of());
      done = true;
    } finally {
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
      EpochScopeWriter writer = new EpochScopeWriter(scope, partition, columns);
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
