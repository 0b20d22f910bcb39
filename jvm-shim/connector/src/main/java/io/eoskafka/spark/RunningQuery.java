package io.eoskafka.spark;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SinkOptions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.TimeoutException;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import org.apache.spark.sql.execution.streaming.sources.WriteToMicroBatchDataSource;
import org.apache.spark.sql.internal.SharedState;
import org.apache.spark.sql.streaming.StreamingQueryListener;
import org.apache.spark.sql.streaming.StreamingQueryManager;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;

/** What source and sink can learn about the streaming query on whose thread they are called. */
public final class RunningQuery {
  private static final Logger LOG = LoggerFactory.getLogger(RunningQuery.class);
  private static final long LOOK_MS = 200;
  private static final String ALLOW_CHECKPOINT_V1 =
      "spark.sql.streaming.realTimeMode.dangerouslyAllowCheckpointV1.enabled";
  private static final String QUERY_ID_KEY = MovedClass.STREAM_EXECUTION.constant("QUERY_ID_KEY");

  /**
   * Spark sources that keep their records in the driver's memory, in whatever package of a version.
   * The rows of {@code rate} and {@code rate-micro-batch} depend on their offsets alone.
   */
  private static final Pattern NON_REPLAYABLE =
      Pattern.compile(
          "org\\.apache\\.spark\\.sql\\.execution\\.streaming\\..*"
              + "(TextSocketMicroBatchStream|MemoryStream)");

  /** Of the last session that had a query of ours; it knows all queries of the JVM. */
  private static volatile SharedState shared;

  private static volatile boolean isEnding;

  private final StreamRun query;
  private final SparkSession session;
  private final long batch;

  private RunningQuery(StreamRun query, SparkSession session) {
    this.query = query;
    this.session = session;
    this.batch = currentBatch(query);
  }

  private static long currentBatch(StreamRun query) {
    StreamRun.Batch running = StreamRun.latestBatch(query);
    return running == null ? -1 : running.batchId();
  }

  /** The query that runs this thread or has created it: source and sink are called on no other. */
  public static RunningQuery ofThisThread() {
    SparkSession session = SparkSession.active();
    shared = (SharedState) NamedMethod.SHARED_STATE.of(session);
    String queryId = session.sparkContext().getLocalProperty(QUERY_ID_KEY);
    // Without the class of the values, which has another name before Spark 4.1.
    Map<UUID, ?> queries = shared.activeStreamingQueries();
    StreamRun query =
        Optional.ofNullable(queryId)
            .<Object>map(id -> queries.get(UUID.fromString(id)))
            .<StreamRun>map(MovedClass.STREAM_EXECUTION::view)
            .orElseThrow(
                () ->
                    EosKafkaException.of(
                        "EOSKAFKA_SCOPE_BROKEN",
                        Map.of("detail", "no streaming query runs on this thread")));
    FunctionQueries.note(query, session);
    return new RunningQuery(query, session);
  }

  /**
   * The query whose running batch a batch write belongs to, or empty for a batch job. It does if it
   * is on the thread that runs the query, or if its rows are made from those of the running batch.
   *
   * <p>A thread's local properties do not show this: a pool thread keeps those of the batch that
   * has created it.
   *
   * @throws EosKafkaException {@code EOSKAFKA_WRITE_OFF_THREAD} if the rows are not those of the
   *     running batch, but their session is that of a query with a function, or this thread was
   *     created by such a query's; the query may have ended. {@code EOSKAFKA_WRITE_THROUGH_CONNECT}
   *     if a client of Spark Connect asks in the session of a query with a function, and the rows
   *     are not those of the running batch
   */
  public static Optional<RunningQuery> ofWrite(Dataset<Row> rows) {
    SparkSession session = rows.sparkSession();
    List<StreamRun> queries = active(session);
    queries.forEach(query -> FunctionQueries.note(query, StreamRun.sessionOf(query)));
    for (StreamRun query : queries) {
      if (query.queryExecutionThread() == Thread.currentThread()) {
        return Optional.of(new RunningQuery(query, session));
      }
    }
    for (StreamRun query : queries) {
      RunningQuery running = new RunningQuery(query, session);
      // The batch may end meanwhile: then the rows do not belong to the one that runs now.
      if (BatchRows.isInFunction(query)
          && BatchRows.areIn(rows, query)
          && running.batch == currentBatch(query)) {
        return Optional.of(running);
      }
    }
    String inherited = session.sparkContext().getLocalProperty(QUERY_ID_KEY);
    FunctionQueries.checkpointOf(session, inherited)
        .ifPresent(
            checkpoint -> {
              throw notOfBatch("EOSKAFKA_WRITE_OFF_THREAD", checkpoint);
            });
    if (ConnectServer.isCaller()) {
      requireNotOfFunction(session, queries);
    }
    return Optional.empty();
  }

