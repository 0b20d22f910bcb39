package io.eoskafka.group;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupAssignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.TopicPartition;

/**
 * Kafka's assignors under names of our own, so that brokers refuse other applications' consumers
 * while a driver is in the group:
 *
 * <ul>
 *   <li>one of the classic protocol ({@code INCONSISTENT_GROUP_PROTOCOL}), since it has no assignor
 *       in common with the members;
 *   <li>one of the consumer protocol (KIP-848) from Kafka 4.0 on, since a group whose assignments
 *       carry user data is not converted (KAFKA-18134). Older brokers convert none by default.
 * </ul>
 */
final class DriverAssignors {
  private static final byte[] USER_DATA = {1};

  private DriverAssignors() {}

  /** Of a driver with {@code ownership=exclusive}. */
  public static final class Exclusive extends RangeAssignor {
    @Override
    public String name() {
      return "eoskafka-exclusive";
    }

    @Override
    public GroupAssignment assign(Cluster metadata, GroupSubscription subscriptions) {
      Map<String, List<TopicPartition>> assigned = new HashMap<>();
      super.assign(metadata, subscriptions)
          .groupAssignment()
          .forEach((member, assignment) -> assigned.put(member, assignment.partitions()));
      return withUserData(assigned);
    }
  }

  /** Of drivers with {@code ownership=shared}. */
  public static final class Shared extends CooperativeStickyAssignor {
    @Override
    public String name() {
      return "eoskafka-shared";
    }

    @Override
    public GroupAssignment assign(Cluster metadata, GroupSubscription subscriptions) {
      Map<String, Subscription> members = subscriptions.groupSubscription();
      Map<String, List<TopicPartition>> assigned = new HashMap<>();
      super.assign(metadata, subscriptions)
          .groupAssignment()
          .forEach(
              (member, assignment) ->
                  assigned.put(member, withoutClaimed(member, assignment.partitions(), members)));
      return withUserData(assigned);
    }

    /**
     * Removes the partitions that another member still claims. Kafka's assignor assigns such a
     * partition to a new owner if the claim is of a former generation, but Kafka's client accepts
     * this only from an assignor with Kafka's name: with any other name the poll fails. A member
     * revokes the partitions that it is not assigned and then asks for a rebalance, which assigns
     * them.
     */
    private static List<TopicPartition> withoutClaimed(
        String member, List<TopicPartition> assigned, Map<String, Subscription> members) {
      Set<TopicPartition> claimed = new HashSet<>();
      members.forEach(
          (other, subscription) -> {
            if (!other.equals(member)) {
              claimed.addAll(subscription.ownedPartitions());
            }
          });
      claimed.removeAll(members.get(member).ownedPartitions());
      List<TopicPartition> left = new ArrayList<>(assigned);
      left.removeAll(claimed);
      return left;
    }
  }

  private static GroupAssignment withUserData(Map<String, List<TopicPartition>> assigned) {
    Map<String, Assignment> all = new HashMap<>();
    assigned.forEach(
        (member, partitions) ->
            all.put(member, new Assignment(partitions, ByteBuffer.wrap(USER_DATA))));
    return new GroupAssignment(all);
  }
}
