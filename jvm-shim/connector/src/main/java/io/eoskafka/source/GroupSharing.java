package io.eoskafka.source;

import io.eoskafka.config.SinkOptions;
import io.eoskafka.task.SlotWork;
import java.util.Collection;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;

/**
 * What a batch does differently in a group that several drivers share ({@code ownership=shared}).
 * How a driver joins and leaves it is the concern of {@link io.eoskafka.group.Membership}.
 */
interface GroupSharing {

  /** As the option {@code ownership} has it. */
  static GroupSharing of(boolean isShared) {
    return isShared ? new SharedGroup() : new ExclusiveGroup();
  }

  /** Whether a partition keeps its slot from batch to batch; see {@link SlotShares}. */
  boolean keepsSlots();

  /**
   * Leaves out of a batch what this driver does not own.
   *
   * @param ends of the batch; it changes
   */
  void keepOwned(Map<TopicPartition, Long> ends, Set<TopicPartition> owned);

  /**
   * A batch is planned.
   *
   * @return see {@link io.eoskafka.task.TaskScope#plan}
   */
  long begin(BatchPlanner.Group group, Collection<SlotWork> work);

  /**
   * What the end of a batch in Spark's log has of partitions that are not in the batch.
   *
   * @param start of the batch by Spark's log
   * @param all partitions of the source, whoever owns them
   */
  Map<TopicPartition, Long> endsOfOthers(PartitionOffsets start, Set<TopicPartition> all);

  /** Whether a query that reads what is there and ends must wait for other drivers. */
  boolean waitsForOthers();

  /** How often a task commits, in milliseconds; 0: at its end. */
  int commitIntervalMs(SinkOptions sink);

  /**
   * Whether a task may leave a part of its range to the next batch: there it must have the same
   * transactional id.
   */
  boolean mayEndEarly();

  /** Whether a task may have committed nothing, since partitions of its slot have moved. */
  boolean mayCommitNothing();

  /** Whether an attempt of a batch that is over could still commit. */
  boolean hasLateAttempts();
}
