package io.eoskafka.source;

import io.eoskafka.config.SinkOptions;
import io.eoskafka.decision.EpochSource;
import io.eoskafka.task.SlotCommit;
import io.eoskafka.task.TaskScope;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;

/** A source whose offsets our sink commits with its output: what the sink knows of it. */
public interface TransactionalSource extends MicroBatchStream, EpochSource {

  /**
   * Called by the sink once per batch, when the plan has shown that task scope holds.
   *
   * @param token unique per batch and run of the query
   * @param epoch the micro-batch
   * @param isSynchronous whether the records that a reader has handed out have been written by the
   *     time that it is asked for more
   * @param mayEndEarly whether each task reads exactly one slot, so that the task of the next batch
   *     that reads it has the same transactional id
   */
  TaskScope taskScope(
      String token, long epoch, SinkOptions sink, boolean isSynchronous, boolean mayEndEarly);

  /** Whether batches may be in epoch scope: not if other drivers may be members of its group. */
  boolean allowsEpochScope();

  /** Why the planned batch's offsets cannot be in a task's transaction, or empty. */
  Optional<String> notForTasks();

  /**
   * Called by the sink where a batch is not one for task scope.
   *
   * @throws io.eoskafka.config.EosKafkaException {@code EOSKAFKA_SHARED_BATCH_REFUSED}
   */
  void requireExclusive(String reason);

  /**
   * Called by the sink where a batch is in epoch scope.
   *
   * @throws io.eoskafka.config.EosKafkaException {@code EOSKAFKA_SCOPE_NEEDS_RESTART}
   */
  void requireNoTaskLeft(long epoch, String reason);

  /**
   * Called by the sink where a batch keeps state.
   *
   * @throws io.eoskafka.config.EosKafkaException {@code EOSKAFKA_STATE_BEHIND_GROUP}
   */
  void requireSparksStart();

  /**
   * Called by the sink when all tasks of a batch have ended: compares the offsets committed with
   * those planned. A gap fails the batch, since Spark would log it as done.
   */
  void taskScopeCommitted(long epoch, List<SlotCommit> commits);
}
