package io.eoskafka.sink;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SinkOptions;
import io.eoskafka.config.SinkOptions.TransactionScope;
import io.eoskafka.decision.DecisionOwners;
import io.eoskafka.decision.EpochBatch;
import io.eoskafka.decision.EpochOwner;
import io.eoskafka.decision.EpochSessions;
import io.eoskafka.decision.WriterReport;
import io.eoskafka.source.RealTime;
import io.eoskafka.source.SlotReaderFactory;
import io.eoskafka.source.Speculation;
import io.eoskafka.source.TransactionalSource;
import io.eoskafka.spark.BatchPlan;
import io.eoskafka.spark.RunningQuery;
import io.eoskafka.task.SlotCommit;
import io.eoskafka.task.TaskReport;
import io.eoskafka.transaction.TransactionCounts;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.stream.Stream;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The driver's side of the sink, one per batch: it fixes the batch's scope before any of its tasks
 * runs, and ends the batch.
 */
final class EosKafkaStreamingWrite implements StreamingWrite {
  private static final Logger LOG = LoggerFactory.getLogger(EosKafkaStreamingWrite.class);

  private final SinkOptions options;
  private final OutputColumns columns;
  private final SinkMetrics metrics;
  private BatchPlan<TransactionalSource> plan;
  private List<TransactionalSource> sources = List.of();

  /** Null in task scope. */
  private EpochBatch epoch;

  EosKafkaStreamingWrite(SinkOptions options, OutputColumns columns, SinkMetrics metrics) {
    this.options = options;
    this.columns = columns;
    this.metrics = metrics;
  }

