package io.eoskafka.group;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.wire.KafkaCalls;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.common.errors.GroupIdNotFoundException;

/** Who is in a group. */
public final class GroupMembers {
  private final Admin admin;
  private final String group;

  public GroupMembers(Admin admin, String group) {
    this.admin = admin;
    this.group = group;
  }

  /** The members now; none where the group does not exist. */
  Collection<MemberDescription> list() {
    try {
      return KafkaCalls.get(
              admin.describeConsumerGroups(List.of(group)).describedGroups().get(group))
          .members();
    } catch (GroupIdNotFoundException e) {
      return List.of();
    }
  }

  /** Whether the member of this fence is still in the group. */
  public boolean holds(Fence fence) {
    return list().stream().anyMatch(member -> member.consumerId().equals(fence.memberId()));
  }

  /** Whether another member has the instance id of this fence; not if nobody has it. */
  public boolean isTakenOver(Fence fence) {
    return list().stream()
        .filter(member -> member.groupInstanceId().equals(Optional.of(fence.instanceId())))
        .anyMatch(member -> !member.consumerId().equals(fence.memberId()));
  }

  /**
   * The error of a driver whose commits the group refuses: another one has its instance id, or its
   * membership has ended without a successor.
   *
   * @param condition for the first case
   * @param values of that condition, but for {@code group}, {@code instance} and {@code owner}
   */
  public EosKafkaException fenced(
      String condition, String instanceId, Map<String, ?> values, Throwable cause) {
    Map<String, Object> all = new HashMap<>(values);
    all.put("group", group);
    all.put("instance", instanceId);
    Optional<String> owner =
        list().stream()
            .filter(member -> member.groupInstanceId().equals(Optional.of(instanceId)))
            .findFirst()
            .map(GroupMembers::describe);
    owner.ifPresent(member -> all.put("owner", member));
    return EosKafkaException.of(
        owner.isPresent() ? condition : "EOSKAFKA_MEMBERSHIP_EXPIRED", all, cause);
  }

  static String describe(MemberDescription member) {
    return member.consumerId() + " (client " + member.clientId() + " at " + member.host() + ")";
  }
}