  /** Through Connect neither thread nor session shows whether a query's function has asked. */
  private static void requireNotOfFunction(SparkSession session, List<StreamRun> running) {
    // The server lists a query only when it has already started.
    Stream.concat(running.stream(), ConnectServer.queries().stream())
        .filter(query -> BatchRows.isForFunction(query) && ConnectServer.isOf(session, query))
        .findFirst()
        .ifPresent(
            query -> {
              throw notOfBatch("EOSKAFKA_WRITE_THROUGH_CONNECT", query.resolvedCheckpointRoot());
            });
  }

  private static EosKafkaException notOfBatch(String condition, String checkpoint) {
    return EosKafkaException.of(condition, Map.of("checkpoint", checkpoint));
  }

  /** How many tasks run at a time, with the executors that are registered by now. */
  public static int cores() {
    SparkContext spark = SparkContext.getOrCreate();
    int now = spark.maxNumConcurrentTasks(spark.resourceProfileManager().defaultResourceProfile());
    return now > 0 ? now : spark.defaultParallelism();
  }

  /** Whether Spark may start a copy of a running task, which it never does in local mode. */
  public static boolean isSpeculating() {
    SparkContext spark = SparkContext.getOrCreate();
    return !spark.isLocal() && spark.getConf().getBoolean("spark.speculation", false);
  }

  /** The number of the batch that it ran when it was looked up. */
  public long batch() {
    return batch;
  }

  /** Unique per run of a query. */
  public UUID runId() {
    return query.runId();
  }

  /** Whether its batches end after a time, whatever its sources are. */
  public boolean isRealTime() {
    return SparkVersion.hasRealTime() && RealTimePlans.isRealTime(query.trigger());
  }

  /**
   * Lets Spark run a query without state in real-time mode although its checkpoint has state store
   * format 1, which may lose state. It does nothing for a query that may have state.
   */
  public void allowCheckpointV1() {
    if (gathers().isEmpty()) {
      StreamRun.sessionOf(query).conf().set(ALLOW_CHECKPOINT_V1, "true");
    }
  }

  public boolean sinkIsTransactional() {
    return query.sink() instanceof TransactionalSink;
  }

  /**
   * An operator of its plan that shuffles or keeps state, as far as this is known before a batch is
   * planned, or empty.
   */
  public Optional<String> gathers() {
    return LogicalShape.gathers(query.logicalPlan());
  }

  /** Whether it has a source of another class, or reads a source twice. */
  public boolean readsOtherThan(Class<? extends SparkDataStream> type) {
    return query.sources().size() != sources(type).size();
  }

  /**
   * The description of a source that is known not to return the same records for the same offsets
   * after a restart, or empty. A source that the connector does not know counts as replayable.
   */
  public Optional<String> nonReplayableSource() {
    return sources(SparkDataStream.class).stream()
        .filter(source -> NON_REPLAYABLE.matcher(source.getClass().getName()).matches())
        .map(Object::toString)
        .findFirst();
  }

