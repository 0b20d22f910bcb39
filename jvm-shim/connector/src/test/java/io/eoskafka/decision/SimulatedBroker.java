package io.eoskafka.decision;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.group.GroupInspector;
import io.eoskafka.identity.Fence;
import io.eoskafka.identity.Identity;
import io.eoskafka.transaction.TransactionRef;
import io.eoskafka.transaction.Transactions;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Consumer;
import java.util.function.LongPredicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;

/**
 * The coordinators, the decision topic and the output of a simulated query, by a simulated clock.
 * It checks at each step what must hold at that step.
 */
final class SimulatedBroker {
  static final String OWNER = Identity.digest("simulated");
  static final EpochTimes TIMES = new EpochTimes(600_000, 1_000, 200_000);
  static final String PREFIX = "simulated";
  static final String DECISION_ID = MemoryBroker.decisionId(PREFIX, OWNER);

  private static final Pattern WRITER =
      Pattern.compile(PREFIX + "-" + Pattern.quote(OWNER) + "-w(\\d+)\\..*");

  /** What the coordinator knows of one transactional id of a writer. */
  private static final class Id {
    private final String name;
    private final long run;
    private final long producerId;
    private int epoch = -1;
    private Output current;

    Id(String name, long producerId) {
      Matcher matcher = WRITER.matcher(name);
      if (!matcher.matches()) {
        throw new IllegalArgumentException(name);
      }
      this.name = name;
      run = Long.parseLong(matcher.group(1));
      this.producerId = producerId;
    }

    boolean isOpen() {
      return current != null && current.state == TransactionState.ONGOING;
    }
  }

  /** One transaction of a writer. */
  private static final class Output {
    private final Id id;
    private final int epoch;
    private final long batch;
    private final int writer;
    private final long digest;
    private final long deadlineMs;
    private TransactionState state = TransactionState.ONGOING;

    /** The call at which it was aborted. */
    private long abortedAt;

    private String presence;

    /** The presence record that its transaction removes, or null. */
    private String removes;

    private long presenceOffset = -1;

    Output(Id id, long batch, int writer, long digest, long deadlineMs) {
      this.id = id;
      epoch = id.epoch;
      this.batch = batch;
      this.writer = writer;
      this.digest = digest;
      this.deadlineMs = deadlineMs;
    }

    boolean is(TransactionRef prepared) {
      return prepared.producerId() == id.producerId && prepared.producerEpoch() == epoch;
    }

    @Override
    public String toString() {
      return id.name + " (epoch " + epoch + ", batch " + batch + ")";
    }
  }

  /**
   * An attempt of a writer; nobody waits for one that was given up, and it goes on all the same.
   */
  final class Attempt {
    private final WriterScope scope;
    private final int writer;
    private final String transactionalId;
    private final long digest;
    private final int lastStep;
    private int steps;
    private Id id;
    private int epoch;
    private Output output;

    /**
     * @param hasRows otherwise it only initialises its id
     */
    Attempt(WriterScope scope, int writer, int number, long digest, boolean hasRows) {
      this.scope = scope;
      this.writer = writer;
      this.digest = digest;
      transactionalId = scope.transactionalId(writer, 0, number);
      lastStep = hasRows ? 3 : 1;
    }

    /**
     * Takes its next step, as {@link WriterTransaction} does.
     *
     * @return whether there are more
     */
    boolean step() {
      simulation.say("   attempt " + transactionalId + " step " + steps);
      switch (steps++) {
        case 0 -> {
          id = id(transactionalId);
          initialise(id);
          epoch = id.epoch;
        }
        case 1 -> {
          requireCurrent();
          output =
              new Output(
                  id,
                  scope.epoch(),
                  writer,
                  digest,
                  simulation.nowMs() + scope.transactionTimeoutMs());
          id.current = output;
        }
        default -> {
          requireCurrent();
          if (output.state != TransactionState.ONGOING) {
            throw new TimeoutException(output + " has timed out");
          }
          output.removes = scope.formerPresence().get(writer);
          output.presence = scope.presenceKey(transactionalId);
          output.presenceOffset = offset++;
          presence.put(output.presenceOffset, output);
        }
      }
      return hasMore();
    }

