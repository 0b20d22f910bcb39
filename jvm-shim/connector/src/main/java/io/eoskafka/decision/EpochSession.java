package io.eoskafka.decision;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SinkOptions;
import io.eoskafka.faults.FaultPoint;
import io.eoskafka.query.RunningQuery;
import io.eoskafka.transaction.OpenTransactions;
import io.eoskafka.transaction.PreparedTransaction;
import io.eoskafka.transaction.TransactionalId;
import io.eoskafka.wire.BrokerVersions;
import io.eoskafka.wire.KafkaCalls;
import io.eoskafka.wire.OutputTopics;
import io.eoskafka.wire.TransactionEnds;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One run of a query in epoch scope: its place in the decision topic, and what its start has found
 * there.
 *
 * <p>It is opened before anything else is believed: initialising the decision id settles whether a
 * former driver's last decision holds, and the source offsets that it carries with it.
 */
public final class EpochSession {
  private static final Logger LOG = LoggerFactory.getLogger(EpochSession.class);

  /** Coordinators that restart or move take some seconds. */
  private static final Duration ROLL_FORWARD_TIMEOUT = Duration.ofSeconds(60);

  /**
   * Of a decision's transaction, unless the writers' own is short. Until it has ended, nobody who
   * starts the query can know whether it was decided.
   */
  private static final int DECISION_TIMEOUT_MS = 10_000;

  private record Key(UUID runId, String ownerId) {}

  /** Each is used by its query's thread alone, until it is closed. */
  private static final Map<Key, EpochSession> SESSIONS = new ConcurrentHashMap<>();

  private final EpochOwner owner;
  private final SinkOptions options;
  private final Admin admin;
  private final SinkIdentity identity;
  private final DecisionTopic topic;
  private final DecisionLog log;
  private final OutputTopics outputs;
  private final int transactionTimeoutMs;
  private final long timeoutCheckMs;
  private long generation;
  private long finished = -1;
  private boolean givenUp;
  private boolean unsettled;
  private Decision unlogged;
  private Set<Integer> lost = Set.of();

  private EpochSession(EpochOwner owner, SinkOptions options, Admin admin) {
    this.owner = owner;
    this.options = options;
    this.admin = admin;
    ClientSettings client = options.client();
    String cluster = KafkaCalls.reach(admin.describeCluster().clusterId(), client);
    Optional<SinkIdentity> kept = owner.kept();
    if (kept.isPresent()) {
      requireKept("the sink's cluster", kept.get().cluster(), cluster);
      requireKept("decisionTopic", kept.get().topic(), options.decisionTopic());
    }
    topic = new DecisionTopic(admin, client, options.decisionTopic());
    topic.require(kept.map(SinkIdentity::partitions).orElse(0), owner.mayBegin());
    identity =
        kept.orElseGet(
            () ->
                new SinkIdentity(owner.id(), cluster, options.decisionTopic(), topic.partitions()));
    timeoutCheckMs = topic.timeoutCheckMs();
    outputs = new OutputTopics(admin);
    transactionTimeoutMs = chooseTimeout(topic.maxTransactionTimeoutMs());
    log =
        DecisionLog.open(
            topic,
            client,
            identity.id(),
            TransactionalId.ofDecisions(owner.prefix(options), identity.id()),
            decisionTimeoutMs(),
            owner.isJob() ? 0 : topic.decisionPartition(identity.id()),
            kept.isPresent(),
            () -> OpenTransactions.highestRun(admin, identity.id()));
  }

  private void requireKept(String what, String kept, String now) {
    if (!kept.equals(now)) {
      throw EosKafkaException.of(
          "EOSKAFKA_DECISIONS_ELSEWHERE",
          Map.of("what", what, "kept", kept, "given", now, "owner", owner.name()));
    }
  }

