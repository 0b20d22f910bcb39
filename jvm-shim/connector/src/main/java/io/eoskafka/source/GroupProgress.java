package io.eoskafka.source;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.config.SourceOptions;
import io.eoskafka.decision.Decision;
import io.eoskafka.faults.FaultPoint;
import io.eoskafka.group.GroupInspector;
import io.eoskafka.group.SharedMembership;
import io.eoskafka.identity.Fence;
import io.eoskafka.identity.Identity;
import io.eoskafka.identity.Stamp;
import io.eoskafka.spark.RunningQuery;
import io.eoskafka.task.FenceLeases;
import io.eoskafka.task.SlotRange;
import io.eoskafka.task.SlotWork;
import io.eoskafka.transaction.OpenTransactions;
import io.eoskafka.transaction.Transactions;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A run of a source in its group: its start, what its batches have committed, and its end. {@link
 * OwnedPartitions} says how far each partition has taken effect.
 */
final class GroupProgress implements BatchEnd.Group, BatchPlanner.Group {
  private static final Logger LOG = LoggerFactory.getLogger(GroupProgress.class);

  private final SourceOptions options;
  private final GroupSharing sharing;
  private final DriverStart start;
  private final Topics topics;
  private final DataLossPolicy dataLoss;
  private final TopicTracker tracker;
  private final String run;
  private RunContext context;

  /** Null until the start has prepared it. */
  private OwnedPartitions owned;

  private boolean batchOpen;
  private Handover successor;

  /** See {@link Transactions}; of this run's last decision. */
  private boolean mayLeaveOffsetsPending;

  private boolean isIdentityKept;
  private PartitionOffsets initialOffsets;

  /**
   * @param run unique per run of the source
   * @param wantedGroup the group that the user wants it in, or null; asked on the query's thread
   */
  GroupProgress(
      String run,
      SourceOptions options,
      GroupSharing sharing,
      Supplier<String> wantedGroup,
      String sourcePath,
      Admin admin,
      Topics topics) {
    this.run = run;
    this.options = options;
    this.sharing = sharing;
    this.topics = topics;
    dataLoss = new DataLossPolicy(options.failOnDataLoss());
    tracker = new TopicTracker(topics::discover, topics::agreedIds, dataLoss);
    start = new DriverStart(run, options, sharing, wantedGroup, sourcePath, admin, topics, tracker);
  }

  /**
   * Starts the driver once per run: what {@link DriverStart} does, then the join, the end of former
   * runs' transactions, the stable fetch and the start of each partition.
   *
   * @param sparkStart the start of the batch that Spark is about to plan, or null before its first
   * @return the first offset of each topic-partition that has not taken effect
   */
  Map<TopicPartition, Long> resume(PartitionOffsets sparkStart) {
    if (context != null) {
      owned.restarts().forgetLogged();
      return owned.reached();
    }
    context = start.prepare(sparkStart);
    StartingPoint rule = start.rule();
    owned = new OwnedPartitions(options, sharing, start, context, topics, tracker, dataLoss);
    FaultPoint.BEFORE_JOIN.reach();
    owned.readUnresolved(rule, start.committed().keySet());
    settle(sparkStart, rule);
    isIdentityKept = start.isIdentityKept();
    keepIdentity(!start.committed().isEmpty());
    if (start.lastForeignBatch() >= 0) {
      // Before any batch: from now on the group is authoritative again, also if that batch dies.
      context.foreignBatches().takeOver(start.lastForeignBatch());
    }
    if (context.sinkIsOurs()) {
      owned.restarts().forgetAll();
      start.explainTimeouts(RunningQuery.ofThisThread().sinkOptions());
    }
    return owned.reached();
  }

  /** A checkpoint with an identity promises that the group has offsets. */
  private void keepIdentity(boolean groupHasOffsets) {
    if (!isIdentityKept && (groupHasOffsets || !owned.reached().isEmpty())) {
      context.files().writeIdentity(identity());
      isIdentityKept = true;
    }
  }

  /** Spark's start of batch 0; the same after every restart. */
  PartitionOffsets initialOffsets() {
    if (initialOffsets == null) {
      // Spark asks until there is a batch.
      initialOffsets =
          context
              .files()
              .readInitialOffsets()
              .orElseGet(() -> PartitionOffsets.of(owned.reached()));
      if (!context.sinkIsOurs() && !context.files().sparkHasBatches()) {
        initialOffsets.offsets().forEach(this::requireNotBeyond);
      }
    }
    return initialOffsets;
  }

  /** Without a log, what our sink has done since the query's start is known to the group alone. */
  private void requireNotBeyond(TopicPartition partition, long initial) {
    if (owned.isMovedByTasks(partition)) {
      StartingPoint.requireNotBehind(
          identity(), partition, owned.reached().getOrDefault(partition, initial), initial);
    }
  }

