package io.eoskafka.task;

import io.eoskafka.transaction.TransactionCounts;
import java.io.Serializable;
import java.util.List;

/**
 * What a task in task scope tells the driver.
 *
 * @param slots that it has had; none where it had no input
 * @param counts of its transaction, and of failed ones before it
 */
public record TaskReport(List<SlotCommit> slots, TransactionCounts counts) implements Serializable {
  public static final TaskReport EMPTY = new TaskReport(List.of(), TransactionCounts.NONE);
}