  /** An owner's session in this run; opened, and what is open settled, at its first use. */
  public static EpochSession of(EpochOwner owner, SinkOptions options) {
    if (owner.isJob()) {
      return open(owner, options);
    }
    Key key = new Key(owner.query().runId(), owner.id());
    EpochSession session = SESSIONS.get(key);
    if (session != null && !session.options.isSameTarget(options)) {
      // It would write with the settings that it was opened with.
      throw EosKafkaException.of("EOSKAFKA_SINK_CHANGED", Map.of("owner", owner.name()));
    }
    if (session == null) {
      session = open(owner, options);
      SESSIONS.put(key, session);
      owner
          .query()
          .whenItEnds(
              () -> Optional.ofNullable(SESSIONS.remove(key)).ifPresent(EpochSession::close));
    }
    return session;
  }

  /**
   * Closes those of queries that have ended, without waiting for Spark to tell of it.
   *
   * @param runs that have not: their threads use them
   */
  public static void closeAllBut(Set<UUID> runs) {
    for (Key key : List.copyOf(SESSIONS.keySet())) {
      if (!runs.contains(key.runId())) {
        Optional.ofNullable(SESSIONS.remove(key)).ifPresent(EpochSession::close);
      }
    }
  }

  private static EpochSession open(EpochOwner owner, SinkOptions options) {
    RunningQuery.requireJvmGoesOn();
    FaultPoint.BEFORE_RUN.reach();
    Admin admin = Admin.create(options.client().admin("eoskafka-driver-epochs"));
    EpochSession opened = null;
    try {
      BrokerVersions.require(admin, options.client());
      opened = new EpochSession(owner, options, admin);
      if (owner.kept().isEmpty()) {
        // After the topic's first entry, which this file promises.
        owner.keep(opened.identity);
      }
      opened.resolve();
      return opened;
    } catch (RuntimeException e) {
      if (opened != null) {
        opened.log.close();
      }
      admin.close(Duration.ZERO);
      throw e;
    }
  }

  /**
   * As {@link #of}, where the query may have been in epoch scope before.
   *
   * @param offsetsSaySo whether offsets of its sources have a stamp of epoch scope
   */
  public static Optional<EpochSession> ifUsed(RunningQuery query, boolean offsetsSaySo) {
    EpochOwner owner = EpochOwner.ofSink(query);
    return offsetsSaySo || owner.kept().isPresent()
        ? Optional.of(of(owner, query.sinkOptions()))
        : Optional.empty();
  }

  /**
   * The session of a query's sink if it has been opened: by a source of ours at its start, where
   * the query was in epoch scope before, or by an epoch.
   */
  public static Optional<EpochSession> running(RunningQuery query) {
    return Optional.ofNullable(SESSIONS.get(new Key(query.runId(), EpochOwner.ofSink(query).id())));
  }

  /**
   * Ends what late attempts have opened since the last epoch, unless something is decided, or may
   * be, and not known to be committed: that is the next start's.
   */
  public void close() {
    try {
      if (givenUp || !unsettled && !log.hasEnded()) {
        Map<String, Object> soon = options.client().closingAdmin("eoskafka-driver-epochs");
        try (Admin closing = Admin.create(soon)) {
          endWriters(closing, true);
        }
      }
    } catch (RuntimeException e) {
      LOG.warn("Transactions of lost attempts stay open until the next start", e);
    }
    log.close();
    admin.close(Duration.ZERO);
  }

