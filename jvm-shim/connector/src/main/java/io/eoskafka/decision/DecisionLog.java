package io.eoskafka.decision;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.eoskafka.config.EosKafkaException;
import io.eoskafka.transaction.Transactions;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * One query's decisions: reads the last one and writes the next.
 *
 * <p>The query's driver is the one that initialised the decision id last. It claims the next run
 * number with the same producer, so the order of run numbers is the order of fencing. Otherwise,
 * the older of two drivers could hold the higher number and end the newer one's transactions.
 */
final class DecisionLog implements AutoCloseable {
  private static final ObjectMapper JSON = new ObjectMapper();

  /** Other queries' decisions may be open in the same partition, each for its timeout at most. */
  private static final Duration READ_TIMEOUT = Duration.ofSeconds(60);

  private final DecisionRecords topic;
  private final String ownerId;
  private final String decisionId;
  private final Supplier<? extends Transactions> producers;
  private Transactions producer;
  private final int partition;
  private final boolean isNew;
  private final long run;
  private Optional<Decision> last;
  private boolean claimed;
  private boolean ended;
  private boolean unclear;

  private DecisionLog(
      DecisionRecords topic,
      String ownerId,
      String decisionId,
      Supplier<? extends Transactions> producers,
      Transactions producer,
      int partition,
      boolean isNew,
      long run,
      Optional<Decision> last) {
    this.topic = topic;
    this.ownerId = ownerId;
    this.decisionId = decisionId;
    this.producers = producers;
    this.producer = producer;
    this.partition = partition;
    this.isNew = isNew;
    this.run = run;
    this.last = last;
  }

  /**
   * Fences the query's former driver and reads all that was decided before. A driver that starts
   * afterwards has a later run than the one that {@link #run} returns here. {@link #claimRun} has
   * to follow before this run writes anything.
   *
   * @param producers initialise the decision id, which fences a former driver
   * @param partition of the topic, where its decisions are
   * @param known whether the query has been here before: then there must be an entry
   * @param highestListed the highest run of writers of this query that the brokers know, or -1;
   *     asked where there is no entry
   * @throws EosKafkaException {@code EOSKAFKA_DECISIONS_GONE}, {@code EOSKAFKA_DECISION_UNREADABLE}
   *     if an entry is none that a driver of this query writes, {@code EOSKAFKA_DECISION_FENCED} if
   *     another driver starts at the same time
   */
  static DecisionLog open(
      DecisionRecords topic,
      Supplier<? extends Transactions> producers,
      String ownerId,
      String decisionId,
      int partition,
      boolean known,
      LongSupplier highestListed) {
    Transactions producer = producers.get();
    try {
      DecisionEntries found = new DecisionEntries(topic.name(), ownerId);
      topic.readUntil(
          partition, fence(producer, topic, partition, ownerId), READ_TIMEOUT, found::take);
      Optional<DecisionEntries.Run> before = found.run();
      if (before.isEmpty() && known) {
        throw EosKafkaException.of(
            "EOSKAFKA_DECISIONS_GONE",
            Map.of("topic", topic.name(), "what", "it has no entry of query " + ownerId));
      }
      if (before.isPresent() && !before.get().decisionId().equals(decisionId)) {
        throw EosKafkaException.of(
            "EOSKAFKA_DECISION_ID_CHANGED",
            Map.of("kept", before.get().decisionId(), "given", decisionId, "topic", topic.name()));
      }
      Optional<Decision> last = found.last(decisionId, topic.partitions());
      long run =
          found.nextRun(() -> Math.max(System.currentTimeMillis(), highestListed.getAsLong() + 1));
      return new DecisionLog(
          topic, ownerId, decisionId, producers, producer, partition, before.isEmpty(), run, last);
    } catch (RuntimeException e) {
      producer.abortAndClose();
      throw explain(e, decisionId);
    }
  }

  /**
   * Commits a record with the producer that has just initialised the decision id. The record has no
   * value, so it is no entry, and compaction removes it.
   *
   * <p>A commit that succeeds shows that no driver had started since. All that former drivers have
   * decided comes before the record, and all that a later driver decides comes after it.
   *
   * @return the record's offset
   */
  private static long fence(
      Transactions producer, DecisionRecords topic, int partition, String ownerId) {
    producer.begin();
    byte[] key = ("fence:" + ownerId).getBytes(StandardCharsets.UTF_8);
    long offset = producer.sendAndFlush(new ProducerRecord<>(topic.name(), partition, key, null));
    producer.commit();
    return offset;
  }

  private static RuntimeException explain(RuntimeException e, String decisionId) {
    if (!(e instanceof EosKafkaException ours)) {
      return e;
    }
    return switch (ours.condition()) {
      case "EOSKAFKA_ATTEMPT_FENCED" ->
          EosKafkaException.of("EOSKAFKA_DECISION_FENCED", Map.of("decisionId", decisionId), e);
      // Its time is not the user's to choose, and larger batches do not make it longer.
      case "EOSKAFKA_TRANSACTION_NEAR_TIMEOUT" ->
          EosKafkaException.of(
              "EOSKAFKA_WRITE_FAILED",
              Map.of(
                  "transactionalId",
                  decisionId,
                  "cause",
                  "the brokers of the decision topic are slow, and its transaction was given up."),
              e);
      default -> e;
    };
  }

