package io.eoskafka.decision;

import static org.assertj.core.api.Assertions.assertThat;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.group.GroupInspector;
import io.eoskafka.identity.Fence;
import io.eoskafka.transaction.TransactionRef;
import io.eoskafka.transaction.TransactionalId;
import io.eoskafka.transaction.Transactions;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
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

/**
 * The decision topic of one owner and the transaction coordinators, in memory. A driver can crash
 * at any call: that one and all later ones fail, until {@link #restart}.
 */
class MemoryBroker implements DecisionRecords, EpochCoordinators {
  static final String TOPIC = "decisions";
  static final int PARTITIONS = 8;

  /** What a call of a driver fails with that has crashed. */
  static final class Crash extends RuntimeException {
    private static final long serialVersionUID = 1L;
  }

  /** What the driver has asked for, in order. */
  final List<String> calls = new ArrayList<>();

  private final Map<Integer, List<ConsumerRecord<byte[], byte[]>>> logs = new HashMap<>();
  private final Map<String, TransactionRef> open = new HashMap<>();
  private final Set<String> committed = new HashSet<>();
  private final Set<String> aborted = new HashSet<>();
  private int initialised;
  private long producerIds;

  /** Calls until the crash. */
  private int callsLeft = Integer.MAX_VALUE;

  private boolean crashTakesEffect;

  private int clientsWhileClosing;

  /** What happens before the next call of this name. */
  private final Map<String, Runnable> meanwhile = new HashMap<>();

  /** How many calls there were before a session was closed for the first time. */
  private int callsBeforeClose;

  private int closedSessions;

  /** From now on the driver crashes at this call, which the broker carries out or not. */
  void crashAt(int call, boolean takesEffect) {
    callsLeft = call;
    crashTakesEffect = takesEffect;
  }

  /** Another driver can call from now on. */
  void restart() {
    callsLeft = Integer.MAX_VALUE;
    calls.clear();
  }

  /** Something happens once, before the driver's next call of this name takes effect. */
  void before(String call, Runnable happens) {
    meanwhile.put(call, happens);
  }

  private void call(String what, Runnable effect) {
    Runnable happens = meanwhile.remove(what);
    if (happens != null) {
      happens.run();
    }
    if (--callsLeft > 0) {
      calls.add(what);
      effect.run();
      return;
    }
    if (callsLeft == 0 && crashTakesEffect) {
      effect.run();
    }
    throw new Crash();
  }

  // ---- writers

  /** A writer has flushed its records, and leaves its transaction open. */
  TransactionRef prepare(String transactionalId) {
    TransactionRef prepared = new TransactionRef(transactionalId, ++producerIds, (short) 0, false);
    open.put(transactionalId, prepared);
    return prepared;
  }

  /** The coordinator aborts a transaction, because it has timed out. */
  void timeOut(String transactionalId) {
    open.remove(transactionalId);
    aborted.add(transactionalId);
  }

  Set<String> open() {
    return open.keySet();
  }

  Set<String> committed() {
    return committed;
  }

  // ---- the decision topic

  /** Initialises the decision id: a former producer is fenced. */
  Transactions producer(String id) {
    call("init", () -> initialised++);
    int epoch = initialised;
    List<ProducerRecord<byte[], byte[]>> sent = new ArrayList<>();
    return new Transactions() {
      @Override
      public void begin() {
        call("begin", sent::clear);
      }

      @Override
      public void send(ProducerRecord<byte[], byte[]> record) {
        call(
            (record.value() == null ? "remove " : "send ")
                + new String(record.key(), StandardCharsets.UTF_8).split(":")[0],
            () -> sent.add(record));
      }

      @Override
      public void checkTime() {}

      @Override
      public void flush() {
        requireNotFenced();
        call("flush", () -> {});
      }

      @Override
      public long sendAndFlush(ProducerRecord<byte[], byte[]> record) {
        send(record);
        flush();
        return logs.getOrDefault(record.partition(), List.of()).size();
      }

      private void requireNotFenced() {
        if (epoch != initialised) {
          throw EosKafkaException.of(
              "EOSKAFKA_ATTEMPT_FENCED", Map.of("transactionalId", id, "timeout", 1));
        }
      }

      @Override
      public boolean mayLeaveOffsetsPending() {
        return false;
      }

      @Override
      public void sendOffsets(
          Map<TopicPartition, OffsetAndMetadata> offsets, Fence fence, GroupInspector members) {
        call("offsets", () -> {});
      }

      @Override
      public void commit() {
        requireNotFenced();
        call("commit", () -> sent.forEach(record -> append(record)));
      }

      @Override
      public boolean abortAndClose() {
        return true;
      }

      @Override
      public void close() {}
    };
  }

  private void append(ProducerRecord<byte[], byte[]> record) {
    List<ConsumerRecord<byte[], byte[]>> log =
        logs.computeIfAbsent(record.partition(), p -> new ArrayList<>());
    log.add(
        new ConsumerRecord<>(TOPIC, record.partition(), log.size(), record.key(), record.value()));
  }