  /**
   * Between two batches: keeps the membership, finds new partitions.
   *
   * @param discover whether to look for partitions in any case: before records are planned, so that
   *     none of a topic that was created again is taken for one of the former topic
   * @return as {@link #resume}
   */
  @Override
  public Map<TopicPartition, Long> refresh(PartitionOffsets sparkStart, boolean discover) {
    boolean isBegun = false;
    if (discover || tracker.isDue()) {
      owned.discoverAgain();
      isBegun = owned.resolveBegun();
    }
    StartingPoint rule =
        new StartingPoint(
            identity(),
            context.sinkIsOurs() ? context.sinkCluster() : null,
            true,
            true,
            true,
            false);
    settle(sparkStart, rule);
    keepIdentity(isBegun);
    return owned.reached();
  }

  private void settle(PartitionOffsets sparkStart, StartingPoint rule) {
    while (!owned.settle(sparkStart, rule)) {
      LOG.info("Group {} is still moving", identity().group());
    }
  }

  /**
   * Whether this run is to end, since another driver takes over from it and has shown that it can.
   * Called between two batches.
   */
  @Override
  public boolean isHandedOver() {
    if (context.release() == null) {
      return false;
    }
    if (successor == null) {
      successor =
          new Handover(start.members(), context.offsets(), topics, context.release(), patience());
    }
    return successor.isReady(tracker.partitions(), owned.reached().keySet(), owned.fence());
  }

  /** Longer than a session: a successor that has died is a member for so long. */
  private Duration patience() {
    long session = options.client().sessionTimeoutMs().orElse(45_000);
    return Duration.ofMillis(Math.max(60_000, session + 15_000));
  }

  /**
   * Adds what an epoch has read to the transaction of its decision. Not where that is on another
   * cluster: there the decision itself has the offsets, and {@link #epochCommitted} tells the
   * group.
   */
  void addEpoch(Transactions decision, Map<TopicPartition, Long> ends, long epoch) {
    if (!ends.isEmpty() && sinkIsOnSourceCluster()) {
      mayLeaveOffsetsPending = decision.mayLeaveOffsetsPending();
      decision.sendOffsets(
          context.committer().stampedForEpoch(withoutGone(ends), epoch),
          owned.fence(),
          start.members());
    }
  }

  /**
   * An epoch has taken effect.
   *
   * @param isAgain whether a former run had planned it: where that had decided it, the group has
   *     its offsets only if they have not expired since
   */
  void epochCommitted(Map<TopicPartition, Long> ends, long epoch, boolean isAgain) {
    if (!ends.isEmpty() && (!sinkIsOnSourceCluster() || isAgain)) {
      context.committer().commitEpoch(ends, epoch, owned.terms());
    }
    if (mayLeaveOffsetsPending) {
      // The next decision's offsets would be taken for those of this one: see StableOffsets.
      context.stableFetch().fetch(ends.keySet(), false);
    }
    batchCommitted(ends);
  }

  /** A partition that was deleted cannot be committed: the client would retry until its timeout. */
  private Map<TopicPartition, Long> withoutGone(Map<TopicPartition, Long> ends) {
    if (options.failOnDataLoss()) {
      return ends;
    }
    Set<TopicPartition> gone = topics.gone(ends.keySet());
    if (!gone.isEmpty()) {
      // A broker that has fallen behind may not know a new topic; the group has its start.
      gone.removeAll(context.offsets().committed(gone).keySet());
    }
    Map<TopicPartition, Long> left = new HashMap<>(ends);
    left.keySet().removeAll(gone);
    return left;
  }

  boolean sinkIsOnSourceCluster() {
    return context.sinkCluster().equals(Stamp.SAME_CLUSTER);
  }

  @Override
  public Map<TopicPartition, Long> keepEndsWithinLog(Map<TopicPartition, Long> logged) {
    return owned.keepEndsWithinLog(logged);
  }

  @Override
  public Map<TopicPartition, Long> refuseTruncated(Set<TopicPartition> suspects) {
    return owned.refuseTruncated(suspects);
  }

  @Override
  public void reportMissing(Collection<TopicPartition> needed) {
    owned.reportMissing(tracker.partitions(), needed);
  }

  /** Source-only: Spark's log is authoritative; the group's offsets follow it, for lag tools. */
  @Override
  public void commitSourceOnly(Map<TopicPartition, Long> ends) {
    if (context == null || context.sinkIsOurs()) {
      return;
    }
    Map<TopicPartition, Long> moved = new HashMap<>(ends);
    moved.keySet().retainAll(tracker.partitions());
    moved.replaceAll(owned.restarts()::begin);
    moved.entrySet().removeIf(e -> e.getValue().equals(owned.reached().get(e.getKey())));
    context.committer().commitStarts(moved, owned.terms());
    owned.move(moved);
  }

