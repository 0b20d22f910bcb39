package io.eoskafka.group;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.wire.KafkaCalls;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupIdNotFoundException;

/** Who is in a group. */
public final class GroupMembers {
  private static final Pattern SHARED =
      Pattern.compile(
          "eoskafka-(" + Identity.DIGEST_PATTERN + ")-shared(?:-handover-(\\d{1,18}))?");

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

  /**
   * Refuses a group with such a member.
   *
   * @throws EosKafkaException {@code EOSKAFKA_FOREIGN_MEMBER}
   */
  void refuse(Predicate<MemberDescription> foreign) {
    list().stream()
        .filter(foreign)
        .findFirst()
        .ifPresent(
            member -> {
              throw EosKafkaException.of(
                  "EOSKAFKA_FOREIGN_MEMBER", Map.of("group", group, "member", describe(member)));
            });
  }

  /**
   * The client id of a driver with {@code ownership=shared}.
   *
   * @param handover when it began to take over from the others, in milliseconds, or empty
   */
  static String sharedClientId(String checkpointId, OptionalLong handover) {
    return "eoskafka-"
        + checkpointId
        + "-shared"
        + (handover.isPresent() ? "-handover-" + handover.getAsLong() : "");
  }

  /** Since when a driver takes over from those before it; 0 if it does not. */
  private static long handoverSince(MemberDescription member) {
    Matcher matcher = SHARED.matcher(member.clientId());
    return matcher.matches() && matcher.group(2) != null ? Long.parseLong(matcher.group(2)) : 0;
  }

  /** Whether this is the first of those that do not take over themselves, by their ids. */
  public boolean isFirst(Fence fence) {
    return list().stream()
        .filter(member -> handoverSince(member) == 0)
        .map(MemberDescription::consumerId)
        .min(Comparator.naturalOrder())
        .equals(Optional.of(fence.memberId()));
  }

  /**
   * The partitions of the driver that takes over from all others, or empty where none does, or only
   * earlier ones than this.
   *
   * @param own when this one began to, or empty
   */
  public Optional<Set<TopicPartition>> successor(OptionalLong own) {
    return list().stream()
        .filter(member -> handoverSince(member) > own.orElse(0))
        .max(Comparator.comparingLong(GroupMembers::handoverSince))
        .map(member -> member.assignment().topicPartitions());
  }

  static boolean isShared(MemberDescription member) {
    return driverOf(member).isPresent();
  }

  /** The checkpoint id of a driver with {@code ownership=shared}, or empty. */
  static Optional<String> driverOf(MemberDescription member) {
    Matcher matcher = SHARED.matcher(member.clientId());
    return matcher.matches() ? Optional.of(matcher.group(1)) : Optional.empty();
  }

  /** The checkpoint ids of the drivers with {@code ownership=shared} that are in the group. */
  public Set<String> sharedDrivers() {
    return list().stream().flatMap(member -> driverOf(member).stream()).collect(Collectors.toSet());
  }

  /** Whether the member of this fence is still in the group. */
  public boolean holds(Fence fence) {
    return list().stream().anyMatch(member -> member.consumerId().equals(fence.memberId()));
  }

  /** Whether another member has the instance id of this fence; not if nobody has it. */
  public boolean isTakenOver(Fence fence) {
    return fence.instanceId() != null
        && list().stream()
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
    all.put("instance", instanceId == null ? "none" : instanceId);
    Optional<String> owner =
        list().stream()
            .filter(member -> instanceId != null)
            .filter(member -> member.groupInstanceId().equals(Optional.of(instanceId)))
            .findFirst()
            .map(GroupMembers::describe);
    owner.ifPresent(member -> all.put("owner", member));
    return EosKafkaException.of(
        owner.isPresent() ? condition : "EOSKAFKA_MEMBERSHIP_EXPIRED", all, cause);
  }

  /** {@link #fenced} of a driver whose place another one has taken. */
  EosKafkaException fencedByDriver(Identity identity, Throwable cause) {
    return fenced("EOSKAFKA_FENCED_BY_DRIVER", identity.instanceId(), Map.of(), cause);
  }

  /** Who is in the group, for an error. */
  public String names() {
    List<String> names = list().stream().map(GroupMembers::describe).sorted().toList();
    return names.isEmpty() ? "nobody now: the group has no member" : String.join(" and ", names);
  }

  static String describe(MemberDescription member) {
    return member.consumerId() + " (client " + member.clientId() + " at " + member.host() + ")";
  }
}