  /** Settles what a former run has left: nothing of it stays open. */
  private void resolve() {
    if (log.isNew()) {
      // Nothing is known of writers that the brokers list under its id: they may be decided.
      return;
    }
    long planned = owner.planned();
    long done = owner.done();
    if (log.last().isPresent()) {
      Decision decision = log.last().get();
      long epoch = decision.epoch();
      if (epoch > planned) {
        throw EosKafkaException.of(
            "EOSKAFKA_DECISION_NEWER",
            Map.of("decided", epoch, "planned", planned, "owner", owner.name()));
      }
      if (!owner.plan(epoch).agreesWith(decision.plan())) {
        throw EosKafkaException.of(
            "EOSKAFKA_DECISION_OTHER_PLAN", Map.of("epoch", epoch, "owner", owner.name()));
      }
      if (epoch > done) {
        unlogged = decision;
        Uninterrupted.run(() -> lost = rollForward(decision));
        LOG.info(
            "Epoch {} was decided by run {}: {} of its transactions committed, {} lost",
            epoch,
            decision.run(),
            decision.outputs().size() - lost.size(),
            lost.size());
      }
    }
    // What was decided has ended, and must answer the same if the next start asks it again.
    Set<String> decided =
        unlogged == null
            ? Set.of()
            : transactions(unlogged.outputs()).stream()
                .map(PreparedTransaction::transactionalId)
                .collect(Collectors.toSet());
    OpenTransactions.endWriters(admin, identity.id(), run -> run < log.run(), true, decided);
    // Attempts of the last run may yet begin. Not of all runs: ids that are initialised at each
    // start would never expire.
    OpenTransactions.endWriters(admin, identity.id(), run -> run == log.run() - 1, false, decided);
  }

  /**
   * Commits the transactions of a decision.
   *
   * @return the numbers of the writers whose transactions were aborted: what a reader does not find
   */
  Set<Integer> rollForward(Decision decision) {
    Map<PreparedTransaction, WriterOutput> prepared = new HashMap<>();
    for (WriterOutput output : decision.outputs()) {
      if (output.transaction() != null) {
        prepared.put(output.transaction(), output);
      }
    }
    Set<PreparedTransaction> gone;
    try {
      gone =
          new TransactionEnds(admin, options.client())
              .commit(prepared.keySet(), ROLL_FORWARD_TIMEOUT);
    } catch (TimeoutException e) {
      throw topic.unsettled(e);
    }
    // An answer that got lost looks the same as a timeout: the marker tells.
    return topic.lost(
        gone.stream().map(prepared::get).toList(),
        Duration.ofMillis(transactionTimeoutMs).plus(ROLL_FORWARD_TIMEOUT));
  }

  /**
   * Begins to write an epoch.
   *
   * @param sink of this write: the session may be another one's of the same run
   * @throws EosKafkaException {@code EOSKAFKA_SECOND_WRITE} if this run has written it before,
   *     {@code EOSKAFKA_RUN_ENDED} if it could not finish one, {@code EOSKAFKA_EPOCH_TAKEN}
   */
  public EpochBatch begin(long epoch, SinkOptions sink) {
    RunningQuery.requireJvmGoesOn();
    if (finished == epoch) {
      throw EosKafkaException.of(
          "EOSKAFKA_SECOND_WRITE", Map.of("epoch", epoch, "owner", owner.name()));
    }
    if (unsettled || log.hasEnded()) {
      // Its transactional ids may be those of transactions that are decided on.
      throw EosKafkaException.of(
          "EOSKAFKA_RUN_ENDED", Map.of("epoch", epoch, "owner", owner.name()));
    }
    givenUp = false;
    boolean again = isDecided(epoch);
    if (!again && epoch <= lastDecided()) {
      // Spark has chosen the batch before this run's number was claimed; until then the former
      // driver may have decided it, and logged it too.
      throw EosKafkaException.of(
          "EOSKAFKA_EPOCH_TAKEN",
          Map.of("epoch", epoch, "decided", lastDecided(), "owner", owner.name()));
    }
    WriterScope scope =
        new WriterScope(
            identity.id(),
            owner.prefix(options),
            log.run(),
            generation,
            epoch,
            outputs.settings(sink),
            transactionTimeoutMs,
            topic.name(),
            topic.markerPartitions(),
            again ? lost : null,
            sink.registerTopics());
    return new EpochBatch(this, scope, owner.plan(epoch), again ? unlogged : null, lost);
  }

  /** An epoch is undecided and stays so. */
  void giveUp() {
    givenUp = true;
  }

