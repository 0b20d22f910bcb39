package io.eoskafka.source;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SourceOptions;
import io.eoskafka.faults.FaultPoint;
import io.eoskafka.group.Membership;
import io.eoskafka.identity.Fence;
import io.eoskafka.identity.Identity;
import io.eoskafka.spark.RunningQuery;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The partitions that a driver owns, and how far each of them has taken effect, as the group says.
 *
 * <p>The driver joins first, then ends what former runs have left, and then does the stable fetch:
 * an executor of the former driver may start another transaction until its fence is refused.
 */
final class OwnedPartitions {
  private static final Logger LOG = LoggerFactory.getLogger(OwnedPartitions.class);

  private final DriverStart start;
  private final GroupSharing sharing;
  private final RunContext context;
  private final Topics topics;
  private final TopicTracker tracker;
  private final DataLossPolicy dataLoss;
  private final PartitionStarts partitionStarts;
  private final RestartedPartitions restarts;

  /** Until the decided batch that read their former topics is done, the checkpoint has its ids. */
  private final Set<TopicPartition> ofDecided = new HashSet<>();

  private Membership.Ownership ownership;

  /** Whether producers were fenced since the last {@link #takeProducersFenced}. */
  private boolean producersFenced;

  /** See {@link #reading}. */
  private int reading;

  private final Map<TopicPartition, Long> reached = new HashMap<>();

  /** For those that have been reached, when they came to be owned. */
  private final Map<TopicPartition, Long> terms = new HashMap<>();

  private final ComparedOffsets compared = new ComparedOffsets();

  /** {@link Membership.Ownership#ownershipLosses} when all starts were found last. */
  private long lossesAtStarts = -1;

  /** See {@link CheckpointFiles#readUnresolved}. */
  private final Set<TopicPartition> unresolved = new HashSet<>();

  /** Whether this run's start has found that Spark's last batch was decided. */
  private boolean lastIsDecided;

  /** Partitions that a batch in task scope has moved last, by their stamps at start. */
  private final Set<TopicPartition> movedByTasks = new HashSet<>();

  /**
   * @param start of this run, which has prepared the context
   */
  OwnedPartitions(
      SourceOptions options,
      GroupSharing sharing,
      DriverStart start,
      RunContext context,
      Topics topics,
      TopicTracker tracker,
      DataLossPolicy dataLoss) {
    this.sharing = sharing;
    this.start = start;
    this.context = context;
    this.topics = topics;
    this.tracker = tracker;
    this.dataLoss = dataLoss;
    lastIsDecided = context.epochs().lastIsDecided();
    partitionStarts =
        new PartitionStarts(
            options,
            start.identity(),
            context,
            topics,
            tracker,
            dataLoss,
            () -> start.members().names());
    restarts =
        new RestartedPartitions(
            context.files(),
            () -> RunningQuery.ofThisThread().lastPlanned().orElse(-1),
            () -> RunningQuery.ofThisThread().lastDone().orElse(-1));
  }

  RestartedPartitions restarts() {
    return restarts;
  }

  /**
   * Before the join: which partitions' starts are not known to be committed.
   *
   * @param rule of this start
   * @param committed partitions of which the group has an offset
   */
  void readUnresolved(StartingPoint rule, Set<TopicPartition> committed) {
    if (!sharing.keepsUnresolved()) {
      return;
    }
    if (rule.resolved() || rule.sparkHasBatches()) {
      unresolved.addAll(context.files().readUnresolved());
      resolve(committed);
    } else {
      unresolved.addAll(tracker.partitions());
      context.files().writeUnresolved(unresolved);
    }
  }

