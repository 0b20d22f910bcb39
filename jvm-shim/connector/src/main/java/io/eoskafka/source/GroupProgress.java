package io.eoskafka.source;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SourceOptions;
import io.eoskafka.faults.FaultPoint;
import io.eoskafka.group.GroupMembers;
import io.eoskafka.group.Membership;
import io.eoskafka.group.SharedMembership;
import io.eoskafka.identity.Fence;
import io.eoskafka.identity.Identity;
import io.eoskafka.identity.Stamp;
import io.eoskafka.spark.RunningQuery;
import io.eoskafka.transaction.OpenTransactions;
import io.eoskafka.transaction.TransactionalProducer;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * How far each topic-partition has taken effect, as the group says, and the membership that fences
 * it.
 *
 * <p>Joining comes before ending what former runs left, and that before the stable fetch: an
 * executor of the former driver may start another transaction until its fence is refused.
 */
final class GroupProgress implements BatchEnd.Group {
  private static final Logger LOG = LoggerFactory.getLogger(GroupProgress.class);

  private final SourceOptions options;
  private final DriverStart start;
  private final Topics topics;
  private final DataLossPolicy dataLoss;
  private final TopicTracker tracker;

  private final String run;

  private RunContext context;
  private Membership.Ownership ownership;
  private boolean settled;
  private boolean batchOpen;
  private final Map<TopicPartition, Long> reached = new HashMap<>();

  /** For those that have been reached, when they came to be owned. */
  private final Map<TopicPartition, Long> terms = new HashMap<>();

  private long settledLosses = -1;

  private Handover successor;

  private boolean isIdentityKept;
  private PartitionOffsets initialOffsets;

  /** See {@link CheckpointFiles#readUnresolved}. */
  private final Set<TopicPartition> unresolved = new HashSet<>();

  /** Whether this run's start has found that Spark's last batch was decided. */
  private boolean lastIsDecided;

  /** Partitions that a batch in task scope has moved last, by their stamps at start. */
  private final Set<TopicPartition> movedByTasks = new HashSet<>();