    boolean hasMore() {
      return steps < lastStep;
    }

    private void requireCurrent() {
      if (id.epoch != epoch) {
        throw fenced(transactionalId);
      }
    }

    WriterOutput prepared(long rows) {
      return new WriterOutput(
          writer,
          new TransactionRef(transactionalId, id.producerId, (short) epoch, true),
          scope.presencePartition(writer),
          output.presenceOffset,
          rows,
          digest);
    }
  }

  /** The producer of decisions, as the coordinator and the broker of the topic know it. */
  private final class DecisionTransaction {
    private final SimulatedDriver by;
    private final List<ProducerRecord<byte[], byte[]>> sent = new ArrayList<>();
    private final long deadlineMs = simulation.nowMs() + TIMES.decisionTimeoutMs();
    private Long committedOffset;

    /** The call at which the driver has looked at what it decides on, at the latest. */
    private long lookedAt = simulation.calls();

    DecisionTransaction(SimulatedDriver by) {
      this.by = by;
    }
  }

  private final Simulation simulation;
  private final Map<String, Id> ids = new TreeMap<>();
  private final Map<Long, Output> presence = new TreeMap<>();
  private final List<ConsumerRecord<byte[], byte[]>> decisionLog = new ArrayList<>();
  private final List<Attempt> lateAttempts = new ArrayList<>();
  private final List<Runnable> lateRequests = new ArrayList<>();
  private long offset;
  private long producerIds;
  private int decisionEpoch;
  private DecisionTransaction decisionTransaction;

  // ---- what has become of it

  /** The last decision of each batch, and the first. */
  private final TreeMap<Long, Decision> decisions = new TreeMap<>();

  private final Map<Long, Decision> firstDecisions = new HashMap<>();

  /** By batch and writer: what a reader of committed records sees. */
  private final Map<Long, Map<Integer, Output>> visible = new HashMap<>();

  private String stopped;

  // ---- the group

  private int generation;
  private long groupOffset = -1;

  SimulatedBroker(Simulation simulation) {
    this.simulation = simulation;
  }

  // ---- time

  /** Transactions time out, and what is late arrives. */
  void pass() {
    long now = simulation.nowMs();
    for (Id id : ids.values()) {
      if (id.isOpen() && now > id.current.deadlineMs) {
        abort(id, true, "its timeout");
      }
    }
    if (decisionTransaction != null
        && now > decisionTransaction.deadlineMs + TIMES.timeoutCheckMs()) {
      simulation.say("   the decision's transaction times out");
      decisionTransaction = null;
      decisionEpoch++;
    }
    if (!simulation.isQuiet() && simulation.chance(200)) {
      List<Id> open = ids.values().stream().filter(Id::isOpen).toList();
      if (!open.isEmpty()) {
        abort(open.get(simulation.random.nextInt(open.size())), true, "an administrator");
      }
    }
    if (!lateRequests.isEmpty() && simulation.chance(15)) {
      simulation.say("   a late request arrives");
      lateRequests.remove(simulation.random.nextInt(lateRequests.size())).run();
    }
    if (!lateAttempts.isEmpty() && simulation.chance(12)) {
      int which = simulation.random.nextInt(lateAttempts.size());
      if (!take(lateAttempts.get(which))) {
        lateAttempts.remove(which);
      }
    }
  }

  private static boolean take(Attempt attempt) {
    try {
      return attempt.step();
    } catch (EosKafkaException | TimeoutException e) {
      return false;
    }
  }

  /** Nobody waits for an attempt any more; some of its steps are taken by now. */
  void giveUp(Attempt attempt) {
    int steps = simulation.random.nextInt(attempt.lastStep + 1);
    boolean goesOn = attempt.hasMore();
    for (int step = 0; goesOn && step < steps; step++) {
      goesOn = take(attempt);
    }
    if (goesOn && attempt.hasMore()) {
      lateAttempts.add(attempt);
    }
  }

  void later(Runnable request) {
    lateRequests.add(request);
  }