  @Override
  public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
    RunningQuery query = RunningQuery.ofThisThread();
    plan =
        BatchPlan.ofRunningBatch(
            TransactionalSource.class, SparkContext.getOrCreate(), info.numPartitions());
    sources = new ArrayList<>(plan.sources());
    Optional<String> unread = addUnread(query);
    Optional<String> reason =
        plan.notTaskScope()
            .or(() -> unread)
            .or(() -> sources.stream().flatMap(source -> source.notForTasks().stream()).findFirst())
            .or(() -> Speculation.reason(query, options.transactionScope()));
    // An epoch that was decided is run again as what it was.
    boolean decided =
        EpochSessions.running(query).filter(used -> used.isDecided(plan.epoch())).isPresent();
    if (query.isRealTime()) {
      Optional<String> folded =
          query.sources(TransactionalSource.class).stream()
              .filter(source -> !plan.sources().contains(source))
              .map(source -> "its plan reads nothing of " + source)
              .findFirst();
      requireRealTime(folded.or(() -> reason), info.numPartitions());
    }
    if (options.transactionScope() == TransactionScope.TASK && (reason.isPresent() || decided)) {
      throw refused(reason.orElse("its last batch was decided in epoch scope and is not logged"));
    }
    if (options.transactionScope() == TransactionScope.EPOCH || reason.isPresent() || decided) {
      String why = reason.orElse("transactionScope=epoch");
      for (TransactionalSource source : sources) {
        source.requireExclusive(why);
        source.requireNoTaskLeft(plan.epoch(), why);
      }
      return inEpochScope(query);
    }
    if (!query.isRealTime() && query.hasOwnFileManager()) {
      // The group says what is done, but Spark does not start if its log lacks a batch.
      query.requireLogged();
    }
    String token = UUID.randomUUID() + "/" + plan.epoch();
    for (BatchPlan.ScanOfBatch<TransactionalSource> scan : plan.scans()) {
      ((SlotReaderFactory) scan.readers())
          .runInTaskScope(
              scan.source()
                  .taskScope(
                      token,
                      plan.epoch(),
                      options,
                      plan.notSynchronous().isEmpty(),
                      !plan.putsSlotsTogether()));
    }
    return new TaskScopeWriterFactory(token, columns);
  }

  /** Real-time mode commits while tasks run, so each task must commit for itself, in task scope. */
  private void requireRealTime(Optional<String> notTaskScope, int tasks) {
    if (options.transactionScope() == TransactionScope.EPOCH) {
      throw RealTime.refused("transactionScope=epoch commits a batch at its end");
    }
    notTaskScope.ifPresent(
        reason -> {
          throw RealTime.refused("its plan is not one for task scope: " + reason);
        });
    plan.notSynchronous()
        .ifPresent(
            operator -> {
              throw RealTime.refused(
                  "its plan has " + operator + ", which may hold rows back until a batch's end");
            });
    if (plan.putsSlotsTogether()) {
      throw RealTime.refused("coalesce would leave slots unread until a batch's end");
    }
    int cores = RunningQuery.cores();
    if (tasks > cores) {
      LOG.warn(
          "{} slots and {} cores: a slot that gets no core before the batch's end reads nothing; "
              + "set the option slots of each source",
          tasks,
          cores);
    }
  }

  private StreamingDataWriterFactory inEpochScope(RunningQuery query) {
    if (plan.isStateful()) {
      sources.forEach(TransactionalSource::requireSparksStart);
    }
    epoch = DecisionOwners.of(query).begin(EpochOwner.ofSink(query), query, options, plan.epoch());
    return new EpochScopeWriterFactory(epoch.scope(), columns);
  }

  /**
   * Adds sources with new records that no task reads, because Spark knows that none passes a
   * filter: these records count as done, like those that a filter has dropped.
   *
   * @return why the batch is then not in task scope
   */
  private Optional<String> addUnread(RunningQuery query) {
    Optional<String> reason = Optional.empty();
    for (RunningQuery.SourceBatch<TransactionalSource> batch :
        query.sourcesOfBatch(TransactionalSource.class)) {
      TransactionalSource source = batch.stream();
      if (batch.hasNews() && sources.stream().noneMatch(read -> read == source)) {
        // At a start Spark has the text from its log instead of offsets.
        source.planInputPartitions(
            batch.start() == null
                ? source.initialOffset()
                : source.deserializeOffset(batch.start().json()),
            source.deserializeOffset(batch.end().json()));
        sources.add(source);
        reason = Optional.of("its plan reads none of the new records of " + source);
      }
    }
    return reason;
  }

  private static EosKafkaException refused(String reason) {
    return EosKafkaException.of("EOSKAFKA_SCOPE_REFUSED", Map.of("reason", reason));
  }

  /** The group coordinator, the producers' ids and the decision decide, not Spark's driver. */
  @Override
  public boolean useCommitCoordinator() {
    return false;
  }

  @Override
  public void commit(long epochId, WriterCommitMessage[] messages) {
    if (epoch != null) {
      List<WriterReport> reports =
          Stream.of(messages)
              .map(message -> ((ReportMessage) message).as(WriterReport.class))
              .toList();
      long began = System.nanoTime();
      int transactions = epoch.commit(reports, sources);
      TransactionCounts counts =
          new TransactionCounts(transactions, 0, 0, (System.nanoTime() - began) / 1_000_000);
      for (WriterReport report : reports) {
        counts = counts.plus(report.failed());
      }
      metrics.epoch(counts, epoch.timeLeftMs());
      plan.report(metrics.numbers());
      return;
    }
    List<SlotCommit> commits = new ArrayList<>();
    TransactionCounts counts = TransactionCounts.NONE;
    for (WriterCommitMessage message : messages) {
      TaskReport report = ((ReportMessage) message).as(TaskReport.class);
      commits.addAll(report.slots());
      counts = counts.plus(report.counts());
    }
    for (TransactionalSource source : sources) {
      source.taskScopeCommitted(epochId, commits);
    }
    metrics.batch("task", counts);
    plan.report(metrics.numbers());
  }

  /**
   * In task scope tasks end their own transactions, and those of lost executors end when the query
   * stops. A query that stops in real-time mode ends its batch this way.
   */
  @Override
  public void abort(long epochId, WriterCommitMessage[] messages) {
    if (epoch != null) {
      epoch.abort();
      return;
    }
    LOG.warn("Batch {} did not end; what its tasks have committed is not done again", epochId);
  }
}
