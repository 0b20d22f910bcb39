package io.eoskafka.source;

import io.eoskafka.config.SinkOptions;
import io.eoskafka.config.SinkOptions.TransactionScope;
import io.eoskafka.spark.RunningQuery;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What {@code spark.speculation=true} means for the scope of a batch.
 *
 * <p>Spark starts a copy of a task that runs for longer than a multiple of the median. In task
 * scope both have one transactional id, so the copy fences the original when it begins, however far
 * that has come: the original fails. Such a failure counts towards {@code spark.task.maxFailures},
 * and the copy, which needs as long, gets a copy in turn. So a slot that has much more to do than
 * the others stops the query. In epoch scope each attempt of a writer has an id of its own and the
 * first one to report wins, as Spark means it.
 */
public final class Speculation {
  private static final Logger LOG = LoggerFactory.getLogger(Speculation.class);

  private Speculation() {}

  /** Why a batch is not in task scope if either scope would do, or empty. */
  public static Optional<String> reason(RunningQuery query, TransactionScope scope) {
    // Of the query, not of the batch: Spark leaves out a source that has no new records, and the
    // scope must not change with that.
    boolean needsTaskScope =
        scope == TransactionScope.TASK
            || query.isRealTime()
            || query.sources(TransactionalSource.class).stream()
                .anyMatch(source -> !source.allowsEpochScope());
    return RunningQuery.isSpeculating() && !needsTaskScope
        ? Optional.of(
            "with spark.speculation=true a copy of a task would fence the task in task scope")
        : Optional.empty();
  }

  /** Says at the start of a query what speculation does to it if it can only be in task scope. */
  static void warn(RunningQuery query, GroupSharing sharing, SinkOptions sink) {
    boolean needsTaskScope =
        sink.transactionScope() == TransactionScope.TASK
            || query.isRealTime()
            || !sharing.allowsEpochScope();
    if (RunningQuery.isSpeculating() && needsTaskScope) {
      LOG.warn(
          "spark.speculation=true and task scope: a speculative copy of a task fences the task, which"
              + " fails and is retried. No records are lost or duplicated, but a slot that takes"
              + " much longer than the others can stop the query. Set spark.speculation=false. A"
              + " query without transactionScope=task, ownership=shared and real-time mode runs in"
              + " epoch scope under speculation; one that has shared its group needs a new"
              + " checkpoint and a new group for that.");
    }
  }
}