  /**
   * Whether an epoch is decided, or may be, and not all of it is known to be committed: then this
   * run writes no other.
   */
  void setUnsettled(boolean now) {
    unsettled = now;
  }

  /** An epoch is decided, and all of it committed. */
  void finish(long epoch) {
    unsettled = false;
    finished = epoch;
    unlogged = null;
    lost = Set.of();
  }

  /** Whether an epoch was decided by a former run and not logged by Spark. */
  public boolean isDecided(long epoch) {
    return unlogged != null && unlogged.epoch() == epoch;
  }

  /**
   * Where a decided epoch that Spark runs again began to read a partition, or null where there is
   * no such epoch or it did not read it.
   */
  public Long decidedStart(String identityId, TopicPartition partition) {
    return decidedInput(identityId).map(input -> input.starts().get(partition)).orElse(null);
  }

  /**
   * What a decided epoch that Spark runs again has read of a source, or empty as {@link
   * #decidedStart}: only with as many slots, split alike, do its writers make the same rows.
   */
  public Optional<Decision.Input> decidedInput(String identityId) {
    return Optional.ofNullable(unlogged).map(epoch -> epoch.sources().get(identityId));
  }

  /** The writers of a decided epoch whose transactions were aborted. */
  Set<Integer> lost() {
    return lost;
  }

  /** The last epoch that was decided, or -1. */
  public long lastDecided() {
    return log.last().map(Decision::epoch).orElse(-1L);
  }

  /**
   * Ends every open transaction of writers of this run and of former ones, of which an attempt may
   * have begun late.
   *
   * @param attemptsLeft whether an attempt may be left that has not reported: then no later one may
   *     have its transactional id
   */
  void endWriters(boolean attemptsLeft) {
    endWriters(admin, attemptsLeft);
  }

  private void endWriters(Admin by, boolean attemptsLeft) {
    if (attemptsLeft) {
      generation++;
    }
    // A run without forerunners in this topic knows nothing of others: they may be decided.
    OpenTransactions.endWriters(
        by,
        identity.id(),
        run -> run == log.run() || !log.isNew() && run < log.run(),
        true,
        Set.of());
  }

  boolean isJob() {
    return owner.isJob();
  }

  /** Whose session it is, for errors. */
  public String ownerName() {
    return owner.name();
  }

  /** Removes what the decision topic has of an owner that will not come again. */
  public void forget() {
    log.forget();
  }

  DecisionLog log() {
    return log;
  }

  Admin admin() {
    return admin;
  }

  /**
   * How long an epoch may take, from before its first task to its decision: so that the decision
   * can time out, be noticed, and still be rolled forward.
   */
  long undecidedForMs() {
    return transactionTimeoutMs - decisionTimeoutMs() - timeoutCheckMs;
  }

  private int decisionTimeoutMs() {
    return Math.min(DECISION_TIMEOUT_MS, transactionTimeoutMs / 4);
  }

  /**
   * The longest that the brokers allow, unless the user wants less: see {@link #undecidedForMs}.
   */
  private int chooseTimeout(long maxMs) {
    long chosen = options.transactionTimeout().orElse((int) Math.min(maxMs, Integer.MAX_VALUE));
    if (chosen > maxMs) {
      throw EosKafkaException.of(
          "EOSKAFKA_TRANSACTION_TIMEOUT_TOO_LONG", Map.of("timeout", chosen, "maximum", maxMs));
    }
    long least = 4 * timeoutCheckMs;
    if (chosen < least) {
      throw EosKafkaException.of(
          "EOSKAFKA_TRANSACTION_TIMEOUT_TOO_SHORT", Map.of("timeout", chosen, "minimum", least));
    }
    return (int) chosen;
  }

  static List<PreparedTransaction> transactions(List<WriterOutput> outputs) {
    return outputs.stream().map(WriterOutput::transaction).filter(Objects::nonNull).toList();
  }
}
