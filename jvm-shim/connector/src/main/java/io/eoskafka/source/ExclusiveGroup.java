package io.eoskafka.source;

import io.eoskafka.config.SinkOptions;
import io.eoskafka.config.SourceOptions;
import io.eoskafka.group.ExclusiveMembership;
import io.eoskafka.group.GroupInspector;
import io.eoskafka.group.GroupOffsets;
import io.eoskafka.identity.Identity;
import io.eoskafka.spark.RunningQuery;
import io.eoskafka.task.SlotWork;
import io.eoskafka.transaction.OpenTransactions;
import java.util.Collection;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** One driver has the group for itself: all partitions are its own, from start to end. */
final class ExclusiveGroup implements GroupSharing {
  @Override
  public void require(
      RunningQuery query,
      Map<TopicPartition, OffsetAndMetadata> committed,
      boolean sinkIsOnSourceCluster,
      boolean isOfBuiltIn) {}

  @Override
  public boolean allowsEpochScope() {
    return true;
  }

  @Override
  public void requireExclusive(Identity identity, String reason) {}

  @Override
  public Place place(
      SourceOptions options,
      Identity identity,
      Admin admin,
      GroupInspector members,
      OpenTransactions transactions) {
    return new Place(new ExclusiveMembership(options.client(), identity, admin), null, null);
  }

  @Override
  public boolean keepsUnresolved() {
    return false;
  }

  @Override
  public Map<TopicPartition, OffsetAndMetadata> committedBesides(
      Collection<TopicPartition> these, GroupOffsets offsets, Set<TopicPartition> all) {
    return Map.of();
  }

  @Override
  public boolean keepsSlots() {
    return false;
  }

  @Override
  public void keepOwned(Map<TopicPartition, Long> ends, Set<TopicPartition> owned) {}

  @Override
  public long begin(BatchPlanner.Group group, Collection<SlotWork> work) {
    return 0;
  }

  @Override
  public Set<Integer> end(GroupProgress progress) {
    return Set.of();
  }

  @Override
  public Map<TopicPartition, Long> endsOfOthers(PartitionOffsets start, Set<TopicPartition> all) {
    return Map.of();
  }

  @Override
  public boolean waitsForOthers() {
    return false;
  }

  @Override
  public int commitIntervalMs(SinkOptions sink) {
    return sink.commitIntervalMs();
  }

  @Override
  public boolean mayEndEarly() {
    return true;
  }

  @Override
  public boolean mayCommitNothing() {
    return false;
  }

  @Override
  public boolean hasLateAttempts() {
    return true;
  }
}
