package io.eoskafka.source;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SinkOptions;
import io.eoskafka.config.SourceOptions;
import io.eoskafka.group.GroupInspector;
import io.eoskafka.group.GroupOffsets;
import io.eoskafka.group.Membership;
import io.eoskafka.identity.Identity;
import io.eoskafka.spark.RunningQuery;
import io.eoskafka.task.SlotWork;
import io.eoskafka.transaction.DepartedDrivers;
import io.eoskafka.transaction.OpenTransactions;
import java.util.Collection;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * What a driver does differently in a group that several drivers share ({@code ownership=shared}):
 * at its start and with each batch. How it joins and leaves the group is the concern of {@link
 * Membership}.
 */
interface GroupSharing {

  /** As the option {@code ownership} has it. */
  static GroupSharing of(boolean isShared) {
    return isShared ? new SharedGroup() : new ExclusiveGroup();
  }

  /**
   * What a driver joins its group with.
   *
   * @param member has not joined yet
   * @param release the number of this driver's release; null unless the group is shared
   * @param departed ends what drivers that have left the group left open; null unless it is shared
   */
  record Place(Membership member, GroupInspector.Release release, DepartedDrivers departed) {}

  /**
   * Refuses a query that cannot be in such a group, before anything is written.
   *
   * @param committed what the group has
   * @param sinkIsOnSourceCluster whether the sink is on the source's cluster
   * @param isOfBuiltIn whether the checkpoint is the built-in connector's
   */
  void require(
      RunningQuery query,
      Map<TopicPartition, OffsetAndMetadata> committed,
      boolean sinkIsOnSourceCluster,
      boolean isOfBuiltIn);

  /** Whether batches may be in epoch scope, which needs the group for one driver alone. */
  boolean allowsEpochScope();

  /**
   * Refuses a batch that needs the group for one driver alone, if it is shared.
   *
   * @throws EosKafkaException {@code EOSKAFKA_SHARED_BATCH_REFUSED}
   */
  void requireExclusive(Identity identity, String reason);

  /**
   * Makes a driver's membership, and what belongs to it.
   *
   * @param members who is in the group
   * @param transactions of the query's producers
   */
  Place place(
      SourceOptions options,
      Identity identity,
      Admin admin,
      GroupInspector members,
      OpenTransactions transactions);

  /**
   * Whether a driver keeps in its checkpoint which partitions' first starts are not known to be
   * committed, since other drivers commit some of them; see {@link CheckpointFiles#readUnresolved}.
   */
  boolean keepsUnresolved();

  /**
   * The offsets that drivers, this one included, have committed of other partitions than these. It
   * asks the group coordinator. Nothing where this driver knows what it has begun.
   */
  Map<TopicPartition, OffsetAndMetadata> committedBesides(
      Collection<TopicPartition> these, GroupOffsets offsets, Set<TopicPartition> all);

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
   * A batch in task scope has ended.
   *
   * @return slots whose producers were fenced, since an attempt of theirs could still have
   *     committed
   */
  Set<Integer> end(GroupProgress progress);

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
