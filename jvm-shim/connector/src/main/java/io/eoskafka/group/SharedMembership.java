package io.eoskafka.group;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.faults.FaultPoint;
import io.eoskafka.identity.Fence;
import io.eoskafka.identity.Identity;
import io.eoskafka.wire.AuthorizationErrors;
import io.eoskafka.wire.Daemon;
import io.eoskafka.wire.KafkaCalls;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.InconsistentGroupProtocolException;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.StaleMemberEpochException;
import org.apache.kafka.common.errors.UnknownMemberIdException;
import org.apache.kafka.common.errors.WakeupException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The driver as one of several members of its group ({@code ownership=shared}). It never fetches.
 *
 * <p>A thread of its own polls all the time, so partitions come and go while batches run (KIP-983):
 *
 * <ul>
 *   <li>a task asks for the fence just before it commits, and gets it only if the driver has owned
 *       the partitions of its slots ever since they were planned ({@link PartitionLeases#lease});
 *   <li>a revoked partition is no longer planned, and is given up when the running batch's
 *       transactions that have read it have ended, or after {@link #REVOCATION_WAIT};
 *   <li>a lost partition is lost at once: tasks that ask later get no fence, and the producers of
 *       those that have one are fenced.
 * </ul>
 *
 * <p>After each rebalance another thread aborts the transactions of departed drivers and looks for
 * unowned partitions, so that nobody waits for this driver's next batch.
 */
public final class SharedMembership implements Membership {
  private static final Logger LOG = LoggerFactory.getLogger(SharedMembership.class);

  /** How long running transactions may hold up a partition that is to be given up. */
  static final Duration REVOCATION_WAIT = Duration.ofSeconds(60);

  private static final String ASSIGNORS = ConsumerConfig.PARTITION_ASSIGNMENT_STRATEGY_CONFIG;
  private static final List<Class<?>> WITH_FORMER =
      List.of(DriverAssignors.Shared.class, CooperativeStickyAssignor.class);

  private static final long RETRY_MS = 200;
  private static final Duration POLL = Duration.ofMillis(100);

  /** A dead member stays in the group until its session expires, after 45 s by default. */
  private static final Duration JOIN_TIMEOUT = Duration.ofSeconds(90);

  private final Identity identity;
  private final String clientId;

  /** With the classic protocol. */
  private final boolean isStatic;

  private final FencedCommit fencedCommit;

  private final Consumer<List<String>> fenceProducers;
  private final GroupInspector members;
  private final Map<String, Object> config;

  /** Replaced before the first join if the group has drivers of a former version. */
  private volatile KafkaConsumer<byte[], byte[]> consumer;

  private final Thread thread;
  private final MemberOrders orders =
      new MemberOrders(() -> consumer.wakeup(), this::requireOwnership);
  private final AfterRebalance afterRebalance;

  /** Whether a former run's member was in the group when this driver joined. */
  private boolean isResumed;

  private final PartitionLeases leases = new PartitionLeases();

  // Guarded by this.
  private Set<String> topics = Set.of();
  private Set<TopicPartition> present = Set.of();

  /**
   * @param release this driver's
   * @param fenceProducers ends the transactions of these transactional ids, and fences them
   * @param endGone ends the transactions that departed drivers have left open
   */
  public SharedMembership(
      ClientSettings client,
      Identity identity,
      Admin admin,
      GroupInspector.Release release,
      Consumer<List<String>> fenceProducers,
      Runnable endGone) {
    this.identity = identity;
    this.fenceProducers = fenceProducers;
    this.members = new GroupInspector(admin, identity.group());
    config =
        client.sharedMember(release.clientId(identity), identity.group(), identity.instanceId());
    clientId = (String) config.get(ConsumerConfig.CLIENT_ID_CONFIG);
    isStatic = config.containsKey(ConsumerConfig.GROUP_INSTANCE_ID_CONFIG);
    if (isStatic) {
      config.put(ASSIGNORS, List.of(DriverAssignors.Shared.class));
    }
    fencedCommit = new FencedCommit(admin, client);
    consumer = new KafkaConsumer<>(config);
    thread = Daemon.factory("eoskafka-member-" + identity.group()).newThread(this::run);
    afterRebalance =
        new AfterRebalance(
            identity.group(), members, endGone, this::present, leases::fence, this::rebalance);
  }

  @Override
  public void refuseForeignMembers() {
    members.refuse(member -> !GroupInspector.isShared(member));
    if (isStatic) {
      isResumed = members.takeFormerPlace(identity, clientId);
      return;
    }
    // A dynamic member cannot be replaced: this driver's former run stays a member until its
    // session expires, and another on the same checkpoint would have the same transactional ids.
    long deadline = System.nanoTime() + JOIN_TIMEOUT.toNanos();
    while (members.sharedDrivers().contains(identity.checkpointId())) {
      if (System.nanoTime() > deadline) {
        members.refuse(
            member -> GroupInspector.driverOf(member).equals(Optional.of(identity.checkpointId())));
      }
      KafkaCalls.sleep(RETRY_MS);
    }
  }

  @Override
  public Ownership poll(Set<TopicPartition> known) {
    Set<String> wanted = MemberConsumer.topics(known);
    long deadline = System.nanoTime() + JOIN_TIMEOUT.toNanos();
    synchronized (this) {
      present = Set.copyOf(known);
      // If no topic is left it stays subscribed to the former ones, because new topics may appear.
      if (!wanted.isEmpty() && !wanted.equals(topics)) {
        topics = wanted;
        orders.add(() -> consumer.subscribe(wanted, new Changes()));
        if (thread.getState() == Thread.State.NEW) {
          thread.start();
        }
      }
    }
    return leases
        .ownership(known, deadline)
        .orElseThrow(() -> MemberConsumer.joinTimeout(identity, JOIN_TIMEOUT));
  }

  @Override
  public void requireOwnership() {
    leases.requireOwnership();
  }

  @Override
  public boolean isTakenOver(GroupInspector now) {
    Fence own = leases.fence();
    return own != null && now.otherRun(own, identity).isPresent();
  }

  /** What this driver owns, for tasks that ask. */
  public PartitionLeases leases() {
    return leases;
  }

  /**
   * A batch is planned: until it has ended, its partitions are not given up.
   *
   * @see PartitionLeases#begin
   */
  public long begin(Map<Integer, Map<TopicPartition, Long>> slots) {
    return leases.begin(slots);
  }

  /**
   * The batch's tasks have ended, each with one of its attempts. If another attempt has a lease and
   * has not reported its end, its producer is fenced: it may have offsets in an open transaction,
   * and the partition's next owner would wait for them.
   *
   * @return the slots of such producers
   */
  public Set<Integer> end() {
    Map<Integer, Set<String>> left = leases.end();
    fence(left.values().stream().flatMap(Set::stream).collect(Collectors.toSet()));
    leases.release();
    return left.keySet();
  }

  /** A shared group never follows Spark's log. */
  @Override
  public void commitAsLogged(
      Map<TopicPartition, OffsetAndMetadata> offsets, Map<TopicPartition, Long> since) {
    commit(offsets, since);
  }

  @Override
  public void commit(
      Map<TopicPartition, OffsetAndMetadata> offsets, Map<TopicPartition, Long> since) {
    orders.ask(
        done -> {
          try {
            // On the thread that polls: ownership does not change until it polls again.
            if (!leases.areInTerms(offsets.keySet(), since)) {
              throw new MovedException(null);
            }
            FaultPoint.BEFORE_STARTS.reach();
            for (Map<TopicPartition, OffsetAndMetadata> part : ExclusiveMembership.parts(offsets)) {
              fencedCommit.commit(part, requireFence());
            }
            done.complete(null);
          } catch (CommitFailedException | RebalanceInProgressException e) {
            done.completeExceptionally(new MovedException(e));
          } catch (FencedInstanceIdException e) {
            done.completeExceptionally(members.fencedByDriver(identity, e));
          } catch (RuntimeException e) {
            done.completeExceptionally(AuthorizationErrors.or(e, "Read"));
          }
        });
  }

  @Override
  public Map<TopicPartition, OffsetAndMetadata> committed(Set<TopicPartition> partitions) {
    return orders.ask(
        found -> {
          try {
            found.complete(MemberConsumer.committed(consumer, partitions));
          } catch (UnknownMemberIdException | StaleMemberEpochException e) {
            // With KIP-848 the coordinator checks the member that asks.
            found.completeExceptionally(new MovedException(e));
          } catch (FencedInstanceIdException e) {
            found.completeExceptionally(members.fencedByDriver(identity, e));
          } catch (RuntimeException e) {
            found.completeExceptionally(AuthorizationErrors.or(e, "Describe"));
          }
        });
  }

  private void fence(Set<String> transactionalIds) {
    try {
      fenceProducers.accept(List.copyOf(transactionalIds));
    } catch (RuntimeException e) {
      LOG.warn("Transactions of {} stay open until the next batch ends them", transactionalIds, e);
      leases.addOwnershipLoss();
    }
  }

  /**
   * The broker refuses a join if a member does not have our assignor: a driver of a former version.
   * If the only one is this driver's own former run, it is removed. If there are others, this
   * driver offers Kafka's assignor too, until they have left and this driver is restarted.
   */
  private void joinBesideFormerVersion(InconsistentGroupProtocolException refused) {
    members.refuse(member -> !GroupInspector.isShared(member));
    if (leases.fence() != null || config.get(ASSIGNORS).equals(WITH_FORMER)) {
      throw refused;
    }
    if (members.hasOnly(identity.instanceId())) {
      LOG.info("A former version's place in group {} is removed", identity.group());
      members.remove(identity.instanceId());
      isResumed = false;
      return;
    }
    LOG.warn(
        "Group {} has drivers of a former version of eoskafka: other applications' consumers can"
            + " join it until those have ended and this driver was started again",
        identity.group());
    config.put(ASSIGNORS, WITH_FORMER);
    consumer.close(CloseOptions.timeout(Duration.ZERO));
    consumer = new KafkaConsumer<>(config);
    synchronized (this) {
      consumer.subscribe(topics, new Changes());
    }
  }

  private synchronized Set<TopicPartition> present() {
    return present;
  }

  private void rebalance(String reason) {
    orders.addAndWake(() -> consumer.enforceRebalance(reason));
  }

  private void run() {
    try {
      while (!leases.isClosing()) {
        orders.carryOut();
        try {
          consumer.poll(POLL);
        } catch (WakeupException e) {
          // An order has come.
        } catch (InconsistentGroupProtocolException e) {
          joinBesideFormerVersion(e);
        }
        leases.setFence(currentFence());
      }
    } catch (FencedInstanceIdException e) {
      RuntimeException named = e;
      try {
        named = members.fencedByDriver(identity, e);
      } catch (RuntimeException unknown) {
        e.addSuppressed(unknown);
      }
      fail(named);
    } catch (RuntimeException e) {
      fail(AuthorizationErrors.or(e, "Read"));
    } catch (Error e) {
      fail(new IllegalStateException(e));
      throw e;
    } finally {
      try {
        MemberConsumer.leave(consumer);
      } finally {
        fencedCommit.close();
      }
    }
  }

  /** The fence with which the consumer would commit now; empty outside of a generation. */
  private Optional<Fence> currentFence() {
    ConsumerGroupMetadata now = consumer.groupMetadata();
    if (now.generationId() < 0 || now.memberId().isEmpty()) {
      return Optional.empty();
    }
    return Optional.of(
        new Fence(
            identity.group(),
            now.generationId(),
            now.memberId(),
            now.groupInstanceId().orElse(null)));
  }

  private Fence requireFence() {
    return currentFence().orElseThrow(() -> new MovedException(null));
  }

  private void fail(RuntimeException e) {
    LOG.error("The driver's membership in group {} has ended", identity.group(), e);
    leases.fail(e);
  }

  @Override
  public void close() {
    leases.close();
    afterRebalance.close();
    if (thread.getState() == Thread.State.NEW) {
      consumer.close(CloseOptions.timeout(Duration.ZERO));
      return;
    }
    consumer.wakeup();
    try {
      thread.join(10_000);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /** Called by the consumer inside its poll, on the thread that polls. */
  private final class Changes implements ConsumerRebalanceListener {
    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
      MemberConsumer.hold(consumer, partitions);
      if (!leases.assign(currentFence(), partitions)) {
        return;
      }
      afterRebalance.abortDepartedDrivers();
      if (isResumed) {
        isResumed = false;
        afterRebalance.lookForUnowned();
      }
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
      long deadline = System.nanoTime() + REVOCATION_WAIT.toNanos();
      leases.setFence(currentFence());
      if (leases.giveUp(partitions, deadline)) {
        return;
      }
      LOG.warn(
          "Transactions that have read {} are still open after {} s and are aborted: the"
              + " partitions go to another driver of group {}",
          partitions,
          REVOCATION_WAIT.toSeconds(),
          identity.group());
      onPartitionsLost(partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
      fence(leases.lose(partitions));
    }
  }
}
