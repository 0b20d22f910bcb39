package io.eoskafka.group;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.config.EosKafkaException;
import io.eoskafka.identity.Fence;
import io.eoskafka.identity.Identity;
import io.eoskafka.wire.AuthorizationErrors;
import io.eoskafka.wire.KafkaCalls;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.InconsistentGroupProtocolException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.TimeoutException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The driver as the only member of its group ({@code ownership=exclusive}). It never fetches; its
 * generation fences the offsets that executors commit.
 *
 * <p>It joins as a static member, so a restarted driver takes the instance id over at once and the
 * broker refuses the former driver from then on. Not thread safe: the query's thread polls it,
 * between batches only, so the generation cannot change under a running batch.
 */
public final class ExclusiveMembership implements Membership {
  private static final Logger LOG = LoggerFactory.getLogger(ExclusiveMembership.class);

  /**
   * A dead dynamic member of another application leaves when its session expires, after 45 s by
   * default.
   */
  private static final Duration JOIN_TIMEOUT = Duration.ofSeconds(60);

  /**
   * A poll that finds no records uses its whole timeout, even if the join has completed earlier.
   */
  private static final Duration JOIN_LOOK = Duration.ofMillis(10);

  /** A second driver needs more time than this from its join until it has logged a batch. */
  private static final Duration TAKEOVER = Duration.ofSeconds(1);

  /** The client retries a commit for a deleted partition until this timeout. */
  static final Duration COMMIT_TRY = Duration.ofSeconds(5);

  /** The broker limits a commit to one batch of the offsets topic, about 1 MiB. */
  public static final int PARTITIONS_PER_COMMIT = 1_000;

  private final Identity identity;
  private final GroupInspector members;
  private final FencedCommit fencedCommit;
  private final KafkaConsumer<byte[], byte[]> consumer;
  private boolean assigned;
  private Set<String> topics = Set.of();
  private Ownership ownership;

  /** Counts this driver's memberships in the group; the first one is 1. */
  private long places;

  private long polledNanos;

  public ExclusiveMembership(ClientSettings client, Identity identity, Admin admin) {
    this.identity = identity;
    this.members = new GroupInspector(admin, identity.group());
    this.fencedCommit = new FencedCommit(admin, client);
    Map<String, Object> config =
        client.exclusiveMember(
            identity.instanceId() + "-driver", identity.group(), identity.instanceId());
    // Eager: partitions are given up before a join is sent, which tells us that one is under way.
    config.put(
        ConsumerConfig.PARTITION_ASSIGNMENT_STRATEGY_CONFIG,
        List.of(DriverAssignors.Exclusive.class));
    consumer = new KafkaConsumer<>(config);
  }

  /** Our own instance id is allowed: it is that of a former driver, whose place is taken over. */
  @Override
  public void refuseForeignMembers() {
    members.refuse(
        member ->
            GroupInspector.isShared(member)
                || !member.groupInstanceId().equals(Optional.of(identity.instanceId())));
  }

  /** The result is valid until the next call. */
  @Override
  public Ownership poll(Set<TopicPartition> known) {
    Set<String> wanted = MemberConsumer.topics(known);
    try {
      // If no topic is left it stays subscribed to the former ones, because new topics may appear.
      if (!wanted.isEmpty() && !wanted.equals(topics)) {
        consumer.subscribe(wanted, new Assignment());
        topics = Set.copyOf(wanted);
      }
      long deadline = System.nanoTime() + JOIN_TIMEOUT.toNanos();
      pollOnce(Duration.ZERO);
      while (!assigned || consumer.groupMetadata().generationId() < 0) {
        if (System.nanoTime() > deadline) {
          throw MemberConsumer.joinTimeout(identity, JOIN_TIMEOUT);
        }
        pollOnce(JOIN_LOOK);
      }
    } catch (FencedInstanceIdException e) {
      throw fenced(e);
    } catch (AuthenticationException | AuthorizationException e) {
      throw AuthorizationErrors.or(e, "Describe");
    } catch (InterruptException e) {
      throw KafkaCalls.asJava(e);
    }
    polledNanos = System.nanoTime();
    ConsumerGroupMetadata now = consumer.groupMetadata();
    Fence fence =
        new Fence(identity.group(), now.generationId(), now.memberId(), identity.instanceId());
    boolean isNew = ownership == null || !ownership.fence().equals(fence);
    if (isNew) {
      members.refuse(member -> !member.consumerId().equals(fence.memberId()));
      // All partitions begin a new term. The generation cannot be the term: a group that was
      // deleted has the same generations again.
      places++;
    }
    if (isNew || !ownership.terms().keySet().equals(known)) {
      long term = places;
      ownership =
          new Ownership(fence, known.stream().collect(Collectors.toMap(p -> p, p -> term)), term);
    }
    return ownership;
  }

