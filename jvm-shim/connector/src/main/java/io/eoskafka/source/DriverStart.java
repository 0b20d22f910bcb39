package io.eoskafka.source;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SinkOptions;
import io.eoskafka.config.SourceOptions;
import io.eoskafka.decision.DecisionOwners;
import io.eoskafka.group.GroupInspector;
import io.eoskafka.group.GroupOffsets;
import io.eoskafka.group.Membership;
import io.eoskafka.identity.Identity;
import io.eoskafka.identity.Stamp;
import io.eoskafka.spark.RunningQuery;
import io.eoskafka.transaction.OpenTransactions;
import io.eoskafka.wire.Admins;
import io.eoskafka.wire.BrokerVersions;
import io.eoskafka.wire.KafkaCalls;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The steps of a driver's start before it joins its group: whose checkpoint it is, what the group
 * and Spark's log have, what makes the query impossible, and what former runs have decided.
 */
final class DriverStart {
  private static final Logger LOG = LoggerFactory.getLogger(DriverStart.class);

  private final String run;
  private final SourceOptions options;
  private final GroupSharing sharing;
  private final Supplier<String> wantedGroup;
  private final String sourcePath;
  private final Admin admin;
  private final Topics topics;
  private final TopicTracker tracker;

  private Identity identity;
  private boolean isIdentityKept;
  private StartingPoint rule;
  private Map<TopicPartition, OffsetAndMetadata> committed = Map.of();
  private long lastForeignBatch = -1;

  /** Null until the start has come so far, which it may have although it has failed. */
  private Membership member;

  /**
   * @param run unique per run of the source
   * @param wantedGroup the group that the user wants it in, or null; asked on the query's thread
   */
  DriverStart(
      String run,
      SourceOptions options,
      GroupSharing sharing,
      Supplier<String> wantedGroup,
      String sourcePath,
      Admin admin,
      Topics topics,
      TopicTracker tracker) {
    this.run = run;
    this.options = options;
    this.sharing = sharing;
    this.wantedGroup = wantedGroup;
    this.sourcePath = sourcePath;
    this.admin = admin;
    this.topics = topics;
    this.tracker = tracker;
  }

  /**
   * Takes these steps. To be followed by {@link #close}, also if it fails.
   *
   * @param sparkStart the start of the batch that Spark is about to plan, or null before its first
   * @throws EosKafkaException the query cannot run; no member of its group was disturbed
   */
  RunContext prepare(PartitionOffsets sparkStart) {
    BrokerVersions.require(admin, options.client());
    RunningQuery query = RunningQuery.ofThisThread();
    Configuration hadoop = query.hadoop();
    CheckpointFiles files = new CheckpointFiles(sourcePath, hadoop);
    Optional<Identity> existing = files.readIdentity();
    identity = identityOf(existing, files);
    isIdentityKept = existing.equals(Optional.of(identity));
    FormerSink.require(query);
    boolean sinkIsOurs = query.sinkIsTransactional();
    GroupOffsets offsets = new GroupOffsets(admin, identity.group());
    ForeignBatches foreignBatches = new ForeignBatches(files, identity);
    lastForeignBatch = sinkIsOurs ? foreignBatches.last(sparkStart, query) : -1;
    discoverTopics(sparkStart, files);
    String transactionalIdPrefix =
        sinkIsOurs
            ? query.sinkOptions().transactionalIdPrefix()
            : SinkOptions.DEFAULT_TRANSACTIONAL_ID_PREFIX;
    String sinkCluster =
        sinkIsOurs ? sinkCluster(query.sinkOptions().client()) : Stamp.SAME_CLUSTER;
    requireTopics();
    committed = offsets.committed(tracker.partitions());
    rule =
        new StartingPoint(
            identity,
            sinkIsOurs ? sinkCluster : null,
            existing.isPresent(),
            // Offsets of ours in a group whose checkpoint is gone show it as well.
            files.readInitialOffsets().isPresent() || !committed.isEmpty(),
            files.sparkHasBatches() && !isAdded(existing, sparkStart, query),
            lastForeignBatch >= 0);
    // Before joining, so that a running owner is not disturbed.
    refuseForeignOffsets(hadoop, sinkIsOurs);
    tracker.requireChosen(sparkStart, files);
    requireWholePartitions(query);
    if (sinkIsOurs) {
      Speculation.warn(query, sharing, query.sinkOptions());
    }
    sharing.require(
        query,
        committed,
        sinkCluster.equals(Stamp.SAME_CLUSTER),
        lastForeignBatch >= 0 || existing.isEmpty() && rule.sparkHasBatches());
    OpenTransactions transactions =
        new OpenTransactions(admin, options.client(), transactionalIdPrefix);
    GroupSharing.Place place = sharing.place(options, identity, admin, members(), transactions);
    member = place.member();
    member.refuseForeignMembers();
    DecisionOwners.of(query).settle(options.client());
    return new RunContext(
        files,
        sinkIsOurs,
        sinkCluster,
        transactionalIdPrefix,
        offsets,
        member,
        place.release(),
        new OffsetCommitter(member, identity, sinkCluster, sinkIsOurs, topics, tracker),
        new StableFetch(offsets, member, transactions, identity, place.departed()),
        new CheckpointRuns(run, files, identity),
        foreignBatches,
        sinkIsOurs
            ? DecidedEpochs.settle(query, committed.values(), identity, files)
            : DecidedEpochs.none(identity));
  }

