package io.eoskafka.group;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.identity.Fence;
import io.eoskafka.identity.Identity;
import io.eoskafka.wire.KafkaCalls;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.UnknownMemberIdException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Describes the members of a group. */
public final class GroupInspector {
  private static final Logger LOG = LoggerFactory.getLogger(GroupInspector.class);

  private static final Pattern SHARED =
      Pattern.compile("eoskafka-(" + Identity.DIGEST_PATTERN + ")-shared-(\\d{1,18})(-handover)?");

  private final Admin admin;
  private final String group;

  public GroupInspector(Admin admin, String group) {
    this.admin = admin;
    this.group = group;
  }

  /** The current members; empty if the group does not exist. */
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
   * Refuses a group that has a member of this kind.
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
   * Logs the members that are not drivers of a shared group. With the consumer protocol, brokers
   * cannot be made to refuse them, and their offsets replace ours.
   */
  void warnOfStrangers() {
    list().stream()
        .filter(member -> !isShared(member))
        .forEach(
            member ->
                LOG.warn(
                    "Group {} has a member that is no driver of it: {}. Partitions that it is"
                        + " assigned stand still, and offsets that it commits replace this query's."
                        + " Stop it, and allow only this query's user to read the group",
                    group,
                    describe(member)));
  }

  /**
   * Drivers with {@code ownership=shared} that work side by side. A driver with {@code
   * handover=true} begins a new release, to which later drivers belong.
   *
   * @param number higher for each new release
   */
  public record Release(long number, boolean takesOver) {
    /**
     * The release of a driver that finds these releases in the group. The number of a new release
     * is higher than theirs, whatever the clocks say. Two that start at once and do not see each
     * other have different times.
     */
    static Release after(Collection<Release> there, boolean takesOver, long nowMs) {
      long newest = there.stream().mapToLong(Release::number).max().orElse(0);
      return new Release(takesOver ? Math.max(newest + 1, nowMs) : newest, takesOver);
    }

    /** The client id that tells others. */
    String clientId(Identity identity) {
      return "eoskafka-"
          + identity.checkpointId()
          + "-shared-"
          + number
          + (takesOver ? "-handover" : "");
    }
  }

  /** Empty for a member of another kind, which gives way to no driver. */
  private static Optional<Release> release(MemberDescription member) {
    Matcher matcher = SHARED.matcher(member.clientId());
    return matcher.matches()
        ? Optional.of(new Release(Long.parseLong(matcher.group(2)), matcher.group(3) != null))
        : Optional.empty();
  }

  /** The release of a driver that starts now. */
  public Release next(boolean takesOver) {
    List<Release> there = list().stream().flatMap(member -> release(member).stream()).toList();
    return Release.after(there, takesOver, System.currentTimeMillis());
  }

  /**
   * The driver that takes over from a release.
   *
   * @param partitions the driver's partitions
   * @param next the id of the member of a former release that gives way first
   */
  public record Successor(Set<TopicPartition> partitions, String next) {}

  /** The driver that takes over from this release, or empty if none does. */
  public Optional<Successor> successor(Release own) {
    Collection<MemberDescription> all = list();
    long newest =
        all.stream()
            .flatMap(member -> release(member).stream())
            .filter(release -> release.takesOver() && release.number() > own.number())
            .mapToLong(Release::number)
            .max()
            .orElse(0);
    Set<TopicPartition> partitions = new HashSet<>();
    String next = null;
    for (MemberDescription member : all) {
      long number = release(member).map(Release::number).orElse(newest);
      if (number < newest && (next == null || member.consumerId().compareTo(next) < 0)) {
        next = member.consumerId();
      }
      if (release(member).equals(Optional.of(new Release(newest, true)))) {
        partitions.addAll(member.assignment().topicPartitions());
      }
    }
    return newest == 0 ? Optional.empty() : Optional.of(new Successor(partitions, next));
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

  /** Whether another member has the instance id of this fence; false if no member has it. */
  public boolean isTakenOver(Fence fence) {
    return fence.instanceId() != null
        && list().stream()
            .filter(member -> member.groupInstanceId().equals(Optional.of(fence.instanceId())))
            .anyMatch(member -> !member.consumerId().equals(fence.memberId()));
  }

  /** The other member that runs on the checkpoint of a driver of a shared group, or empty. */
  public Optional<String> otherRun(Fence fence, Identity identity) {
    return list().stream()
        .filter(member -> driverOf(member).equals(Optional.of(identity.checkpointId())))
        .filter(member -> !member.consumerId().equals(fence.memberId()))
        .findFirst()
        .map(GroupInspector::describe);
  }

  /**
   * Whether the driver's former run is still a static member, so that this run takes its place. The
   * broker keeps the client id of that place, so a place whose client id names another release is
   * removed first.
   */
  boolean takeFormerPlace(Identity identity, String clientId) {
    Optional<String> former =
        list().stream()
            .filter(member -> member.groupInstanceId().equals(Optional.of(identity.instanceId())))
            .map(MemberDescription::clientId)
            .findFirst();
    if (former.isPresent() && !former.get().equals(clientId)) {
      remove(identity.instanceId());
      return false;
    }
    return former.isPresent();
  }

  /** Whether every member of the group has this instance id. */
  boolean hasOnly(String instanceId) {
    return list().stream()
        .allMatch(member -> member.groupInstanceId().equals(Optional.of(instanceId)));
  }

  /** Removes the member that has this instance id. */
  void remove(String instanceId) {
    MemberToRemove member = new MemberToRemove(instanceId);
    try {
      KafkaCalls.get(
          admin
              .removeMembersFromConsumerGroup(
                  group, new RemoveMembersFromConsumerGroupOptions(List.of(member)))
              .all());
    } catch (UnknownMemberIdException e) {
      // Its session has just ended.
    }
  }

  /** Whether no rebalance is in progress, and one of these partitions has no owner. */
  boolean isStableWithUnowned(Set<TopicPartition> partitions) {
    ConsumerGroupDescription described =
        KafkaCalls.get(admin.describeConsumerGroups(List.of(group)).describedGroups().get(group));
    Set<TopicPartition> left = new HashSet<>(partitions);
    described.members().forEach(member -> left.removeAll(member.assignment().topicPartitions()));
    return described.groupState() == GroupState.STABLE && !left.isEmpty();
  }

  /**
   * The error for a driver whose commits the group refuses: another driver has its instance id, or
   * its membership has expired without a successor.
   *
   * @param condition for the first case
   * @param values of that condition, except {@code group}, {@code instance} and {@code owner}
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
            .map(GroupInspector::describe);
    owner.ifPresent(member -> all.put("owner", member));
    return EosKafkaException.of(
        owner.isPresent() ? condition : "EOSKAFKA_MEMBERSHIP_EXPIRED", all, cause);
  }

  /** {@link #fenced} for a driver whose place another driver has taken. */
  EosKafkaException fencedByDriver(Identity identity, Throwable cause) {
    return fenced("EOSKAFKA_FENCED_BY_DRIVER", identity.instanceId(), Map.of(), cause);
  }

  /** The members of the group, for an error message. */
  public String names() {
    List<String> names = list().stream().map(GroupInspector::describe).sorted().toList();
    return names.isEmpty() ? "nobody now: the group has no member" : String.join(" and ", names);
  }

  static String describe(MemberDescription member) {
    return member.consumerId() + " (client " + member.clientId() + " at " + member.host() + ")";
  }
}
