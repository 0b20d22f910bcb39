package io.eoskafka.source;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SinkOptions;
import io.eoskafka.config.SourceOptions;
import io.eoskafka.group.GroupInspector;
import io.eoskafka.group.GroupOffsets;
import io.eoskafka.group.Membership;
import io.eoskafka.group.SharedMembership;
import io.eoskafka.identity.Identity;
import io.eoskafka.spark.RunningQuery;
import io.eoskafka.task.SlotWork;
import io.eoskafka.transaction.DepartedDrivers;
import io.eoskafka.transaction.OpenTransactions;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** Several drivers are in the group, and partitions go from one to another between batches. */
final class SharedGroup implements GroupSharing {
  @Override
  public void require(
      RunningQuery query,
      Map<TopicPartition, OffsetAndMetadata> committed,
      boolean sinkIsOnSourceCluster,
      boolean isOfBuiltIn) {
    SharedGroupRules.require(query, committed, sinkIsOnSourceCluster);
    if (isOfBuiltIn) {
      throw SharedGroupRules.refused(
          "its checkpoint is the built-in connector's; run it once with ownership=exclusive");
    }
  }

  @Override
  public boolean allowsEpochScope() {
    return false;
  }

  @Override
  public void requireExclusive(Identity identity, String reason) {
    throw EosKafkaException.of(
        "EOSKAFKA_SHARED_BATCH_REFUSED", Map.of("group", identity.group(), "reason", reason));
  }

  @Override
  public Place place(
      SourceOptions options,
      Identity identity,
      Admin admin,
      GroupInspector members,
      OpenTransactions transactions) {
    GroupInspector.Release release = members.next(options.isHandover());
    DepartedDrivers departed =
        new DepartedDrivers(transactions, identity.sharedId(), members::sharedDrivers);
    Membership member =
        new SharedMembership(
            options.client(), identity, admin, release, transactions::fence, departed::endSeen);
    return new Place(member, release, departed);
  }

  @Override
  public boolean keepsUnresolved() {
    return true;
  }

  @Override
  public Map<TopicPartition, OffsetAndMetadata> committedBesides(
      Collection<TopicPartition> these, GroupOffsets offsets, Set<TopicPartition> all) {
    Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>(offsets.committed(all));
    found.keySet().removeAll(these);
    return found;
  }

  /** So a producer that rests goes on with its partitions while others come and go. */
  @Override
  public boolean keepsSlots() {
    return true;
  }

  @Override
  public void keepOwned(Map<TopicPartition, Long> ends, Set<TopicPartition> owned) {
    ends.keySet().retainAll(owned);
  }

  /** Its partitions are not given up while it runs. */
  @Override
  public long begin(BatchPlanner.Group group, Collection<SlotWork> work) {
    return group.beginShared(work);
  }

  @Override
  public Set<Integer> end(GroupProgress progress) {
    return progress.endShared();
  }

  /** Where other drivers have got to is not in this one's log; what it has of them stays. */
  @Override
  public Map<TopicPartition, Long> endsOfOthers(PartitionOffsets start, Set<TopicPartition> all) {
    Map<TopicPartition, Long> ends = new HashMap<>(start.offsets());
    ends.keySet().retainAll(all);
    return ends;
  }

  /** They may need longer, or their partitions come to this one. */
  @Override
  public boolean waitsForOthers() {
    return true;
  }

  /** The driver waits for a batch's tasks before it gives partitions up. */
  @Override
  public int commitIntervalMs(SinkOptions sink) {
    return 0;
  }

  /** The next batch's task may be another driver's, with transactional ids of its own. */
  @Override
  public boolean mayEndEarly() {
    return false;
  }

  @Override
  public boolean mayCommitNothing() {
    return true;
  }

  /** The driver gives no fence to an attempt of a batch that is over. */
  @Override
  public boolean hasLateAttempts() {
    return false;
  }
}