  /** Attempts that nobody waits for are ended, and requests have arrived. */
  void dropAttempts() {
    lateAttempts.clear();
    List.copyOf(lateRequests).forEach(Runnable::run);
    lateRequests.clear();
  }

  // ---- the transaction coordinator

  private Id id(String name) {
    return ids.computeIfAbsent(name, n -> new Id(n, ++producerIds));
  }

  private void initialise(Id id) {
    if (id.isOpen()) {
      abort(id, false, "the initialisation of its id");
    }
    id.epoch++;
  }

  /**
   * @param isForeign whether nothing of ours has asked for it
   */
  private void abort(Id id, boolean isForeign, String by) {
    Output output = id.current;
    simulation.say("   abort of " + output + " by " + by);
    output.state = TransactionState.COMPLETE_ABORT;
    output.abortedAt = simulation.calls();
    id.epoch++;
    Decision decided = decisions.get(output.batch);
    if (!isForeign && decided != null && names(decided, output)) {
      throw simulation.fail("decided, and aborted by " + by + ": " + output);
    }
  }

  private static boolean names(Decision decision, Output output) {
    return decision.outputs().stream()
        .anyMatch(each -> each.transaction() != null && output.is(each.transaction()));
  }

  /** What {@link io.eoskafka.transaction.TransactionEnds} finds and does. */
  private boolean end(TransactionRef prepared) {
    Id id = ids.get(prepared.transactionalId());
    Output output = id == null ? null : id.current;
    if (output == null || !output.is(prepared)) {
      return false;
    }
    if (output.state == TransactionState.ONGOING) {
      commit(output);
    }
    // With transaction.version=2 the end has moved the epoch by one.
    return output.state == TransactionState.COMPLETE_COMMIT && id.epoch <= output.epoch + 1;
  }

  /** As if the topic were compacted at once. */
  private void removePresence(String key) {
    presence.values().removeIf(output -> output.presence.equals(key));
  }

  private void commit(Output output) {
    output.state = TransactionState.COMPLETE_COMMIT;
    output.id.epoch++;
    removePresence(output.removes);
    Decision decided = decisions.get(output.batch);
    if (decided == null || !names(decided, output)) {
      throw simulation.fail("visible, and not decided: " + output);
    }
    Output other =
        visible.computeIfAbsent(output.batch, batch -> new TreeMap<>()).put(output.writer, output);
    if (other != null) {
      throw simulation.fail("visible twice: " + output + " and " + other);
    }
  }

  private static EosKafkaException fenced(String id) {
    return EosKafkaException.of(
        "EOSKAFKA_ATTEMPT_FENCED", Map.of("transactionalId", id, "timeout", 1));
  }

  // ---- decisions

  private void commitDecision(int epoch) {
    if (decisionTransaction == null || epoch != decisionEpoch) {
      throw fenced(DECISION_ID);
    }
    DecisionTransaction transaction = decisionTransaction;
    decisionTransaction = null;
    List<String> parts = new ArrayList<>();
    for (ProducerRecord<byte[], byte[]> record : transaction.sent) {
      String key = new String(record.key(), StandardCharsets.UTF_8);
      if (key.startsWith("marker:")) {
        removePresence(key);
        continue;
      }
      decisionLog.add(
          new ConsumerRecord<>(
              MemoryBroker.TOPIC, 0, decisionLog.size(), record.key(), record.value()));
      if (key.startsWith("decision:")) {
        parts.add(new String(record.value(), StandardCharsets.UTF_8));
      }
    }
    if (transaction.committedOffset != null) {
      groupOffset = transaction.committedOffset;
    }
    Decision.decode(parts).ifPresent(decision -> decided(decision, transaction.lookedAt));
  }

