package io.eoskafka.task;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.transaction.ExecutorClients;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.TaskContext;

/**
 * Where the readers and the writer of one task attempt find its transaction. Spark passes nothing
 * from one to the other, and the reader may run on a thread of its own.
 */
public final class TaskAttempts {
  private static final Map<Long, TaskTransaction> TRANSACTIONS = new ConcurrentHashMap<>();

  private TaskAttempts() {}

  /**
   * Called by a reader before it reads. The transaction ends with the task: if it was not
   * committed, it is aborted when the task completes, whatever happened to the writer.
   */
  public static TaskTransaction enter(TaskScope scope, SlotWork work, TaskContext task) {
    TaskTransaction transaction = TRANSACTIONS.get(task.taskAttemptId());
    if (transaction == null) {
      TaskTransaction opened = new TaskTransaction(scope, work);
      TRANSACTIONS.put(task.taskAttemptId(), opened);
      ExecutorClients.forgetAfterRefusal(task, scope.source(), scope.sink());
      task.addTaskCompletionListener(
          (org.apache.spark.util.TaskCompletionListener)
              completed -> {
                TRANSACTIONS.remove(completed.taskAttemptId());
                opened.abort();
              });
      transaction = opened;
    }
    if (!transaction.isOf(scope)) {
      throw EosKafkaException.of(
          "EOSKAFKA_SCOPE_BROKEN", Map.of("detail", "a task reads from two sources"));
    }
    transaction.join(work);
    return transaction;
  }

  /** The transaction of the running task, or null if no reader has entered. */
  public static TaskTransaction current() {
    return TRANSACTIONS.get(TaskContext.get().taskAttemptId());
  }
}