  @Override
  public boolean hasRestarts() {
    return !owned.restarts().isEmpty();
  }

  @Override
  public long begin(TopicPartition partition, long logged) {
    return owned.restarts().begin(partition, logged);
  }

  @Override
  public Set<TopicPartition> notInLastPlanned() {
    return owned.restarts().notInLastPlanned();
  }

  /** Before Spark logs a batch as done. */
  void requireOwnership() {
    context.member().requireOwnership();
  }

  void batchBegins() {
    batchOpen = true;
  }

  void batchCommitted(Map<TopicPartition, Long> ends) {
    owned.move(ends);
    batchOpen = false;
  }

  /** Whether the sink commits source offsets with its output. */
  @Override
  public boolean sinkIsOurs() {
    return context != null && context.sinkIsOurs();
  }

  @Override
  public boolean isMovedByTasks(TopicPartition partition) {
    return owned.isMovedByTasks(partition);
  }

  @Override
  public boolean takeProducersFenced() {
    return owned.takeProducersFenced();
  }

  Identity identity() {
    return start.identity();
  }

  /** How long this driver has waited in all for stable offsets, in milliseconds. */
  long stableWaitMs() {
    return context == null ? 0 : context.stableFetch().waitMs();
  }

  Fence fence() {
    return owned.fence();
  }

  int reading() {
    return owned.reading();
  }

  /**
   * Whether the group has got so far with every partition, whoever owns it; or with what is left of
   * one that was cut or created again.
   */
  @Override
  public boolean hasReached(Map<TopicPartition, Long> ends) {
    Map<TopicPartition, Long> left = new HashMap<>(ends);
    left.keySet().retainAll(tracker.partitions());
    Map<TopicPartition, OffsetAndMetadata> now = context.offsets().committed(left.keySet());
    now.forEach(
        (p, offset) -> left.computeIfPresent(p, (k, end) -> offset.offset() < end ? end : null));
    return topics.stillReadable(left.keySet()).entrySet().stream()
        .allMatch(
            end ->
                end.getValue() < left.get(end.getKey())
                    && now.containsKey(end.getKey())
                    && now.get(end.getKey()).offset() >= end.getValue());
  }

  /** Called for a shared group alone. */
  private SharedMembership shared() {
    return (SharedMembership) context.member();
  }

  /**
   * In a shared group partitions are not given up while a batch uses them.
   *
   * @param work what each slot of the batch reads
   * @return see {@link io.eoskafka.task.TaskScope#plan}
   */
  @Override
  public long beginShared(Collection<SlotWork> work) {
    Map<Integer, Map<TopicPartition, Long>> used = new HashMap<>();
    work.forEach(ofSlot -> used.put(ofSlot.slot(), owned.terms(partitions(ofSlot))));
    long plan = shared().begin(used);
    FenceLeases.register(run, shared().leases());
    return plan;
  }

  /** See {@link SharedMembership#end}. */
  Set<Integer> endShared() {
    return shared().end();
  }

  private static Set<TopicPartition> partitions(SlotWork work) {
    return work.ranges().stream().map(SlotRange::topicPartition).collect(Collectors.toSet());
  }

  @Override
  public Set<TopicPartition> partitions() {
    return tracker.partitions();
  }

  @Override
  public boolean isRecreated(TopicPartition partition) {
    return tracker.isRecreated(partition);
  }

  @Override
  public String topicId(TopicPartition partition) {
    return tracker.id(partition);
  }

  /** After {@link #resume}. */
  ForeignBatches foreignBatches() {
    return context.foreignBatches();
  }

  @Override
  public Optional<Decision.Input> decidedInput() {
    return context.epochs().input();
  }

  /** See {@link DecidedEpochs#realTimeBegins}. */
  void realTimeBegins(long batch) {
    context.epochs().realTimeBegins(batch);
  }

  Set<TopicPartition> known() {
    return owned == null ? Set.of() : owned.reached().keySet();
  }

  /** Not another driver's: it has ended ours when it started. */
  private void endBatch() {
    ClientSettings soon = options.client().closing();
    try (Admin closing = Admin.create(soon.admin("eoskafka-driver-" + run))) {
      if (!context.member().isTakenOver(new GroupInspector(closing, identity().group()))) {
        new OpenTransactions(closing, soon, context.transactionalIdPrefix())
            .end(identity().producersId());
      }
    }
  }

  void close() {
    // A stopped query's thread is interrupted, which would cut the end short.
    boolean interrupted = Thread.interrupted();
    try {
      if (batchOpen) {
        endBatch();
      }
    } catch (RuntimeException e) {
      LOG.warn("Transactions of {} stay open until its next start or their timeout", identity(), e);
    } finally {
      start.close();
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }
}