  /** The keys whose last record has a value. */
  Set<String> keys() {
    Map<String, byte[]> last = new HashMap<>();
    logs.values()
        .forEach(
            log ->
                log.forEach(
                    record ->
                        last.put(
                            new String(record.key(), StandardCharsets.UTF_8), record.value())));
    last.values().removeIf(value -> value == null);
    return last.keySet();
  }

  @Override
  public String name() {
    return TOPIC;
  }

  @Override
  public int partitions() {
    return PARTITIONS;
  }

  @Override
  public List<Integer> presencePartitions() {
    return List.of(1, 3, 5, 7);
  }

  @Override
  public void readUntil(
      int partition, long end, Duration timeout, Consumer<ConsumerRecord<byte[], byte[]>> each) {
    call(
        "read",
        () -> {
          List<ConsumerRecord<byte[], byte[]>> log = logs.getOrDefault(partition, List.of());
          assertThat(end).as("the end of what is read").isLessThan(log.size());
          log.stream().filter(record -> record.offset() < end).forEach(each);
        });
  }

  @Override
  public Set<Integer> lost(Collection<WriterOutput> outputs, Duration timeout) {
    Set<Integer> lost = new TreeSet<>();
    call(
        "read presence records",
        () ->
            outputs.stream()
                .filter(output -> !committed.contains(output.transaction().transactionalId()))
                .forEach(output -> lost.add(output.writer())));
    return lost;
  }

  @Override
  public EosKafkaException unsettled(String problem, RuntimeException e) {
    return EosKafkaException.of(
        "EOSKAFKA_EPOCH_UNSETTLED", Map.of("topic", TOPIC, "problem", problem), e);
  }

  // ---- the coordinators

  @Override
  public void endWriters(String ownerId, LongPredicate runs, boolean onlyOpen, Set<String> except) {
    call(
        "abort writers",
        () ->
            List.copyOf(open.keySet()).stream()
                .filter(id -> !except.contains(id))
                .filter(id -> runs.test(runOf(id, ownerId)))
                .forEach(this::timeOut));
  }

  private static long runOf(String transactionalId, String ownerId) {
    Matcher matcher =
        Pattern.compile(".*-" + Pattern.quote(ownerId) + "-w(\\d+)\\..*").matcher(transactionalId);
    return matcher.matches() ? Long.parseLong(matcher.group(1)) : -1;
  }

  @Override
  public long highestRun(String ownerId) {
    OptionalLong[] highest = {OptionalLong.empty()};
    call(
        "list runs",
        () -> highest[0] = open.keySet().stream().mapToLong(id -> runOf(id, ownerId)).max());
    return highest[0].orElse(-1);
  }

  @Override
  public Set<TransactionRef> commit(
      Collection<TransactionRef> prepared, Map<TransactionRef, Integer> openAt, Duration timeout) {
    Set<TransactionRef> unknown = new HashSet<>();
    for (TransactionRef transaction : prepared) {
      call(
          openAt.containsKey(transaction)
              ? "commit writer at broker " + openAt.get(transaction)
              : "find and commit writer",
          () -> {
            if (open.remove(transaction.transactionalId(), transaction)) {
              committed.add(transaction.transactionalId());
            } else {
              // Committed before, or aborted: coordinators do not know.
              unknown.add(transaction);
            }
          });
    }
    return unknown;
  }

  @Override
  public Map<String, KafkaFuture<TransactionDescription>> describe(List<String> transactionalIds) {
    Map<String, KafkaFuture<TransactionDescription>> found = new HashMap<>();
    call("describe", () -> transactionalIds.forEach(id -> found.put(id, describe(id))));
    return found;
  }

  private KafkaFuture<TransactionDescription> describe(String id) {
    TransactionRef now = open.get(id);
    return KafkaFuture.completedFuture(
        new TransactionDescription(
            0,
            now == null ? TransactionState.COMPLETE_ABORT : TransactionState.ONGOING,
            now == null ? -1 : now.producerId(),
            now == null ? -1 : now.producerEpoch(),
            60_000,
            OptionalLong.empty(),
            Set.of()));
  }

  @Override
  public void whileClosing(Consumer<EpochCoordinators> work) {
    clientsWhileClosing++;
    work.accept(this);
  }

  /** How many clients were made for work at the end of a session. */
  int clientsWhileClosing() {
    return clientsWhileClosing;
  }

  @Override
  public void close() {
    if (closedSessions++ == 0) {
      callsBeforeClose = calls.size();
    }
  }

  /** How many sessions have closed their client. */
  int closedSessions() {
    return closedSessions;
  }

  /** What the driver has asked for after a session had closed its client. */
  List<String> callsAfterClose() {
    return calls.subList(callsBeforeClose, calls.size());
  }

  /** The id of an owner's decisions. */
  static String decisionId(String prefix, String ownerId) {
    return TransactionalId.ofDecisions(prefix, ownerId);
  }
}