  /**
   * Claims the run's number, with the producer of the decision id.
   *
   * @throws EosKafkaException {@code EOSKAFKA_DECISION_FENCED}
   */
  void claimRun() {
    try {
      producer.begin();
      String value =
          JSON.createObjectNode()
              .put("version", DecisionTopic.VERSION)
              .put("run", run)
              .put("decisionId", decisionId)
              .toString();
      producer.send(record(partition, "run:" + ownerId, value));
      producer.commit();
    } catch (RuntimeException e) {
      producer.abortAndClose();
      throw explain(e, decisionId);
    }
    claimed = true;
  }

  /** Whether the run's number is claimed, so that this run may write. */
  boolean isClaimed() {
    return claimed;
  }

  /** Whether the topic had nothing of the query. */
  boolean isNew() {
    return isNew;
  }

  /**
   * The number of this run: higher than that of any former run. The first run's number is the
   * current time, so that a query whose entries were removed, or whose topic was lost, does not use
   * its writers' transactional ids again.
   */
  long run() {
    return run;
  }

  /** The last decision; none before the query's first. */
  Optional<Decision> last() {
    return last;
  }

  /** Whether a decision has failed: this run can make no other. */
  boolean hasFailed() {
    return ended;
  }

  /**
   * Whether a decision was sent and its outcome is unknown: from then on, only a new start can find
   * out whether it has taken effect.
   */
  boolean isUnclear() {
    return unclear;
  }

  /**
   * Decides an epoch.
   *
   * @param check called when the decision's transaction has begun on the broker, so that whatever
   *     time it finds left is more than the decision can still take
   * @param offsets adds the sources' offsets to the transaction
   */
  void decide(Decision decision, Runnable check, Consumer<Transactions> offsets) {
    if (ended) {
      throw new IllegalStateException("this run has failed to decide an epoch before");
    }
    boolean sent = false;
    try {
      producer.begin();
      List<String> values = decision.encode();
      for (int part = 0; part < values.size(); part++) {
        producer.send(record(partition, "decision:" + ownerId + ":" + part, values.get(part)));
      }
      // All its transactions have ended by now, and nobody will ask for them again.
      last.ifPresent(former -> removePresence(former, decision));
      producer.flush();
      check.run();
      offsets.accept(producer);
      // A coordinator that was away times nothing out: the writers' transactions may have ended.
      producer.checkTime();
      sent = true;
      producer.commit();
    } catch (RuntimeException e) {
      // Not sent: the transaction is aborted. This producer is of no more use in either case.
      ended = true;
      unclear = sent;
      producer.abortAndClose();
      if (sent) {
        throw EosKafkaException.of(
            "EOSKAFKA_DECISION_UNKNOWN",
            Map.of("epoch", decision.epoch(), "cause", EosKafkaException.plain(e)),
            e);
      }
      throw explain(e, decisionId);
    }
    last = Optional.of(decision);
  }

  /**
   * Removes every entry of this query; only for one that will not come again, and has no decision
   * whose outcome is unclear.
   */
  void forget() {
    if (ended) {
      producer = producers.get();
    }
    producer.begin();
    producer.send(record(partition, "run:" + ownerId, null));
    last.ifPresent(
        decision -> {
          for (int part = 0; part < decision.encode().size(); part++) {
            producer.send(record(partition, "decision:" + ownerId + ":" + part, null));
          }
          decision.outputs().forEach(output -> removePresence(decision.epoch(), output));
        });
    producer.commit();
  }

  /**
   * The presence records of the last decision that the next epoch's writers can remove: by writer,
   * those that are in the partition of the writer's next presence record. A decision that removed
   * all of them would wait for the brokers of that many partitions. They are still removed together
   * with the next decision, because only that decision commits the writers' transactions. The
   * record of a writer whose next transaction is lost stays.
   */
  Map<Integer, String> formerPresence() {
    Map<Integer, String> keys = new HashMap<>();
    last.ifPresent(
        former -> {
          for (WriterOutput output : former.outputs()) {
            if (output.transaction() != null
                && output.presencePartition()
                    == WriterScope.presencePartition(output.writer(), topic.presencePartitions())) {
              keys.put(output.writer(), presenceKey(former.epoch(), output));
            }
          }
        });
    return keys;
  }

  /** Removes those that the next decision does not have, and that its writers have not removed. */
  private void removePresence(Decision former, Decision next) {
    Map<Integer, Integer> present = new HashMap<>();
    for (WriterOutput output : next.outputs()) {
      if (output.transaction() != null) {
        present.put(output.writer(), output.presencePartition());
      }
    }
    for (WriterOutput output : former.outputs()) {
      if (!Integer.valueOf(output.presencePartition()).equals(present.get(output.writer()))) {
        removePresence(former.epoch(), output);
      }
    }
  }

  private void removePresence(long epoch, WriterOutput output) {
    if (output.transaction() != null) {
      producer.send(record(output.presencePartition(), presenceKey(epoch, output), null));
    }
  }

  private String presenceKey(long epoch, WriterOutput output) {
    return presenceKey(ownerId, epoch, output.transaction().transactionalId());
  }

  /**
   * The key of a transaction's marker. With the epoch, since an id comes again in other epochs: the
   * tombstone of a former marker must not have the key of the present one.
   */
  static String presenceKey(String ownerId, long epoch, String transactionalId) {
    return "marker:" + ownerId + ":" + epoch + ":" + transactionalId;
  }

  private ProducerRecord<byte[], byte[]> record(int partition, String key, String value) {
    return new ProducerRecord<>(
        topic.name(),
        partition,
        key.getBytes(StandardCharsets.UTF_8),
        value == null ? null : value.getBytes(StandardCharsets.UTF_8));
  }

  /** Closes the producer; its transaction has ended, or is ended by the next start. */
  @Override
  public void close() {
    producer.close();
  }
}