  /**
   * The broker refuses a join if a member does not have our assignor. At a start this member is a
   * driver of a former version, running or crashed. It is removed, because a static member can be
   * replaced only with a common assignor. If this driver has been a member before, it has lost its
   * session.
   */
  private void pollOnce(Duration timeout) {
    try {
      consumer.poll(timeout);
    } catch (InconsistentGroupProtocolException e) {
      if (ownership == null) {
        refuseForeignMembers();
        LOG.info("A former version's place in group {} is removed", identity.group());
        members.remove(identity.instanceId());
      } else if (members.isTakenOver(ownership.fence())) {
        throw fenced(e);
      } else {
        // This driver's session was lost, and another application's member is in the group now.
        members.refuse(member -> true);
      }
    }
  }

  /**
   * Skips the check soon after a {@link #poll}: no driver can have taken over and logged a batch
   * yet.
   */
  @Override
  public void requireOwnership() {
    if (System.nanoTime() - polledNanos <= TAKEOVER.toNanos()) {
      return;
    }
    try {
      if (isTakenOver(members)) {
        throw fenced(null);
      }
    } catch (TimeoutException e) {
      // The batch has committed: not knowing who owns the group is no reason to fail it.
      LOG.warn("Who is in group {} could not be found out: {}", identity.group(), e.getMessage());
    }
  }

  @Override
  public boolean isTakenOver(GroupInspector now) {
    return ownership != null && now.isTakenOver(ownership.fence());
  }

  @Override
  public void commit(
      Map<TopicPartition, OffsetAndMetadata> offsets, Map<TopicPartition, Long> since) {
    commit(offsets, part -> fencedCommit.commit(part, ownership.fence()));
  }

  @Override
  public void commitAsLogged(
      Map<TopicPartition, OffsetAndMetadata> offsets, Map<TopicPartition, Long> since) {
    commit(offsets, part -> consumer.commitSync(part, COMMIT_TRY));
  }

  private void commit(
      Map<TopicPartition, OffsetAndMetadata> offsets,
      Consumer<Map<TopicPartition, OffsetAndMetadata>> commit) {
    try {
      parts(offsets).forEach(commit);
    } catch (FencedInstanceIdException | CommitFailedException | RebalanceInProgressException e) {
      throw fenced(e);
    } catch (AuthenticationException | AuthorizationException e) {
      throw AuthorizationErrors.or(e, "Read");
    } catch (InterruptException e) {
      throw KafkaCalls.asJava(e);
    }
  }

  @Override
  public Map<TopicPartition, OffsetAndMetadata> committed(Set<TopicPartition> partitions) {
    try {
      return MemberConsumer.committed(consumer, partitions);
    } catch (FencedInstanceIdException e) {
      throw fenced(e);
    } catch (AuthenticationException | AuthorizationException e) {
      throw AuthorizationErrors.or(e, "Describe");
    } catch (InterruptException e) {
      throw KafkaCalls.asJava(e);
    }
  }

  /** Splits offsets so that each part fits one batch of the offsets topic. */
  public static List<Map<TopicPartition, OffsetAndMetadata>> parts(
      Map<TopicPartition, OffsetAndMetadata> offsets) {
    List<Map<TopicPartition, OffsetAndMetadata>> parts = new ArrayList<>();
    Map<TopicPartition, OffsetAndMetadata> part = new HashMap<>();
    for (Map.Entry<TopicPartition, OffsetAndMetadata> entry : offsets.entrySet()) {
      part.put(entry.getKey(), entry.getValue());
      if (part.size() == PARTITIONS_PER_COMMIT) {
        parts.add(part);
        part = new HashMap<>();
      }
    }
    if (!part.isEmpty()) {
      parts.add(part);
    }
    return parts;
  }

  private EosKafkaException fenced(RuntimeException cause) {
    return members.fencedByDriver(identity, cause);
  }

  /**
   * A driver that dies does not leave; its restart takes its place over. A driver that was fenced
   * has no place to give up, and the broker refuses its leave request.
   */
  @Override
  public void close() {
    try {
      MemberConsumer.leave(consumer);
    } finally {
      fencedCommit.close();
    }
  }

  private final class Assignment implements ConsumerRebalanceListener {
    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
      assigned = false;
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
      assigned = false;
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
      MemberConsumer.hold(consumer, partitions);
      assigned = true;
    }
  }
}