  private void decided(Decision decision, long lookedAt) {
    simulation.say("   batch " + decision.epoch() + " is decided by run " + decision.run());
    long batch = decision.epoch();
    Decision before = decisions.get(batch);
    if (before == null && !decisions.isEmpty() && decisions.lastKey() > batch) {
      throw simulation.fail("batch " + batch + " is decided after " + decisions.lastKey());
    }
    for (WriterOutput output : decision.outputs()) {
      if (output.transaction() != null) {
        requireDecidable(output, lookedAt);
      }
    }
    if (before != null) {
      requireHealed(before, decision);
    }
    decisions.put(batch, decision);
    firstDecisions.putIfAbsent(batch, decision);
  }

  private void requireDecidable(WriterOutput output, long lookedAt) {
    Output now = ids.get(output.transaction().transactionalId()).current;
    if (now == null || !now.is(output.transaction())) {
      throw simulation.fail("decided on a transaction that has been replaced: " + output);
    }
    long leftMs = now.deadlineMs - simulation.nowMs();
    if (now.state == TransactionState.ONGOING && leftMs < TIMES.recoveryReserveMs()) {
      throw simulation.fail("decided when " + leftMs + " ms were left of " + now);
    }
    if (now.state == TransactionState.COMPLETE_ABORT && now.abortedAt < lookedAt) {
      throw simulation.fail("decided on a transaction that was aborted: " + now);
    }
  }

  private void requireHealed(Decision before, Decision decision) {
    if (!before.plan().equals(decision.plan())
        || before.outputs().size() != decision.outputs().size()) {
      throw simulation.fail("batch " + decision.epoch() + " is decided again, in another way");
    }
    Map<Integer, Output> seen = visible.getOrDefault(decision.epoch(), Map.of());
    for (WriterOutput output : decision.outputs()) {
      Output old = seen.get(output.writer());
      if (old != null && (output.transaction() == null || !old.is(output.transaction()))) {
        throw simulation.fail("decided again, and visible: " + old);
      }
    }
  }

  // ---- the group coordinator

  int join() {
    return ++generation;
  }

  boolean hasPendingOffsets() {
    return decisionTransaction != null && decisionTransaction.committedOffset != null;
  }

  /** The committed offset, or -1. */
  long groupOffset() {
    return groupOffset;
  }

  void commitStart(int fence) {
    requireGeneration(fence);
    groupOffset = 0;
  }

  private void requireGeneration(int fence) {
    if (fence != generation) {
      throw EosKafkaException.of(
          "EOSKAFKA_DECISION_FENCED", Map.of("decisionId", "generation " + fence));
    }
  }

  // ---- what must hold

  /** Spark is about to log a batch of a query's sink. */
  void requireWhole(long batch) {
    Decision decision = decisions.get(batch);
    if (decision == null) {
      throw simulation.fail("batch " + batch + " is logged and was not decided");
    }
    String missing = missing(decision);
    if (missing != null) {
      throw simulation.fail("batch " + batch + " is logged without " + missing);
    }
  }

  private String missing(Decision decision) {
    Map<Integer, Output> seen = visible.getOrDefault(decision.epoch(), Map.of());
    for (WriterOutput output : decision.outputs()) {
      if (output.transaction() != null && !seen.containsKey(output.writer())) {
        return "the output of writer " + output.writer();
      }
    }
    return null;
  }

  void setStopped(String condition) {
    stopped = condition;
  }

  /** The query has come to rest. */
  void requireAtRest() {
    for (Decision decision : decisions.values()) {
      long batch = decision.epoch();
      requireDecidedRows(decision);
      String missing = missing(decision);
      boolean isNamed = stopped != null || simulation.hasCaughtError();
      if (missing != null && !(isNamed && batch == decisions.lastKey())) {
        simulation.fail("batch " + batch + " was decided, and a reader does not see " + missing);
      }
      if (stopped == null && missing == null) {
        requireRowsOfPlan(decision);
      }
    }
    if (stopped != null) {
      return;
    }
    for (Id id : ids.values()) {
      if (id.isOpen()) {
        simulation.fail("open for ever: " + id.current);
      }
    }
    for (long batch = 0; simulation.isSink && batch < simulation.batches; batch++) {
      if (!decisions.containsKey(batch)) {
        simulation.fail("batch " + batch + " is logged and was not decided");
      }
    }
    if (simulation.hasSource) {
      long end = SimulatedDriver.planned(simulation, decisions.lastKey()).end();
      if (groupOffset != end) {
        simulation.fail("the group is at " + groupOffset + ", the output at " + end);
      }
    }
  }

