package io.eoskafka.task;

import io.eoskafka.transaction.TransactionCounts;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.SparkEnv;

/**
 * What a task in task scope tells the driver.
 *
 * @param slots the task's slots; none if it had no input
 * @param counts of its transaction, and of failed ones before it
 */
public record TaskReport(List<SlotCommit> slots, TransactionCounts counts) implements Serializable {
  public static final TaskReport EMPTY = new TaskReport(List.of(), TransactionCounts.NONE);

  /**
   * The report of an attempt that has ended.
   *
   * @param producers of the source's {@link io.eoskafka.identity.Identity}
   * @param isCommitted false if the driver gave no fence
   */
  static TaskReport of(
      String producers,
      List<SlotInput> slots,
      boolean isCommitted,
      AttemptOffsets offsets,
      TransactionCounts counts) {
    SparkEnv env = SparkEnv.get();
    List<SlotCommit> commits = new ArrayList<>();
    for (SlotInput input : slots) {
      Map<TopicPartition, Long> reached = new HashMap<>();
      for (SlotRange range : isCommitted ? input.work().ranges() : List.<SlotRange>of()) {
        reached.put(range.topicPartition(), offsets.reached(input, range));
      }
      commits.add(
          new SlotCommit(
              producers,
              input.work().slot(),
              SlotProducers.JVM,
              env.executorId(),
              env.blockManager().blockManagerId().host(),
              reached,
              input.endedEarly(),
              input.stableWaitMs()));
    }
    return new TaskReport(commits, counts);
  }
}