  /** The options of its sink, which is an eoskafka sink. */
  public SinkOptions sinkOptions() {
    LogicalPlan plan = query.logicalPlan();
    if (!(plan instanceof WriteToMicroBatchDataSource write)) {
      throw EosKafkaException.of(
          "EOSKAFKA_SCOPE_BROKEN", Map.of("detail", "the query's plan does not end in a write"));
    }
    return ((TransactionalSink) query.sink())
        .sinkOptions(new CaseInsensitiveStringMap(ScalaCollections.map(write.writeOptions())));
  }

  /**
   * The range of one source in the running batch.
   *
   * @param start null in a query's first batch
   */
  public record SourceBatch<S>(S stream, Offset start, Offset end) {
    /** Whether Spark has planned something of this source. Spark compares offsets by their text. */
    public boolean hasNews() {
      return start == null || !start.json().equals(end.json());
    }
  }

  /** Its sources of this class, each once, in their order in the query. */
  public <S extends SparkDataStream> List<S> sources(Class<S> type) {
    Set<SparkDataStream> seen = Collections.newSetFromMap(new IdentityHashMap<>());
    return ScalaCollections.list(query.sources()).stream()
        .filter(stream -> type.isInstance(stream) && seen.add(stream))
        .map(type::cast)
        .toList();
  }

  /** Those of these sources that are part of the running batch. */
  public <S extends SparkDataStream> List<SourceBatch<S>> sourcesOfBatch(Class<S> type) {
    StreamRun.Batch batch = StreamRun.latestBatch(query);
    List<SourceBatch<S>> found = new ArrayList<>();
    for (S stream : sources(type)) {
      Option<Offset> end = batch.endOffsets().get(stream);
      if (end.isDefined()) {
        Option<Offset> start = batch.startOffsets().get(stream);
        found.add(new SourceBatch<>(stream, start.isDefined() ? start.get() : null, end.get()));
      }
    }
    return found;
  }

  /** Where the checkpoint is. */
  public String checkpoint() {
    return query.resolvedCheckpointRoot();
  }

  /** The checkpoint's own folder, beside Spark's. */
  public CheckpointFolder checkpointFolder() {
    return new CheckpointFolder(checkpoint(), hadoop());
  }

  /** As Spark creates it for its own files: with the settings of the query's session. */
  public Configuration hadoop() {
    return (Configuration)
        NamedMethod.HADOOP_SETTINGS.of(NamedMethod.SESSION_STATE.of(query.sparkSession()));
  }

  /** What its checkpoint says about its batches. */
  public Checkpoint logs() {
    return new Checkpoint(checkpoint(), hadoop());
  }

  /**
   * Requires that Spark's log has the running batch as it is. A file manager may have failed to
   * write the file without an error. And in an object store another driver's file may replace it,
   * because there Spark first looks for a file and then writes it.
   *
   * @throws EosKafkaException {@code EOSKAFKA_BATCH_NOT_LOGGED}
   */
  public void requireLogged() {
    Checkpoint logs = logs();
    // Version 2 of the file has the name of a source before its offset.
    List<String> logged =
        logs.plan(batch)
            .orElseThrow(() -> logs.notLogged(batch, "does not exist"))
            .lines()
            .flatMap(line -> Stream.of(line, line.substring(line.indexOf(':') + 1)))
            .toList();
    for (SourceBatch<SparkDataStream> source : sourcesOfBatch(SparkDataStream.class)) {
      if (!logged.contains(source.end().json())) {
        throw logs.notLogged(batch, "has other offsets of " + source.stream());
      }
    }
  }

  /**
   * Whether the session names the class that writes Spark's logs. Spark's own ones report each file
   * that they could not write.
   */
  public boolean hasOwnFileManager() {
    String setting = CheckpointFileSystem.MANAGER;
    // The same as in hadoop(), but without copying all settings for each batch.
    return query.sparkSession().conf().contains(setting)
        || query.sparkSession().sparkContext().hadoopConfiguration().get(setting) != null;
  }

  /** The last batch that Spark has planned, by its offset log. */
  public OptionalLong lastPlanned() {
    return logs().lastPlanned();
  }

  /** The last batch that Spark does not run again. */
  public OptionalLong lastDone() {
    return logs().lastDone();
  }