  /** The rows that are visible are those of one run of the batch. */
  private void requireDecidedRows(Decision decision) {
    Decision first = firstDecisions.get(decision.epoch());
    visible
        .getOrDefault(decision.epoch(), Map.of())
        .forEach(
            (writer, output) ->
                first.outputs().stream()
                    .filter(each -> each.writer() == writer)
                    .filter(each -> each.digest() != output.digest)
                    .forEach(each -> simulation.fail("rows of another run: " + output)));
  }

  /** And those of the plan that Spark has. */
  private void requireRowsOfPlan(Decision decision) {
    SimulatedDriver.Plan plan = SimulatedDriver.planned(simulation, decision.epoch());
    Map<Integer, Output> seen = visible.getOrDefault(decision.epoch(), Map.of());
    for (int writer = 0; simulation.isRepeatable && writer < plan.writers(); writer++) {
      Output output = seen.get(writer);
      if (plan.rows(writer) > 0 && (output == null || output.digest != plan.digest(writer, 0))) {
        simulation.fail("batch " + decision.epoch() + " does not have the rows of Spark's plan");
      }
    }
  }

  // ---- what a driver calls

  /** One driver's connection. */
  final class Connection implements DecisionRecords, EpochCoordinators {
    private final SimulatedDriver driver;

    Connection(SimulatedDriver driver) {
      this.driver = driver;
    }

    private void call(String what, Runnable effect) {
      simulation.call(driver, what, effect);
    }

    private void call(String what, Runnable effect, Runnable late) {
      simulation.call(driver, what, effect, late);
    }

    /** Initialises the decision id, which ends what a former producer of it has left open. */
    Transactions producer() {
      int[] mine = new int[1];
      call(
          "initialises the decision id",
          () -> {
            decisionTransaction = null;
            mine[0] = ++decisionEpoch;
          });
      return new Producer(mine[0]);
    }

    private final class Producer implements Transactions {
      private final int epoch;

      Producer(int epoch) {
        this.epoch = epoch;
      }

      private void requireNotFenced() {
        if (epoch != decisionEpoch) {
          throw fenced(DECISION_ID);
        }
      }

      @Override
      public void begin() {
        call(
            "begins a transaction of the decision id",
            () -> {
              requireNotFenced();
              decisionTransaction = new DecisionTransaction(driver);
            });
      }

      @Override
      public void send(ProducerRecord<byte[], byte[]> record) {
        if (epoch == decisionEpoch && decisionTransaction != null) {
          decisionTransaction.sent.add(record);
        }
      }

      @Override
      public void flush() {
        call("flushes", this::requireNotFenced);
      }

      /** Its timeouts are answers that {@link #call} leaves out. */
      @Override
      public void checkTime() {}

      @Override
      public long sendAndFlush(ProducerRecord<byte[], byte[]> record) {
        send(record);
        flush();
        // Nobody else can commit with this id before this producer does, or is fenced.
        return decisionLog.size();
      }

      @Override
      public void sendOffsets(
          Map<TopicPartition, OffsetAndMetadata> offsets, Fence fence, GroupInspector members) {
        call(
            "sends offsets",
            () -> {
              requireNotFenced();
              requireGeneration(fence.generation());
              if (decisionTransaction != null) {
                decisionTransaction.committedOffset = offsets.values().iterator().next().offset();
              }
            });
      }

      @Override
      public boolean mayLeaveOffsetsPending() {
        return false;
      }

      @Override
      public void commit() {
        call(
            "commits with the decision id",
            () -> commitDecision(epoch),
            () -> {
              if (epoch == decisionEpoch && decisionTransaction != null) {
                commitDecision(epoch);
              }
            });
      }

      @Override
      public boolean abortAndClose() {
        try {
          call(
              "aborts with the decision id",
              () -> {
                if (epoch == decisionEpoch) {
                  decisionTransaction = null;
                }
              });
          return true;
        } catch (TimeoutException e) {
          return false;
        }
      }