  /** Partitions whose topics were created again under the same name are to be found anew. */
  void discoverAgain() {
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
   * Finds the starts of partitions that have come, and forgets those that have gone.
   *
   * @return false if some have gone while their starts were looked for
   */
  boolean settle(PartitionOffsets sparkStart, StartingPoint rule) {
    if (!ofDecided.isEmpty() && context.epochs().input().isEmpty()) {
      // That batch is done. Their starts are found anew, and the ids of their topics are kept.
      reached.keySet().removeAll(ofDecided);
      ofDecided.clear();
    }
    ownership = context.member().poll(tracker.partitions());
    reached.keySet().retainAll(ownership.terms().keySet());
    Map<TopicPartition, Long> gained = withoutStart(ownership.terms());
    boolean ownershipLost = ownership.ownershipLosses() != lossesAtStarts;
    if (ownership.fence().instanceId() == null) {
      // The group's protocol has no static members that a later run would fence.
      context.runs().requireLast(ownership.fence(), ownershipLost, start.members());
    }
    if (gained.isEmpty() && !ownershipLost) {
      return true;
    }
    producersFenced |= ownershipLost;
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
      if (!tracker.agreesWith(stable)) {
        discoverAgain();
        return false;
      }
      startAt(stable, gained.keySet(), sparkStart, rule);
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
    lossesAtStarts = ownership.ownershipLosses();
    lastIsDecided = false;
    return true;
  }

  /** Those whose start was not found since they came to be owned, with their terms. */
  private Map<TopicPartition, Long> withoutStart(Map<TopicPartition, Long> ownedTerms) {
    Map<TopicPartition, Long> gained = new HashMap<>(ownedTerms);
    gained
        .entrySet()
        .removeIf(
            owned ->
                reached.containsKey(owned.getKey())
                    && owned.getValue().equals(terms.get(owned.getKey())));
    return gained;
  }

  /**
   * Finds each partition's start, and commits start offsets that the group does not have yet.
   *
   * @param stable the group's stable offsets of these partitions
   */
  private void startAt(
      Map<TopicPartition, OffsetAndMetadata> stable,
      Collection<TopicPartition> partitions,
      PartitionOffsets sparkStart,
      StartingPoint rule) {
    PartitionStarts.Found found =
        partitionStarts.find(
            partitions, stable, sparkStart, rule, lastIsDecided, unresolved, restarts);
    Map<TopicPartition, Long> starts = new HashMap<>();
    Map<TopicPartition, Long> restarted = new HashMap<>();
    Map<TopicPartition, Long> toCommit = new HashMap<>();
    found
        .starts()
        .forEach(
            (partition, resolved) -> {
              starts.put(partition, resolved.offset());
              if (resolved.toCommit()) {
                toCommit.put(partition, resolved.offset());
              }
              if (resolved.isRecreated()) {
                tracker.markRecreated(partition);
              }
              if (resolved.isRestart()) {
                restarted.put(partition, resolved.offset());
              }
              if (resolved.isMovedByTask()) {
                movedByTasks.add(partition);
              } else {
                movedByTasks.remove(partition);
              }
            });
    restarts.add(restarted, tracker::id);
    if (!rule.sparkHasBatches() && !found.hasInitialFile()) {
      context.files().writeInitialOffsets(PartitionOffsets.of(starts));
    }
    Set<TopicPartition> leftOut = context.committer().commitStarts(toCommit, ownership.terms());
    starts.keySet().removeAll(leftOut);
    reached.putAll(starts);
    reading++;
    resolve(partitions);
    keepTopicIds(found.keptIds(), partitions, leftOut);
  }

  /**
   * Keeps the topic ids of partitions that have a start.
   *
   * @param keptIds those that the checkpoint has
   * @param partitions whose starts were found now
   * @param leftOut those of them whose start could not be committed
   */
  private void keepTopicIds(
      Map<TopicPartition, String> keptIds,
      Collection<TopicPartition> partitions,
      Set<TopicPartition> leftOut) {
    Map<TopicPartition, OffsetAndMetadata> others =
        sharing.committedBesides(partitions, context.offsets(), tracker.partitions());
    Set<TopicPartition> started = new HashSet<>(partitions);
    // In a shared group: what any driver has begun, and what none has.
    started.addAll(others.keySet());
    started.addAll(unresolved);
    started.retainAll(tracker.partitions());
    started.removeAll(leftOut);
    started.stream()
        .filter(p -> tracker.isRecreated(p) && context.epochs().start(p) != null)
        .forEach(ofDecided::add);
    started.removeAll(ofDecided);
    tracker.keep(keptIds, started, others, context.files());
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

  /**
   * Other drivers of a shared group begin partitions, too. Once they have, an offset that is gone
   * was lost, also for this driver.
   *
   * @return whether the group has an offset of a partition that had none before
   */
  boolean resolveBegun() {
    Set<TopicPartition> begun =
        unresolved.isEmpty() ? Set.of() : context.offsets().committed(unresolved).keySet();
    resolve(begun);
    return !begun.isEmpty();
  }

  /**
   * A log that ends before what has been read was truncated while the query ran.
   *
   * @return where such partitions continue
   */
  Map<TopicPartition, Long> refuseTruncated(Set<TopicPartition> suspects) {
    if (suspects.isEmpty()) {
      compared.take(Map.of());
      return Map.of();
    }
    // Otherwise logs are not compared, and the coordinator need not be asked.
    Map<TopicPartition, OffsetAndMetadata> committed =
        dataLoss.failOnDataLoss()
            ? Map.of()
            : tracker.ofPresentTopics(context.offsets().committed(suspects));
    Map<TopicPartition, Long> toCommit = new HashMap<>();
    Map<TopicPartition, Long> read = new HashMap<>(reached);
    read.keySet().retainAll(suspects);
    topics
        .sharedEnds(read, compared.take(committed))
        .forEach(
            (partition, logEnd) -> {
              long next = reached.get(partition);
              if (next > logEnd) {
                toCommit.put(
                    partition,
                    dataLoss.skip(partition, next, "the log now ends at " + logEnd, logEnd));
              }
            });
    reading += toCommit.isEmpty() ? 0 : 1;
    if (!context.sinkIsOurs()) {
      restarts.add(toCommit, tracker::id);
    }
    try {
      context.committer().commitStarts(toCommit, ownership.terms());
    } catch (Membership.MovedException e) {
      LOG.info("Group {}: partitions whose logs were cut have gone", identity().group());
      // One that stays is found anew: its start is not committed.
      reached.keySet().removeAll(toCommit.keySet());
      return toCommit;
    }
    reached.putAll(toCommit);
    return toCommit;
  }

  /**
   * The ends of a batch that a former run has logged, within what the log has now: after records
   * were lost, nobody can read up to the former end.
   */
  Map<TopicPartition, Long> keepEndsWithinLog(Map<TopicPartition, Long> logged) {
    Map<TopicPartition, Long> kept = new HashMap<>(logged);
    kept.keySet().retainAll(reached.keySet());
    kept.replaceAll(restarts::end);
    Map<TopicPartition, Long> cut = new HashMap<>();
    topics
        .highWatermarks(Map.copyOf(kept))
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
                cut.put(partition, logEnd);
              }
            });
    if (!context.sinkIsOurs()) {
      restarts.cut(cut, tracker::id);
    }
    return kept;
  }

  /** Partitions that are needed and are not there any more. */
  void reportMissing(Set<TopicPartition> present, Collection<TopicPartition> needed) {
    Set<TopicPartition> missing = new HashSet<>(needed);
    missing.removeAll(present);
    if (!missing.isEmpty() && !dataLoss.failOnDataLoss()) {
      topics.requireGone(missing);
    }
    for (TopicPartition partition : missing) {
      dataLoss.skipPartition(partition, reached.get(partition));
      reached.remove(partition);
    }
  }

  /** Whether what the group has of a partition is what tasks have committed batch by batch. */
  boolean isMovedByTasks(TopicPartition partition) {
    return movedByTasks.contains(partition);
  }

  /**
   * A number that changes when the start of a partition is found, or moved back. A consumer that
   * has been idle since before may hold records of a log that was cut and has grown again.
   */
  int reading() {
    return reading;
  }

  /** Whether producers were fenced since the last call. */
  boolean takeProducersFenced() {
    boolean was = producersFenced;
    producersFenced = false;
    return was;
  }

  /** The first offset of each partition that has not taken effect; it changes with this. */
  Map<TopicPartition, Long> reached() {
    return reached;
  }

  /** A batch has taken effect up to these offsets. */
  void move(Map<TopicPartition, Long> ends) {
    reached.putAll(ends);
  }

  /** What the group coordinator checks now. */
  Fence fence() {
    return ownership.fence();
  }

  /** What is owned, and since when. */
  Map<TopicPartition, Long> terms() {
    return ownership.terms();
  }

  /** When partitions that have been reached came to be owned. */
  Map<TopicPartition, Long> terms(Collection<TopicPartition> partitions) {
    Map<TopicPartition, Long> found = new HashMap<>(terms);
    found.keySet().retainAll(partitions);
    return found;
  }

  private Identity identity() {
    return start.identity();
  }
}