  /** Those that Spark's log has, and those that the options choose now. */
  private void discoverTopics(PartitionOffsets sparkStart, CheckpointFiles files) {
    tracker.addFormer(files.readFormerTopicIds());
    Set<TopicPartition> logged = sparkStart == null ? Set.of() : sparkStart.offsets().keySet();
    tracker.update(tracker.discover(logged, files.readTopicIds()));
  }

  /**
   * Whether the source was added to a query that has run before, which Spark allows if sources have
   * names: then its log has batches without it.
   */
  private static boolean isAdded(
      Optional<Identity> existing, PartitionOffsets sparkStart, RunningQuery query) {
    return existing.isEmpty() && sparkStart == null && query.lastDone().isPresent();
  }

  private void requireTopics() {
    if (tracker.partitions().isEmpty()) {
      throw EosKafkaException.of(
          "EOSKAFKA_NO_SUCH_TOPIC", Map.of("topic", options.strategyValue()));
    }
  }

  private void refuseForeignOffsets(Configuration hadoop, boolean sinkIsOurs) {
    committed.forEach(
        (partition, offset) -> {
          if (sinkIsOurs) {
            // Any other sink of a pipeline is a table, which Spark has emptied.
            FullRefresh.refuse(sourcePath, hadoop, identity, partition, offset);
          }
          rule.refuseForeign(partition, offset, () -> members().names());
        });
  }

  private Identity identityOf(Optional<Identity> existing, CheckpointFiles files) {
    String wanted = wantedGroup.get();
    Identity found =
        existing.orElseGet(
            () -> Identity.of(wanted, options.groupIdPrefix(), sourcePath, options.isShared()));
    if (existing.isPresent() && found.isShared() != options.isShared()) {
      found = changeOwnership(found, files);
    }
    requireGroup(wanted, found, files);
    return found;
  }

  /**
   * @param wanted the group that the user wants it in, or null
   */
  static void requireGroup(String wanted, Identity kept, CheckpointFiles files) {
    if (wanted != null && !wanted.equals(kept.group())) {
      throw EosKafkaException.of(
          "EOSKAFKA_GROUP_CHANGED",
          Map.of("given", wanted, "kept", kept.group(), "checkpoint", files.checkpoint()));
    }
  }

  /** A group may be shared from now on; once it is, another driver may join at any time. */
  private static Identity changeOwnership(Identity kept, CheckpointFiles files) {
    if (kept.isShared()) {
      throw EosKafkaException.of(
          "EOSKAFKA_OWNERSHIP_CHANGED",
          Map.of("group", kept.group(), "checkpoint", files.checkpoint()));
    }
    return new Identity(kept.group(), kept.instanceId(), kept.checkpointId(), true);
  }

  /** Here, before Spark has logged a batch that every restart would plan in the same way. */
  private void requireWholePartitions(RunningQuery query) {
    if (!options.split().isNone()
        && query.sinkIsTransactional()
        && query.sinkOptions().transactionScope() == SinkOptions.TransactionScope.TASK) {
      throw EosKafkaException.of(
          "EOSKAFKA_SCOPE_REFUSED",
          Map.of(
              "reason",
              "minPartitions and maxRecordsPerPartition may give one partition to several tasks"));
    }
  }

  /** The sink's cluster as stamps have it. */
  private String sinkCluster(ClientSettings sink) {
    if (sink.bootstrapServers().equals(options.client().bootstrapServers())) {
      return Stamp.SAME_CLUSTER;
    }
    try (Admin other = Admins.create(sink, "eoskafka-driver-sink")) {
      BrokerVersions.require(other, sink);
      String id = KafkaCalls.reach(other.describeCluster().clusterId(), sink);
      String own = KafkaCalls.reach(admin.describeCluster().clusterId(), options.client());
      return id.equals(own) ? Stamp.SAME_CLUSTER : Stamp.clusterOf(id);
    }
  }

  /** Says which timeout is the longer one, for those who look for why readers have waited. */
  void explainTimeouts(SinkOptions sink) {
    int transaction = sink.taskTransactionTimeoutMs();
    OptionalLong session = options.client().sessionTimeoutMs();
    if (session.isEmpty() || transaction > session.getAsLong()) {
      LOG.info(
          "Transactions of group {} in task scope time out after {} ms, its members after {} without"
              + " a heartbeat. The first may be the longer one: who owns a partition next ends what"
              + " members that are gone have left open, and their offsets are refused. Only if"
              + " nobody starts again do read_committed readers wait for a transaction's timeout.",
          identity.group(),
          transaction,
          session.isPresent()
              ? session.getAsLong() + " ms"
              : "the broker's group.consumer.session.timeout.ms");
    }
  }

  /** Leaves the group, if it was joined. */
  void close() {
    if (member != null) {
      member.close();
    }
  }

  /** Who is in the query's group. */
  GroupInspector members() {
    return new GroupInspector(admin, identity.group());
  }

  /** Null until it is known, which it may be although the start has failed. */
  Identity identity() {
    return identity;
  }

  /** Whether the checkpoint had this identity before. */
  boolean isIdentityKept() {
    return isIdentityKept;
  }

  /** Which log is authoritative for each partition at this start. */
  StartingPoint rule() {
    return rule;
  }

  /** What the group had before the driver joined it. */
  Map<TopicPartition, OffsetAndMetadata> committed() {
    return committed;
  }

  /** As {@link ForeignBatches#last}. */
  long lastForeignBatch() {
    return lastForeignBatch;
  }
}