      @Override
      public void close() {}
    }

    @Override
    public String name() {
      return MemoryBroker.TOPIC;
    }

    @Override
    public int partitions() {
      return MemoryBroker.PARTITIONS;
    }

    @Override
    public List<Integer> presencePartitions() {
      return List.of(1, 3, 5, 7);
    }

    @Override
    public void readUntil(
        int partition, long end, Duration timeout, Consumer<ConsumerRecord<byte[], byte[]>> each) {
      call(
          "reads decisions",
          () ->
              List.copyOf(decisionLog).stream()
                  .filter(record -> record.offset() < end)
                  .forEach(each));
    }

    @Override
    public Set<Integer> lost(Collection<WriterOutput> outputs, Duration timeout) {
      Set<Integer> lost = new TreeSet<>();
      if (outputs.isEmpty()) {
        return lost;
      }
      call(
          "reads presence records",
          () -> {
            for (WriterOutput output : outputs) {
              Output found = presence.get(output.presenceOffset());
              if (found != null && found.state == TransactionState.ONGOING) {
                throw new TimeoutException(found + " is open");
              }
              if (found == null || found.state != TransactionState.COMPLETE_COMMIT) {
                lost.add(output.writer());
              }
            }
          });
      return lost;
    }

    @Override
    public EosKafkaException unsettled(String problem, RuntimeException e) {
      return EosKafkaException.of(
          "EOSKAFKA_EPOCH_UNSETTLED", Map.of("topic", MemoryBroker.TOPIC, "problem", problem), e);
    }

    @Override
    public void endWriters(
        String ownerId, LongPredicate runs, boolean onlyOpen, Set<String> except) {
      List<Id> found = new ArrayList<>();
      call(
          "lists transactions",
          () ->
              ids.values().stream()
                  .filter(id -> id.epoch >= 0 && (!onlyOpen || id.isOpen()))
                  .filter(id -> !except.contains(id.name) && runs.test(id.run))
                  .forEach(found::add));
      for (Id id : found) {
        call("fences " + id.name, () -> initialise(id), () -> initialise(id));
      }
    }

    @Override
    public long highestRun(String ownerId) {
      long[] highest = {-1};
      call(
          "lists runs",
          () -> highest[0] = ids.values().stream().mapToLong(id -> id.run).max().orElse(-1));
      return highest[0];
    }

    @Override
    public Set<TransactionRef> commit(
        Collection<TransactionRef> prepared,
        Map<TransactionRef, Integer> openAt,
        Duration timeout) {
      Set<TransactionRef> unknown = new HashSet<>();
      prepared.stream()
          .sorted(Comparator.comparing(TransactionRef::transactionalId))
          .forEach(
              transaction ->
                  call(
                      "commits " + transaction.transactionalId(),
                      () -> {
                        if (!end(transaction)) {
                          unknown.add(transaction);
                        }
                      },
                      () -> end(transaction)));
      return unknown;
    }

    @Override
    public Map<String, KafkaFuture<TransactionDescription>> describe(
        List<String> transactionalIds) {
      Map<String, KafkaFuture<TransactionDescription>> found = new HashMap<>();
      call(
          "describes",
          () -> {
            // A driver that was fenced may ask, too.
            if (decisionTransaction != null && decisionTransaction.by == driver) {
              decisionTransaction.lookedAt = simulation.calls();
            }
            transactionalIds.forEach(id -> found.put(id, description(id)));
          });
      return found;
    }

    private KafkaFuture<TransactionDescription> description(String name) {
      Id id = ids.get(name);
      return KafkaFuture.completedFuture(
          new TransactionDescription(
              0,
              id.current == null ? TransactionState.EMPTY : id.current.state,
              id.producerId,
              id.epoch,
              TIMES.transactionTimeoutMs(),
              OptionalLong.empty(),
              Set.of()));
    }

    @Override
    public void whileClosing(Consumer<EpochCoordinators> work) {
      work.accept(this);
    }

    @Override
    public void close() {}
  }
}
