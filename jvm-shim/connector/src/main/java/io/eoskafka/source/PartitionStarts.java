package io.eoskafka.source;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SourceOptions;
import io.eoskafka.identity.Identity;
import io.eoskafka.identity.Stamp;
import io.eoskafka.spark.RunningQuery;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * Finds where partitions start that a driver has come to own: asks the checkpoint and the cluster
 * for what {@link StartResolver} decides with. It changes nothing.
 */
final class PartitionStarts {
  private final SourceOptions options;
  private final Identity identity;
  private final RunContext context;
  private final Topics topics;
  private final TopicTracker tracker;
  private final DataLossPolicy dataLoss;
  private final Supplier<String> owner;

  /**
   * What was found.
   *
   * @param starts of each partition
   * @param hasInitialFile whether the checkpoint has the query's initial offsets
   * @param keptIds the topic ids that the checkpoint has
   */
  record Found(
      Map<TopicPartition, StartResolver.ResolvedStart> starts,
      boolean hasInitialFile,
      Map<TopicPartition, String> keptIds) {}

  /**
   * @param owner for errors: who is in the group
   */
  PartitionStarts(
      SourceOptions options,
      Identity identity,
      RunContext context,
      Topics topics,
      TopicTracker tracker,
      DataLossPolicy dataLoss,
      Supplier<String> owner) {
    this.options = options;
    this.identity = identity;
    this.context = context;
    this.topics = topics;
    this.tracker = tracker;
    this.dataLoss = dataLoss;
    this.owner = owner;
  }

  /**
   * Finds each partition's start.
   *
   * @param stable the group's stable offsets
   * @param sparkStart the start of the batch that Spark is about to plan, or null before its first
   * @param rule of this start
   * @param lastIsDecided whether the last batch that Spark has planned was decided
   * @param unresolved partitions of a shared group whose starts are not known to be committed
   * @param restarts those that a former start has found
   * @throws EosKafkaException if a start cannot be told, or if records are gone and the query is to
   *     fail
   */
  Found find(
      Collection<TopicPartition> partitions,
      Map<TopicPartition, OffsetAndMetadata> stable,
      PartitionOffsets sparkStart,
      StartingPoint rule,
      boolean lastIsDecided,
      Set<TopicPartition> unresolved,
      RestartedPartitions restarts) {
    stable.forEach((partition, offset) -> rule.refuseForeign(partition, offset, owner));
    if (rule.logIsAhead()) {
      // Also without an identity, which is lost together with what says that the batch was run.
      long last = RunningQuery.ofThisThread().lastDone().orElse(-1);
      context.foreignBatches().requireNotRunHere(last, stable, sparkStart);
    }
    Map<TopicPartition, Long> logged = sparkStart == null ? Map.of() : sparkStart.offsets();
    Optional<PartitionOffsets> initialFile = context.files().readInitialOffsets();
    Map<TopicPartition, Long> initial = initialFile.map(PartitionOffsets::offsets).orElse(Map.of());
    Map<TopicPartition, String> keptIds = context.files().readTopicIds();
    // Before the log's ends: records that come in between would make it look like one that was cut.
    Map<TopicPartition, Long> byOption =
        partitions.stream()
                .filter(p -> !initial.containsKey(p))
                .anyMatch(p -> isToBegin(stable.get(p), rule, unresolved.contains(p)))
            ? new Bounds(options, topics).starts(tracker.partitions())
            : Map.of();
    Map<TopicPartition, Long> earliest =
        topics.earliest(partitions, recreated(partitions, stable, keptIds));
    // The group's offsets say what was read only where they are authoritative.
    boolean groupIsAuthoritative = context.sinkIsOurs() && !rule.logIsAhead();
    Map<TopicPartition, Long> ends =
        topics.sharedEnds(
            furthest(partitions, stable, logged, initial, byOption, restarts),
            groupIsAuthoritative ? tracker.ofPresentTopics(stable) : Map.of());
    StartResolver resolver = resolver(rule, sparkStart, lastIsDecided);
    long lastInTaskScope = lastInTaskScope(stable.values());
    Map<TopicPartition, StartResolver.ResolvedStart> starts = new HashMap<>();
    for (TopicPartition partition : partitions) {
      PartitionFacts facts =
          new PartitionFacts(
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
              restarts.start(partition, tracker.id(partition)),
              unresolved.contains(partition));
      requireAgreement(facts, sparkStart, rule, lastInTaskScope);
      starts.put(partition, resolver.resolve(facts));
    }
    return new Found(starts, initialFile.isPresent(), keptIds);
  }

