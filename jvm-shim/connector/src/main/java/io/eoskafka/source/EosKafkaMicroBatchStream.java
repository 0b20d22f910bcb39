package io.eoskafka.source;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SinkOptions;
import io.eoskafka.config.SourceOptions;
import io.eoskafka.decision.Decision;
import io.eoskafka.faults.FaultPoint;
import io.eoskafka.spark.RunningQuery;
import io.eoskafka.task.FenceLeases;
import io.eoskafka.task.SlotCommit;
import io.eoskafka.task.SlotProducers;
import io.eoskafka.task.SlotRange;
import io.eoskafka.task.TaskScope;
import io.eoskafka.transaction.Transactions;
import io.eoskafka.wire.Admins;
import io.eoskafka.wire.KafkaCalls;
import io.eoskafka.wire.OutputTopics;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;

/**
 * The driver's side of a source: translates between Spark's offsets and batches and the group's.
 * Where the two differ, {@link GroupProgress} is authoritative.
 *
 * <p>Spark calls it from the query's thread only. Its methods for real-time mode are those of
 * {@link RealTimeMicroBatchStream}.
 */
public class EosKafkaMicroBatchStream
    implements TransactionalSource, SupportsTriggerAvailableNow, ReportsSourceMetrics {

  /** Between two looks for a batch's end, where it is too early to say. */
  private static final long RETRY_MS = 200;

  private final SourceOptions options;
  private final GroupSharing sharing;
  private final ClientSettings client;
  private final String run = UUID.randomUUID().toString();
  private final String sourcePath;

  // Made when the query first asks: Spark makes sources of queries that it then refuses, and never
  // stops them.
  private Admin admin;
  private Topics topics;
  private OutputTopics outputs;
  private ReadCounts counts;
  private GroupProgress progress;
  private BatchEnd batchEnd;
  private BatchPlanner planner;
  private final TaskScopeLedger ledger;
  private boolean isAvailableNow;
  private boolean isRealTime;

  private PlannedBatch planned = PlannedBatch.none();

  /** Whether this run has planned a batch of its own, not one that a former run had logged. */
  private boolean ownBatch;

  /**
   * @param sourcePath {@code <checkpoint>/sources/<index>}
   */
  EosKafkaMicroBatchStream(SourceOptions options, String sourcePath) {
    this.options = options;
    this.sharing = GroupSharing.of(options.isShared());
    this.client = options.client();
    this.sourcePath = sourcePath;
    this.ledger = new TaskScopeLedger(sharing);
  }

  private void open() {
    if (admin == null) {
      Set<String> hidden = decisionTopics();
      admin = Admins.create(client, "eoskafka-driver-" + run);
      topics = new Topics(admin, options, hidden);
      outputs = new OutputTopics(admin);
      counts = ReadCounts.of(SparkContext.getOrCreate());
      progress = new GroupProgress(run, options, sharing, this::group, sourcePath, admin, topics);
      batchEnd =
          new BatchEnd(
              sharing,
              progress,
              () -> topics.discover().keySet(),
              new StalledLogs(topics::stillReadable, topics::newestReadable, System::nanoTime)
                  ::ends,
              ledger,
              () -> RunningQuery.ofThisThread().stopSoon(),
              System::nanoTime);
      planner = new BatchPlanner(options, sharing, progress, ledger);
    }
  }

  private static Set<String> decisionTopics() {
    Set<String> names = new HashSet<>(Set.of(SinkOptions.DEFAULT_DECISION_TOPIC));
    RunningQuery query = RunningQuery.ofThisThread();
    if (query.sinkIsTransactional()) {
      names.add(query.sinkOptions().decisionTopic());
    }
    return names;
  }

  /** See {@link GroupProgress#resume}. */
  private Map<TopicPartition, Long> resume(PartitionOffsets sparkStart) {
    try {
      open();
      return progress.resume(sparkStart);
    } catch (RuntimeException e) {
      FailedStart.settleDecided(e, options.client());
      throw e;
    }
  }

  /** The group that the user has named, or null. */
  private String group() {
    if (options.groupId() == null) {
      return null;
    }
    List<EosKafkaMicroBatchStream> all =
        RunningQuery.ofThisThread().sources(EosKafkaMicroBatchStream.class);
    int before = (int) all.stream().takeWhile(source -> source != this).count();
    return SelfJoin.group(all.stream().map(source -> source.options).toList(), before, options);
  }

  @Override
  public Offset initialOffset() {
    resume(null);
    PartitionOffsets initial = progress.initialOffsets();
    return progress.sinkIsOurs() ? initial.ours() : initial;
  }

  @Override
  public Offset deserializeOffset(String json) {
    return PartitionOffsets.parse(json, "with the offsets " + json + " for " + sourcePath);
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    return RateLimit.readLimit(options.limits());
  }

  /**
   * @throws EosKafkaException {@code EOSKAFKA_REAL_TIME_REFUSED}
   */
  public void prepareForRealTimeMode() {
    try {
      RealTime.requireAllowed(options);
      requireKeptGroup();
      RealTime.requireLastBatchDone();
    } catch (RuntimeException e) {
      FailedStart.settleWithoutPlan(e, options.client());
      throw e;
    }
    isRealTime = true;
  }

  /** A checkpoint that another query runs with, with another group, is not to be claimed. */
  private void requireKeptGroup() {
    CheckpointFiles files = new CheckpointFiles(sourcePath, RunningQuery.ofThisThread().hadoop());
    files.readIdentity().ifPresent(kept -> DriverStart.requireGroup(group(), kept, files));
  }

  final boolean isRealTime() {
    return isRealTime;
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    // Not asked here: first of all, what a former run has decided is settled.
    isAvailableNow = true;
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("Spark calls latestOffset(Offset, ReadLimit)");
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    RunningQuery.requireDriverRuns();
    PartitionOffsets sparkStart = (PartitionOffsets) start;
    resume(sparkStart);
    ownBatch = true;
    Optional<PartitionOffsets> end = batchEnd.next(sparkStart, limit, isAvailableNow);
    while (end.isEmpty()) {
      KafkaCalls.sleep(RETRY_MS);
      end = batchEnd.next(sparkStart, limit, isAvailableNow);
    }
    // A driver that owns nothing yet has no batch: Spark would run and log an empty one.
    return end.filter(found -> !found.offsets().isEmpty()).orElse(null);
  }

  /** How far partitions could be read when they were looked at last. */
  private Map<TopicPartition, Long> latest() {
    return batchEnd == null ? Map.of() : batchEnd.latest();
  }

  @Override
  public Offset reportLatestOffset() {
    return latest().isEmpty() ? null : PartitionOffsets.of(latest());
  }

  /**
   * The first three have the built-in connector's names; records, over the partitions that this
   * driver has. The others are of this run so far: what driver and tasks have waited for, and what
   * tasks have found gone.
   */
  @Override
  public Map<String, String> metrics(Optional<Offset> latestConsumed) {
    if (latestConsumed.isEmpty() || latest().isEmpty()) {
      return Map.of();
    }
    // A batch that ended early has consumed less than Spark believes.
    Map<TopicPartition, Long> consumed =
        progress.sinkIsOurs()
            ? progress.resume(null)
            : PartitionOffsets.parse(latestConsumed.get().json(), "of the last batch").offsets();
    Map<String, String> lag = OffsetLag.metrics(latest(), consumed);
    if (lag.isEmpty()) {
      return Map.of();
    }
    Map<String, String> metrics = new HashMap<>(lag);
    metrics.put(
        ScanMetrics.StableOffsetWait.NAME,
        Long.toString(progress.stableWaitMs() + ledger.stableWaitMs()));
    metrics.put(ScanMetrics.OffsetOutOfRange.NAME, counts.outOfRange().value().toString());
    metrics.put(ScanMetrics.DataLoss.NAME, counts.losses().value().toString());
    return metrics;
  }

  /** All partitions, in real-time mode: time ends their reading. */
  public InputPartition[] planInputPartitions(Offset start) {
    PartitionOffsets sparkStart = (PartitionOffsets) start;
    Map<TopicPartition, Long> ends = new HashMap<>();
    resume(sparkStart).keySet().forEach(partition -> ends.put(partition, SlotRange.OPEN));
    return plan(sparkStart, ends, false);
  }

  /**
   * @param parts of the slots' readers
   */
  public Offset mergeOffsets(PartitionOffset[] parts) {
    Map<TopicPartition, Long> ends = new HashMap<>();
    planned.ranges().forEach(range -> ends.put(range.topicPartition(), range.epochStart()));
    for (PartitionOffset part : parts) {
      ends.putAll(((SlotOffset) part).reached());
    }
    // Of the batch's beginning, when it is over: by now there is more.
    batchEnd.look(ends.keySet());
    PartitionOffsets end = PartitionOffsets.of(ends);
    return progress.sinkIsOurs() ? end.ours() : end;
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    PartitionOffsets planEnd = (PartitionOffsets) end;
    return plan((PartitionOffsets) start, planEnd.offsets(), !planEnd.isOurs());
  }

  /**
   * @param isForeignText whether Spark's log has the batch's end in the text of another connector
   */
  private InputPartition[] plan(
      PartitionOffsets sparkStart, Map<TopicPartition, Long> ends, boolean isForeignText) {
    Map<TopicPartition, Long> starts = resume(sparkStart);
    boolean isOfOthers = progress.sinkIsOurs() && isForeignText;
    planned = planner.plan(starts, sparkStart, ends, planned, ownBatch, isOfOthers, isRealTime);
    return planned.partitions().toArray(InputPartition[]::new);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new SlotReaderFactory(
        run, progress.reading(), progress.identity().group(), options, counts);
  }

  @Override
  public TaskScope taskScope(
      String token, long epoch, SinkOptions sink, boolean isSynchronous, boolean mayEndEarly) {
    if (!progress.sinkIsOurs()) {
      throw EosKafkaException.of(
          "EOSKAFKA_SCOPE_BROKEN",
          Map.of("detail", "the query's sink was not known to be eoskafka when it was planned"));
    }
    progress.batchBegins();
    if (!mayEndEarly) {
      ledger.slotsAreTogether();
    }
    int interval = sharing.commitIntervalMs(sink);
    if (isRealTime) {
      interval = sink.realTimeCommitIntervalMs();
      progress.realTimeBegins(epoch);
    }
    return new TaskScope(
        token,
        epoch,
        progress.identity(),
        run,
        planned.sharedPlan(),
        progress.fence(),
        sink.transactionalIdPrefix(),
        sink.taskTransactionTimeoutMs(),
        isSynchronous ? interval : 0,
        isSynchronous || !mayEndEarly || !mayEndEarly() ? 0 : sink.longestTransactionMs(),
        client,
        !options.failOnDataLoss(),
        outputs.settings(sink),
        sink.registerTopics());
  }

  /**
   * Whether the next batch, which reads what a task has left, has the same transactional ids: a
   * batch that splits partitions is in epoch scope.
   */
  private boolean mayEndEarly() {
    return sharing.mayEndEarly() && options.split().isNone();
  }

  @Override
  public boolean allowsEpochScope() {
    return sharing.allowsEpochScope();
  }

  @Override
  public void requireExclusive(String reason) {
    sharing.requireExclusive(progress.identity(), reason);
  }

  @Override
  public void requireNoTaskLeft(long epoch, String reason) {
    ledger.requireNothingLeft(epoch, reason);
  }

  @Override
  public Optional<String> notForTasks() {
    if (!progress.sinkIsOnSourceCluster()) {
      return Optional.of("its source is on another cluster than its sink");
    }
    return planned.isSplit()
        ? Optional.of(
            "minPartitions or maxRecordsPerPartition gives one partition to several tasks")
        : Optional.empty();
  }

  @Override
  public void taskScopeCommitted(long epoch, List<SlotCommit> commits) {
    FaultPoint.BEFORE_LOG.reach();
    progress.requireOwnership();
    Map<Integer, SlotCommit> bySlot =
        commits.stream()
            .filter(commit -> commit.producers().equals(producersId()))
            .collect(Collectors.toMap(SlotCommit::slot, commit -> commit));
    Map<TopicPartition, Long> reached = ledger.record(epoch, planned.work().values(), bySlot);
    takeOver(epoch);
    progress.batchCommitted(reached);
    ledger.forgetOwners(sharing.end(progress));
  }

  @Override
  public void requireSparksStart() {
    planned.requireSparksStart(progress.identity().group());
  }

  @Override
  public String producersId() {
    return progress.identity().producersId();
  }

  @Override
  public Decision.Input input() {
    return planned.input();
  }

  @Override
  public void addOffsets(Transactions decision, long epoch) {
    progress.addEpoch(decision, input().ends(), epoch);
  }

  @Override
  public void epochCommitted(long epoch) {
    progress.epochCommitted(input().ends(), epoch, !planned.isOwn());
    takeOver(epoch);
  }

  private void takeOver(long batch) {
    if (planned.isOfOthers()) {
      progress.foreignBatches().takeOver(batch);
    }
  }

  /** Nothing is left to do: the sink's transactions or the next {@link #latestOffset} did it. */
  @Override
  public void commit(Offset end) {}

  @Override
  public void stop() {
    if (admin != null) {
      FenceLeases.unregister(run);
      try {
        if (progress != null) {
          progress.close();
        }
      } finally {
        admin.close(Duration.ofSeconds(5));
        SlotConsumer.closeResting(run);
        if (progress != null && progress.identity() != null) {
          SlotProducers.closeResting(producersId());
        }
      }
    }
  }

  /** For error messages: which partitions the source has. */
  @Override
  public String toString() {
    if (progress == null) {
      return "eoskafka[]";
    }
    Set<String> names =
        progress.known().stream().map(TopicPartition::topic).collect(Collectors.toSet());
    return "eoskafka" + names;
  }
}