  /** Stops this run in order, as a user's {@code stop()} does. */
  public void stopSoon() {
    Thread stopping =
        new Thread(
            () -> {
              try {
                query.stop();
              } catch (TimeoutException e) {
                LOG.warn("Query {} did not stop in time", query.id(), e);
              }
            },
            "eoskafka-stop-" + query.runId());
    stopping.setDaemon(true);
    stopping.start();
  }

  /**
   * Makes all queries of this JVM fail, and waits until they have ended their transactions and left
   * their groups. They fail instead of stopping: a program that waits for one must not assume that
   * all its input was processed. From now on no query of this connector begins a batch.
   *
   * @return the runs that have not ended within the limit
   */
  public static Set<UUID> interruptAll(Duration limit) {
    isEnding = true;
    active().forEach(query -> LOG.info("The driver's JVM ends, and with it query {}", query.id()));
    Map<UUID, StreamRun> runs = new HashMap<>();
    long deadline = System.nanoTime() + limit.toNanos();
    try {
      while (System.nanoTime() < deadline) {
        // Each time again: a program may start another run after one has failed.
        active().forEach(query -> runs.putIfAbsent(query.runId(), query));
        List<StreamRun> alive = runs.values().stream().filter(RunningQuery::goesOn).toList();
        if (alive.isEmpty()) {
          break;
        }
        alive.forEach(RunningQuery::interrupt);
        alive.get(0).queryExecutionThread().join(LOOK_MS);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    return runs.values().stream()
        .filter(query -> query.queryExecutionThread().isAlive())
        .map(StreamRun::runId)
        .collect(Collectors.toSet());
  }

  /**
   * Must be called before each batch.
   *
   * @throws EosKafkaException {@code EOSKAFKA_DRIVER_ENDS} once the JVM shuts down: a {@code
   *     foreachBatch} function may have mistaken the interruption for its own error
   */
  public static void requireDriverRuns() {
    if (isEnding) {
      throw EosKafkaException.of("EOSKAFKA_DRIVER_ENDS", Map.of());
    }
  }

  /** The queries that are running in the JVM of a session. */
  static List<StreamRun> active(SparkSession session) {
    shared = (SharedState) NamedMethod.SHARED_STATE.of(session);
    return active();
  }

  private static List<StreamRun> active() {
    SharedState state = shared;
    if (state == null) {
      return List.of();
    }
    Map<UUID, ?> queries = state.activeStreamingQueries();
    return queries.values().stream().<StreamRun>map(MovedClass.STREAM_EXECUTION::view).toList();
  }

  /**
   * Excludes a thread that has called {@code System.exit}: it waits for the shutdown hook that
   * calls this, so waiting for it would be a deadlock.
   */
  private static boolean goesOn(StreamRun query) {
    Thread thread = query.queryExecutionThread();
    return thread.isAlive()
        && Arrays.stream(thread.getStackTrace())
            .noneMatch(frame -> frame.getClassName().equals("java.lang.Shutdown"));
  }

  private static void interrupt(StreamRun query) {
    query.queryExecutionThread().interrupt();
    try {
      // An interrupted thread leaves its job behind, and Spark would run the job's tasks again.
      query.sparkSession().sparkContext().cancelJobGroup(query.runId().toString());
    } catch (RuntimeException e) {
      LOG.debug("Spark's context ends too", e);
    }
  }

  /** Runs an action once after this run has ended, on another thread and with some delay. */
  public void whenItEnds(Runnable action) {
    UUID run = query.runId();
    // The session of this thread is the query's own copy, whose listeners get no events.
    StreamingQueryManager queries = query.sparkSession().streams();
    queries.addListener(
        new StreamingQueryListener() {
          @Override
          public void onQueryStarted(QueryStartedEvent event) {}

          @Override
          public void onQueryProgress(QueryProgressEvent event) {}

          @Override
          public void onQueryTerminated(QueryTerminatedEvent event) {
            if (event.runId().equals(run)) {
              queries.removeListener(this);
              action.run();
            }
          }
        });
  }
}
