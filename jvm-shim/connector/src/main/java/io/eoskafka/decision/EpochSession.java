package io.eoskafka.decision;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SinkOptions;
import io.eoskafka.spark.RunningQuery;
import io.eoskafka.transaction.TransactionRef;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Function;
import java.util.function.LongSupplier;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;
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

  private final EpochOwner owner;
  private final SinkOptions options;
  private final SinkIdentity identity;

  /** Whether the checkpoint has this identity already. */
  private final boolean isKept;

  private final DecisionRecords topic;
  private final EpochCoordinators transactions;
  private final DecisionLog log;
  private final Function<SinkOptions, ClientSettings> outputs;
  private final EpochTimes times;
  private final LongSupplier nanoClock;
  private final LostAttempts lostAttempts;
  private final int transactionTimeoutMs;
  private long finished = -1;
  private boolean givenUp;
  private boolean unsettled;
  private boolean closed;

  /** Whether a thread decides an epoch, or commits what it has decided: its clients stay open. */
  private volatile boolean deciding;

  /** A decision of a former run, if Spark has not logged its epoch or some of it is lost. */
  private volatile Decision former;

  /** Whether Spark has logged it. */
  private boolean isFormerLogged;

  /** The writers of the former decision whose transactions were aborted. */
  private volatile Set<Integer> lost = Set.of();

  EpochSession(EpochOwner owner, SinkOptions options, EpochConnection connection) {
    this.owner = owner;
    this.options = options;
    identity = connection.identity();
    isKept = connection.isKept();
    topic = connection.topic();
    transactions = connection.coordinators();
    log = connection.log();
    outputs = connection.outputs();
    times = connection.times();
    nanoClock = connection.nanoClock();
    lostAttempts = new LostAttempts(identity.id(), log, transactions, connection.background());
    transactionTimeoutMs = times.transactionTimeoutMs();
  }

  /** Whether another write with these options can be this session's. */
  boolean hasTarget(SinkOptions others) {
    return options.isSameTarget(others);
  }

  /** A session of an owner outside of a query's run; the caller closes it. */
  public static EpochSession open(EpochOwner owner, SinkOptions options) {
    EpochSession opened = new EpochSession(owner, options, EpochConnection.open(owner, options));
    opened.start();
    return opened;
  }

  /** Claims the run's number and settles what former runs have left; closes if that fails. */
  void start() {
    if (log.isNew() && !owner.mayBegin()) {
      // Nothing is known of this job. If it had an entry, the next caller would take it for
      // undecided.
      return;
    }
    try {
      log.claimRun();
      if (!isKept) {
        // After the topic's first entry, which this file promises.
        owner.keep(identity);
      }
      resolve();
    } catch (RuntimeException e) {
      disconnect();
      throw e;
    }
  }

  /**
   * Settles what former runs of an owner have left, for a run that does not write as this owner
   * (the owner of the run's own sink is settled by {@link #open}): commits what they have decided
   * and ends everything else.
   *
   * @return the last decision, if there is one
   */
  static Optional<Decision> settle(EpochOwner owner, SinkOptions options) {
    return new EpochSession(owner, options, EpochConnection.open(owner, options)).settle();
  }

  /** As {@link #settle(EpochOwner, SinkOptions)}, and closes. */
  Optional<Decision> settle() {
    try {
      resolve();
      if (isFormerLogged) {
        LOG.error("{}", former.incomplete(lost, owner.name()).getMessage());
      }
      return log.last();
    } finally {
      disconnect();
    }
  }

  private void disconnect() {
    log.close();
    transactions.close();
  }

  /**
   * Ends what late attempts have opened since the last epoch, unless something is decided, or may
   * be, and not known to be committed: that is the next start's, or the work of the thread that is
   * deciding, which may be another one than the query's.
   */
  public void close() {
    boolean nothingIsDecided = forbidDecisions();
    lostAttempts.close();
    if (nothingIsDecided) {
      lostAttempts.end();
    }
    if (!deciding) {
      disconnect();
    }
  }

  /**
   * From now on no decision is allowed: a write on another thread may be about to make one.
   *
   * @return whether nothing is decided that may not be committed yet
   */
  private synchronized boolean forbidDecisions() {
    closed = true;
    return givenUp || !unsettled && !log.hasFailed();
  }

  /**
   * Settles what a former run has left: nothing of it stays open. What it has decided is committed
   * whatever Spark has logged, since a function of {@code foreachBatch} that has caught the error
   * of its write lets Spark log the batch.
   */
  private void resolve() {
    if (log.isNew()) {
      // Nothing is known of writers that the brokers list under its id: they may be decided.
      return;
    }
    // Not to be fenced: a start that has to ask again must find their transactions as they are.
    Set<String> decided = Set.of();
    if (log.last().isPresent()) {
      Decision decision = log.last().get();
      requireSparksPlan(decision);
      boolean isLogged = decision.epoch() <= owner.done();
      if (!isLogged || !owner.isSink()) {
        Uninterrupted.run(() -> lost = rollForward(decision, Map.of()));
        LOG.info(
            "Epoch {} was decided by run {}: {} of its transactions committed, {} lost",
            decision.epoch(),
            decision.run(),
            decision.transactions().size() - lost.size(),
            lost.size());
      }
      if (!isLogged) {
        decided =
            decision.transactions().stream()
                .map(TransactionRef::transactionalId)
                .collect(Collectors.toSet());
      }
      if (!isLogged || !lost.isEmpty()) {
        former = decision;
        isFormerLogged = isLogged;
      }
    }
    transactions.endWriters(identity.id(), run -> run < log.run(), true, Set.of());
    if (log.isClaimed()) {
      // Attempts of the last run may yet begin. Not of all runs: ids that are initialised at each
      // start would never expire.
      transactions.endWriters(identity.id(), run -> run == log.run() - 1, false, decided);
    }
  }

  private void requireSparksPlan(Decision decision) {
    long epoch = decision.epoch();
    long planned = owner.planned();
    if (epoch > planned) {
      throw EosKafkaException.of(
          "EOSKAFKA_DECISION_NEWER",
          Map.of("decided", epoch, "planned", planned, "owner", owner.name()));
    }
    if (!owner.agreesWith(epoch, decision.plan())) {
      throw EosKafkaException.of(
          "EOSKAFKA_DECISION_OTHER_PLAN", Map.of("epoch", epoch, "owner", owner.name()));
    }
  }

  /**
   * Commits the transactions of a decision.
   *
   * @param openAt see {@link io.eoskafka.transaction.TransactionEnds#commit}
   * @return the numbers of the writers whose transactions were aborted: what a reader does not find
   */
  Set<Integer> rollForward(Decision decision, Map<TransactionRef, Integer> openAt) {
    return new RollForward(topic, transactions, nanoClock, transactionTimeoutMs)
        .of(decision, openAt);
  }

  /**
   * Begins to write an epoch.
   *
   * @param sink of this write: the session may be another one's of the same run
   * @throws EosKafkaException {@code EOSKAFKA_SECOND_WRITE} if this run has written it before,
   *     {@code EOSKAFKA_RUN_ENDED} if it could not finish one, {@code EOSKAFKA_EPOCH_TAKEN}, {@code
   *     EOSKAFKA_WRITE_INCOMPLETE} if a decision of a former run has lost output that this epoch
   *     does not write again
   */
  public EpochBatch begin(long epoch, SinkOptions sink) {
    RunningQuery.requireDriverRuns();
    lostAttempts.await();
    boolean again = mayBegin(epoch);
    Decision.Plan plan = owner.plan(epoch);
    if (!owner.isJob() && plan.of().isEmpty()) {
      // A start could not tell whether the decision is Spark's.
      throw owner.notPlanned(epoch);
    }
    WriterScope scope =
        new WriterScope(
            identity.id(),
            owner.prefix(options),
            log.run(),
            lostAttempts.idSeries(),
            epoch,
            outputs.apply(sink),
            transactionTimeoutMs,
            topic.name(),
            topic.presencePartitions(),
            log.formerPresence(),
            again ? lost : null,
            sink.registerTopics());
    return new EpochBatch(this, scope, plan, again ? former : null, lost);
  }

  /** Whether the epoch is decided already; throws what {@link #begin} does if it must not begin. */
  private synchronized boolean mayBegin(long epoch) {
    if (finished == epoch) {
      throw EosKafkaException.of(
          "EOSKAFKA_SECOND_WRITE", Map.of("epoch", epoch, "owner", owner.name()));
    }
    if (unsettled || log.hasFailed()) {
      // Its transactional ids may be those of transactions that are decided on.
      throw runEnded(epoch, owner.name());
    }
    givenUp = false;
    boolean again = isDecided(epoch);
    if (!again && !lost.isEmpty()) {
      throw former.incomplete(lost, owner.name());
    }
    if (!again && epoch <= lastDecided()) {
      // Spark has chosen the batch before this run's number was claimed; until then the former
      // driver may have decided it, and logged it too.
      throw EosKafkaException.of(
          "EOSKAFKA_EPOCH_TAKEN",
          Map.of("epoch", epoch, "decided", lastDecided(), "owner", owner.name()));
    }
    return again;
  }

  /** A run may not write an epoch because of what became of a write of this owner. */
  static EosKafkaException runEnded(long epoch, String owner) {
    return EosKafkaException.of("EOSKAFKA_RUN_ENDED", Map.of("epoch", epoch, "owner", owner));
  }

  /** An epoch is undecided and stays so. */
  synchronized void giveUp() {
    givenUp = true;
  }

  /**
   * A decision is about to be sent: until all of it is known to be committed this run writes no
   * other epoch.
   *
   * @throws EosKafkaException {@code EOSKAFKA_RUN_ENDED} if the session was closed meanwhile: what
   *     the epoch has prepared is being aborted
   */
  synchronized void willDecide(long epoch) {
    if (closed) {
      throw runEnded(epoch, owner.name());
    }
    unsettled = true;
    deciding = true;
  }

  /** The thread that decides an epoch is done with it, or has not come to decide. */
  void stopDeciding() {
    boolean isLeftOpen;
    synchronized (this) {
      isLeftOpen = deciding && closed;
      deciding = false;
    }
    if (isLeftOpen) {
      lostAttempts.close();
      disconnect();
    }
  }

  /** The decision has failed. */
  synchronized void setUnsettled(boolean now) {
    unsettled = now;
  }

  /** An epoch is decided, and all of it committed. */
  synchronized void finish(long epoch) {
    unsettled = false;
    finished = epoch;
    former = null;
    lost = Set.of();
  }

  /** Whether an epoch was decided by a former run and not logged by Spark. */
  public boolean isDecided(long epoch) {
    return decidedBefore().filter(decision -> decision.epoch() == epoch).isPresent();
  }

  /** The decision of a former run whose epoch Spark has not logged. */
  private Optional<Decision> decidedBefore() {
    return Optional.ofNullable(former).filter(decision -> !isFormerLogged);
  }

  /** Takes what a decision has lost for done, so that the query can go on without it. */
  void acceptLoss() {
    if (lost.isEmpty()) {
      return;
    }
    log.decide(former.without(lost, log.run()), () -> {}, producer -> {});
    LOG.warn("Accepted as lost: {}", former.describe(lost));
    lost = Set.of();
  }

  /**
   * Where a decided epoch that Spark runs again began to read a partition, or null where there is
   * no such epoch or it did not read it.
   */
  public Long decidedStart(String producersId, TopicPartition partition) {
    return decidedInput(producersId).map(input -> input.starts().get(partition)).orElse(null);
  }

  /**
   * What a decided epoch that Spark runs again has read of a source, or empty as {@link
   * #decidedStart}: only with as many slots, split alike, do its writers make the same rows.
   */
  public Optional<Decision.Input> decidedInput(String producersId) {
    return decidedBefore().map(decision -> decision.sources().get(producersId));
  }

  /** Where the last epoch that was decided has ended a partition, or null if it did not read it. */
  public Long lastEnd(String producersId, TopicPartition partition) {
    return log.last()
        .map(decision -> decision.sources().get(producersId))
        .map(input -> input.ends().get(partition))
        .orElse(null);
  }

  /** The writers of a former run's decision whose transactions were aborted. */
  Set<Integer> lost() {
    return lost;
  }

  /** The last epoch that was decided, or -1. */
  public long lastDecided() {
    return log.last().map(Decision::epoch).orElse(-1L);
  }

  /** Ends the attempts of this owner's writers that have not reported. */
  LostAttempts lostAttempts() {
    return lostAttempts;
  }

  boolean isSink() {
    return owner.isSink();
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

  EpochCoordinators coordinators() {
    return transactions;
  }

  EpochTimes times() {
    return times;
  }

  /** Now, in nanoseconds from any origin. */
  long nanoTime() {
    return nanoClock.getAsLong();
  }
}