  /** Those whose topics the checkpoint or the group knows under another id. */
  private Set<TopicPartition> recreated(
      Collection<TopicPartition> partitions,
      Map<TopicPartition, OffsetAndMetadata> stable,
      Map<TopicPartition, String> keptIds) {
    Map<TopicPartition, OffsetAndMetadata> present = tracker.ofPresentTopics(stable);
    Set<TopicPartition> recreated = new HashSet<>(partitions);
    recreated.removeIf(
        partition -> {
          String id = tracker.id(partition);
          return id.equals(keptIds.getOrDefault(partition, id))
              && present.containsKey(partition) == stable.containsKey(partition);
        });
    return recreated;
  }

  private StartResolver resolver(
      StartingPoint rule, PartitionOffsets sparkStart, boolean lastIsDecided) {
    return new StartResolver(
        rule,
        identity,
        context.sinkCluster(),
        context.sinkIsOurs(),
        dataLoss,
        options.starting().isExplicit(),
        lastIsDecided,
        !context.sinkIsOurs() && sparkStart != null && !isOfSink(sparkStart));
  }

  /** The largest offset that may become the start of each partition. */
  private Map<TopicPartition, Long> furthest(
      Collection<TopicPartition> partitions,
      Map<TopicPartition, OffsetAndMetadata> stable,
      Map<TopicPartition, Long> logged,
      Map<TopicPartition, Long> initial,
      Map<TopicPartition, Long> byOption,
      RestartedPartitions restarts) {
    Map<TopicPartition, Long> furthest = new HashMap<>();
    for (TopicPartition partition : partitions) {
      OffsetAndMetadata committed = stable.get(partition);
      furthest.put(
          partition,
          Stream.of(
                  committed == null ? null : committed.offset(),
                  logged.get(partition),
                  initial.get(partition),
                  byOption.get(partition),
                  restarts.start(partition, tracker.id(partition)),
                  context.epochs().start(partition))
              .filter(Objects::nonNull)
              .max(Long::compare)
              .orElse(0L));
    }
    return furthest;
  }

  /** The last batch of which the group has an offset of task scope, or -1. */
  private static long lastInTaskScope(Collection<OffsetAndMetadata> stable) {
    return stable.stream()
        .map(offset -> Stamp.parse(offset.metadata()).orElseThrow())
        .filter(stamp -> stamp.scope() == Stamp.Scope.TASK)
        .mapToLong(Stamp::epoch)
        .max()
        .orElse(-1);
  }

  /** Refuses an offset of the group that contradicts Spark's log. */
  private void requireAgreement(
      PartitionFacts facts, PartitionOffsets sparkStart, StartingPoint rule, long lastInTaskScope) {
    OffsetAndMetadata committed = facts.committed();
    if (committed == null || facts.isOfFormerTopic()) {
      return;
    }
    if (facts.restart() == null) {
      requireNothingLeft(facts.partition(), committed.offset(), sparkStart);
    }
    Stamp stamp = Stamp.parse(committed.metadata()).orElseThrow();
    if (context.sinkIsOurs() && !rule.logIsAhead() && stamp.scope() == Stamp.Scope.EPOCH) {
      context
          .epochs()
          .requireNotBehindLog(
              facts.partition(),
              committed.offset(),
              facts.logged(),
              lastInTaskScope,
              options.failOnDataLoss());
    }
  }

  /**
   * Another sink relies on Spark's log, which says that the last batch is done. If our sink ran
   * that batch and it ended early, the group is behind the log.
   */
  private void requireNothingLeft(
      TopicPartition partition, long committed, PartitionOffsets sparkStart) {
    if (!context.sinkIsOurs()
        && sparkStart != null
        && isOfSink(sparkStart)
        && committed < sparkStart.offsets().getOrDefault(partition, 0L)) {
      throw EosKafkaException.of(
          "EOSKAFKA_BATCH_UNFINISHED", Map.of("former", "writeStream.format(\"eoskafka\")"));
    }
  }

  /** Whether our sink has run the last batch in Spark's log, or has gone on from it. */
  private boolean isOfSink(PartitionOffsets sparkStart) {
    return sparkStart.isOurs() || context.foreignBatches().isTakenOver(RunningQuery.ofThisThread());
  }

  /** Whether {@code startingOffsets} may be asked for; looking them up may fail. */
  private static boolean isToBegin(
      OffsetAndMetadata committed, StartingPoint rule, boolean isUnresolved) {
    if (committed == null) {
      return isUnresolved || rule.isNew();
    }
    return !rule.sparkHasBatches()
        && Stamp.parse(committed.metadata()).orElseThrow().scope() == Stamp.Scope.SOURCE_ONLY;
  }
}