  /**
   * @param run unique per run of the source
   * @param wantedGroup the group that the user wants it in, or null; asked on the query's thread
   */
  GroupProgress(
      String run,
      SourceOptions options,
      Supplier<String> wantedGroup,
      String sourcePath,
      Admin admin,
      Topics topics) {
    this.run = run;
    this.options = options;
    this.topics = topics;
    dataLoss = new DataLossPolicy(options.failOnDataLoss());
    tracker = new TopicTracker(topics, dataLoss);
    start = new DriverStart(run, options, wantedGroup, sourcePath, admin, topics, tracker);
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
      return reached;
    }
    context = start.prepare(sparkStart);
    StartingPoint rule = start.rule();
    lastIsDecided = context.epochs().lastIsDecided();
    FaultPoint.BEFORE_JOIN.reach();
    if (identity().isShared()) {
      if (rule.resolved() || rule.sparkHasBatches()) {
        unresolved.addAll(context.files().readUnresolved());
        resolve(start.committed().keySet());
      } else {
        unresolved.addAll(tracker.partitions());
        context.files().writeUnresolved(unresolved);
      }
    }
    while (!settle(sparkStart, rule)) {
      LOG.info("Group {} is still moving", identity().group());
    }
    if (context.groupIsTheTruth()) {
      start.explainTimeouts(RunningQuery.ofThisThread().sinkOptions());
    }
    isIdentityKept = start.isIdentityKept();
    keepIdentity(!start.committed().isEmpty());
    if (start.lastForeignBatch() >= 0) {
      // Before any batch: from now on the group is the truth again, also if that batch dies.
      context.foreignBatches().takeOver(start.lastForeignBatch());
    }
    return reached;
  }

  /** A checkpoint with an identity promises that the group has offsets. */
  private void keepIdentity(boolean groupHasOffsets) {
    if (!isIdentityKept && (groupHasOffsets || !reached.isEmpty())) {
      context.files().writeIdentity(identity());
      isIdentityKept = true;
    }
  }

  /** Spark's start of batch 0; the same after every restart. */
  PartitionOffsets initialOffsets() {
    if (initialOffsets == null) {
      // Spark asks until there is a batch.
      initialOffsets =
          context.files().readInitialOffsets().orElseGet(() -> PartitionOffsets.of(reached));
      if (!context.groupIsTheTruth() && !context.files().sparkHasBatches()) {
        initialOffsets.offsets().forEach(this::requireNotBeyond);
      }
    }
    return initialOffsets;
  }

  /** Without a log, what our sink has done since the query's start is known to the group alone. */
  private void requireNotBeyond(TopicPartition partition, long initial) {
    if (movedByTasks.contains(partition)) {
      StartingPoint.requireNotBehind(
          identity(), partition, reached.getOrDefault(partition, initial), initial);
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
    if (discover || tracker.isDue()) {
      discoverAgain();
    }
    settle(
        sparkStart,
        new StartingPoint(
            identity(),
            context.groupIsTheTruth() ? context.sinkCluster() : null,
            true,
            true,
            true,
            false));
    keepIdentity(false);
    return reached;
  }

  /** What is of another topic than it was, under the same name, is to be found anew. */
  private void discoverAgain() {
    Map<TopicPartition, String> found = tracker.discover(reached.keySet());
    reportMissing(found.keySet(), reached.keySet());
    found.forEach(
        (partition, id) -> {
          if (!id.equals(tracker.id(partition))) {
            resolve(Set.of(partition));
            Long next = reached.remove(partition);
            if (next != null) {
              // Here, since it may be in no log of this driver's.
              dataLoss.skip(partition, next, StartResolver.RECREATED, 0);
            }
          }
        });
    tracker.update(found);
  }

  /**
   * Whether this run is to end, since another driver takes over from it and has shown that it can.
   * Called between two batches.
   */
  @Override
  public boolean isHandedOver() {
    if (!identity().isShared()) {
      return false;
    }
    if (successor == null) {
      successor =
          new Handover(start.members(), context.offsets(), topics, context.release(), patience());
    }
    return successor.isReady(tracker.partitions(), reached.keySet(), ownership.fence());
  }

  /** Longer than a session: a successor that has died is a member for so long. */
  private Duration patience() {
    long session = options.client().sessionTimeoutMs().orElse(45_000);
    return Duration.ofMillis(Math.max(60_000, session + 15_000));
  }

  /**
   * Finds the starts of partitions that have come, and forgets those that have gone.
   *
   * @return false if some have gone while their starts were looked for
   */
  private boolean settle(PartitionOffsets sparkStart, StartingPoint rule) {
    ownership = context.member().poll(tracker.partitions());
    reached.keySet().retainAll(ownership.terms().keySet());
    Map<TopicPartition, Long> gained = new HashMap<>();
    ownership
        .terms()
        .forEach(
            (partition, term) -> {
              if (!reached.containsKey(partition) || !term.equals(terms.get(partition))) {
                gained.put(partition, term);
              }
            });
    boolean ownershipLost = ownership.ownershipLosses() != settledLosses;
    if (identity().isShared() && ownership.fence().instanceId() == null) {
      context.runs().requireLast(ownership.fence(), ownershipLost, start.members());
    }
    if (gained.isEmpty() && !ownershipLost) {
      return true;
    }
    settled |= ownershipLost;
    LOG.info(
        "Group {}, generation {}: {} partitions are new to this driver",
        identity().group(),
        ownership.fence().generation(),
        gained.size());
    if (!gained.isEmpty()) {
      FaultPoint.AFTER_JOIN.reach();
    }
    try {
      Map<TopicPartition, OffsetAndMetadata> stable =
          context.stableFetch().fetch(gained.keySet(), ownershipLost);
      take(gained.keySet(), stable, sparkStart, rule);
    } catch (Membership.MovedException e) {
      LOG.info("Group {}: some of them have gone already", identity().group());
      return false;
    } catch (EosKafkaException e) {
      if (!e.condition().equals("EOSKAFKA_NO_SUCH_TOPIC")) {
        throw e;
      }
      // Deleted since it was found: one that the user has named is missed here too.
      discoverAgain();
      tracker.requireChosen(sparkStart, context.files());
      return false;
    }
    terms.putAll(gained);
    settledLosses = ownership.ownershipLosses();
    lastIsDecided = false;
    return true;
  }

  /** Finds each partition's start, and commits start offsets that the group does not have yet. */
  private void take(
      Collection<TopicPartition> partitions,
      Map<TopicPartition, OffsetAndMetadata> stable,
      PartitionOffsets sparkStart,
      StartingPoint rule) {
    stable.forEach((partition, offset) -> rule.refuseForeign(partition, offset, this::owner));
    Map<TopicPartition, Long> logged = sparkStart == null ? Map.of() : sparkStart.offsets();
    Optional<PartitionOffsets> initialFile = context.files().readInitialOffsets();
    Map<TopicPartition, Long> initial = initialFile.map(PartitionOffsets::offsets).orElse(Map.of());
    Map<TopicPartition, String> keptIds = context.files().readTopicIds();
    // Before the log's ends: records that come in between would make it look like one that was cut.
    Map<TopicPartition, Long> byOption =
        partitions.stream()
                .filter(p -> !initial.containsKey(p))
                .anyMatch(p -> isToBegin(p, stable.get(p), rule))
            ? new Bounds(options, topics).starts(tracker.partitions())
            : Map.of();
    Map<TopicPartition, Long> earliest = topics.earliest(partitions);
    Map<TopicPartition, Long> ends = topics.highWatermarks(partitions);
    StartResolver resolver =
        new StartResolver(
            rule,
            identity(),
            context.sinkCluster(),
            context.groupIsTheTruth(),
            dataLoss,
            options.starting().isExplicit(),
            lastIsDecided);
    Map<TopicPartition, Long> starts = new HashMap<>();
    Map<TopicPartition, Long> toCommit = new HashMap<>();
    for (TopicPartition partition : partitions) {
      StartResolver.PartitionFacts facts =
          new StartResolver.PartitionFacts(
              partition,
              stable.get(partition),
              tracker.id(partition),
              keptIds.get(partition),
              logged.get(partition),
              logged.isEmpty(),
              initial.get(partition),
              context.epochs().start(partition),
              byOption.get(partition),
              earliest.get(partition),
              ends.get(partition),
              unresolved.contains(partition));
      requireAgreement(facts, sparkStart, rule);
      StartResolver.ResolvedStart resolved = resolver.resolve(facts);
      starts.put(partition, resolved.offset());
      if (resolved.toCommit()) {
        toCommit.put(partition, resolved.offset());
      }
      if (resolved.isRecreated()) {
        tracker.markRecreated(partition);
      }
      if (resolved.isMovedByTask()) {
        movedByTasks.add(partition);
      } else {
        movedByTasks.remove(partition);
      }
    }
    if (!rule.sparkHasBatches() && initialFile.isEmpty()) {
      context.files().writeInitialOffsets(PartitionOffsets.of(starts));
    }
    Set<TopicPartition> leftOut = context.committer().commitStarts(toCommit, ownership.terms());
    starts.keySet().removeAll(leftOut);
    reached.putAll(starts);
    resolve(partitions);
    Set<TopicPartition> started = new HashSet<>(partitions);
    if (identity().isShared()) {
      // What other drivers have begun, and what none has.
      started.addAll(context.offsets().committed(tracker.partitions()).keySet());
      started.addAll(unresolved);
      started.retainAll(tracker.partitions());
    }
    started.removeAll(leftOut);
    tracker.keep(keptIds, started, context.files());
  }

  /**
   * The group has a start of these partitions. The file says so too: otherwise an offset that
   * expires later would look like one that was never committed.
   */
  private void resolve(Collection<TopicPartition> partitions) {
    if (unresolved.removeAll(partitions)) {
      context.files().writeUnresolved(unresolved);
    }
  }

  /** Refuses an offset of the group that contradicts Spark's log. */
  private void requireAgreement(
      StartResolver.PartitionFacts facts, PartitionOffsets sparkStart, StartingPoint rule) {
    OffsetAndMetadata committed = facts.committed();
    if (committed == null || facts.isOfFormerTopic()) {
      return;
    }
    requireNothingLeft(facts.partition(), committed.offset(), sparkStart);
    Stamp stamp = Stamp.parse(committed.metadata()).orElseThrow();
    if (context.groupIsTheTruth() && !rule.logIsAhead() && stamp.scope() == Stamp.Scope.EPOCH) {
      context
          .epochs()
          .requireNotBehindLog(
              facts.partition(), committed.offset(), facts.logged(), options.failOnDataLoss());
    }
  }

  /**
   * Another sink goes by Spark's log, and that says that the last batch is done. Where it was our
   * sink's, and ended early, the group is behind.
   */
  private void requireNothingLeft(
      TopicPartition partition, long committed, PartitionOffsets sparkStart) {
    if (!context.groupIsTheTruth()
        && sparkStart != null
        && (sparkStart.isOurs()
            || context.foreignBatches().isTakenOver(RunningQuery.ofThisThread()))
        && committed < sparkStart.offsets().getOrDefault(partition, 0L)) {
      throw EosKafkaException.of(
          "EOSKAFKA_BATCH_UNFINISHED", Map.of("former", "writeStream.format(\"eoskafka\")"));
    }
  }

  /** Whether {@code startingOffsets} may be asked for; looking them up may fail. */
  private boolean isToBegin(
      TopicPartition partition, OffsetAndMetadata committed, StartingPoint rule) {
    if (committed == null) {
      return unresolved.contains(partition) || rule.isNew();
    }
    return !rule.sparkHasBatches()
        && Stamp.parse(committed.metadata()).orElseThrow().scope() == Stamp.Scope.SOURCE_ONLY;
  }

  /**
   * Adds what an epoch has read to the transaction of its decision. Not where that is on another
   * cluster: there the decision itself has the offsets, and {@link #epochCommitted} tells the
   * group.
   */
  void addEpoch(TransactionalProducer decision, Map<TopicPartition, Long> ends, long epoch) {
    if (!ends.isEmpty() && sinkIsHere()) {
      decision.sendOffsets(
          context.committer().stampedForEpoch(withoutGone(ends), epoch),
          ownership.fence(),
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
    if (!ends.isEmpty() && (!sinkIsHere() || isAgain)) {
      context.committer().commitEpoch(ends, epoch, ownership.terms());
    }
    batchCommitted(ends);
  }

  /** A group cannot have offsets of a partition that was deleted: the broker would be asked on. */
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

  /** Whether the sink is on the source's cluster. */
  boolean sinkIsHere() {
    return context.sinkCluster().equals(Stamp.SAME_CLUSTER);
  }

  /**
   * The ends of a batch that a former run has logged, within what the log has now: after records
   * were lost, nobody can read up to the former end.
   */
  Map<TopicPartition, Long> keepEndsWithinLog(Map<TopicPartition, Long> logged) {
    Map<TopicPartition, Long> kept = new HashMap<>(logged);
    kept.keySet().retainAll(reached.keySet());
    topics
        .highWatermarks(Set.copyOf(kept.keySet()))
        .forEach(
            (partition, logEnd) -> {
              if (kept.get(partition) > logEnd) {
                kept.put(
                    partition,
                    dataLoss.skip(
                        partition,
                        logEnd,
                        "the batch was planned to "
                            + kept.get(partition)
                            + " and the log now ends at "
                            + logEnd,
                        logEnd));
              }
            });
    return kept;
  }

  /** A log that ends before what has been read was truncated while the query ran. */
  @Override
  public void refuseTruncated(Set<TopicPartition> suspects) {
    if (suspects.isEmpty()) {
      return;
    }
    Map<TopicPartition, Long> news = new HashMap<>();
    topics
        .highWatermarks(suspects)
        .forEach(
            (partition, logEnd) -> {
              long next = reached.get(partition);
              if (next > logEnd) {
                news.put(
                    partition,
                    dataLoss.skip(partition, next, "the log now ends at " + logEnd, logEnd));
              }
            });
    try {
      context.committer().commitStarts(news, ownership.terms());
    } catch (Membership.MovedException e) {
      LOG.info("Group {}: partitions whose logs were cut have gone", identity().group());
      // One that stays is found anew: its start is not committed.
      reached.keySet().removeAll(news.keySet());
      return;
    }
    reached.putAll(news);
  }

  /** Partitions that a batch or the group knows and the cluster does not have. */
  void reportMissing(Collection<TopicPartition> needed) {
    reportMissing(tracker.partitions(), needed);
  }

  private void reportMissing(Set<TopicPartition> present, Collection<TopicPartition> needed) {
    for (TopicPartition partition : Set.copyOf(needed)) {
      if (!present.contains(partition)) {
        dataLoss.skipPartition(partition, reached.get(partition));
        reached.remove(partition);
      }
    }
  }

  /** Source-only: Spark's log is the truth; the group's offsets follow it, for lag tools. */
  @Override
  public void commitSourceOnly(Map<TopicPartition, Long> ends) {
    if (context == null || context.groupIsTheTruth()) {
      return;
    }
    Map<TopicPartition, Long> moved = new HashMap<>(ends);
    moved.keySet().retainAll(tracker.partitions());
    moved.entrySet().removeIf(e -> e.getValue().equals(reached.get(e.getKey())));
    context.committer().commitStarts(moved, ownership.terms());
    reached.putAll(moved);
  }

  /** Before Spark logs a batch as done. */
  void requireOwnership() {
    context.member().requireOwnership();
  }

  void batchBegins() {
    batchOpen = true;
  }

  /** For errors: who is in the group. */
  private String owner() {
    return start.members().names();
  }

  void batchCommitted(Map<TopicPartition, Long> ends) {
    reached.putAll(ends);
    batchOpen = false;
  }

  /** Whether the sink commits source offsets with its output. */
  @Override
  public boolean groupIsTheTruth() {
    return context != null && context.groupIsTheTruth();
  }

  /** Whether what the group has of a partition is what tasks have committed batch by batch. */
  boolean isMovedByTasks(TopicPartition partition) {
    return movedByTasks.contains(partition);
  }

  /** Whether producers were fenced since the last call. */
  @Override
  public boolean takeSettled() {
    boolean was = settled;
    settled = false;
    return was;
  }

  Identity identity() {
    return start.identity();
  }

  /** How long this driver has waited in all for stable offsets, in milliseconds. */
  long stableWaitMs() {
    return context == null ? 0 : context.stableFetch().waitMs();
  }

  Fence fence() {
    return ownership.fence();
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

  /** Null unless the group is shared. */
  SharedMembership shared() {
    return context.member() instanceof SharedMembership shared ? shared : null;
  }

  /** When partitions that have been reached came to be owned. */
  Map<TopicPartition, Long> terms(Collection<TopicPartition> partitions) {
    Map<TopicPartition, Long> found = new HashMap<>(terms);
    found.keySet().retainAll(partitions);
    return found;
  }

  @Override
  public Set<TopicPartition> partitions() {
    return tracker.partitions();
  }

  /** The partitions of the source's topics. */
  TopicTracker tracker() {
    return tracker;
  }

  /** After {@link #resume}. */
  ForeignBatches foreignBatches() {
    return context.foreignBatches();
  }

  /** After {@link #resume}. */
  DecidedEpochs epochs() {
    return context.epochs();
  }

  Set<TopicPartition> known() {
    return reached.keySet();
  }

  /** Not another driver's: it has ended ours when it started. */
  private void endBatch() {
    ClientSettings soon = options.client().closing();
    try (Admin closing = Admin.create(soon.admin("eoskafka-driver-" + run))) {
      if (!context.member().isTakenOver(new GroupMembers(closing, identity().group()))) {
        new OpenTransactions(closing, soon, context.transactionalIdPrefix())
            .end(identity().producers());
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
