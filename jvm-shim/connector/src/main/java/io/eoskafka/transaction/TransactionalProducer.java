package io.eoskafka.transaction;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.config.EosKafkaException;
import io.eoskafka.group.ExclusiveMembership;
import io.eoskafka.group.GroupInspector;
import io.eoskafka.identity.Fence;
import io.eoskafka.wire.AuthorizationErrors;
import io.eoskafka.wire.Daemon;
import io.eoskafka.wire.OffsetsCoordinator;
import io.eoskafka.wire.ProducerIdentity;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A producer with a transactional id, used by one attempt at a time. After any exception from here
 * the caller may only {@link #abortAndClose}: a producer whose transaction did not end clearly is
 * never used again.
 */
public final class TransactionalProducer implements Transactions {
  private static final Logger LOG = LoggerFactory.getLogger(TransactionalProducer.class);

  /** The number of records between two checks of the clock. */
  private static final int RECORDS_PER_TIME_CHECK = 256;

  private final String transactionalId;
  private final ClientSettings settings;
  private final int transactionTimeoutMs;
  private final KafkaProducer<byte[], byte[]> producer;
  private final ProducerErrors errors;

  /** What the open transaction may use, or null if it has no limit. */
  private Registration registration;

  private boolean open;
  private boolean ending;
  private long beganNanos;
  private int sinceTimeCheck;

  private TransactionalProducer(
      String transactionalId, ClientSettings settings, int transactionTimeoutMs) {
    this.transactionalId = transactionalId;
    this.settings = settings;
    this.transactionTimeoutMs = transactionTimeoutMs;
    this.errors = new ProducerErrors(transactionalId, transactionTimeoutMs);
    this.producer = new KafkaProducer<>(settings.producer(transactionalId, transactionTimeoutMs));
  }

  /**
   * Opens a producer and ends the last transaction of an earlier one of this id, which it fences.
   */
  public static TransactionalProducer init(
      String transactionalId, ClientSettings settings, int transactionTimeoutMs) {
    return init(transactionalId, settings, transactionTimeoutMs, List.of());
  }

  /**
   * The same, and looks up the leaders of topics at the same time.
   *
   * @param topics that will be written to; the first record of each would wait for them
   */
  public static TransactionalProducer init(
      String transactionalId,
      ClientSettings settings,
      int transactionTimeoutMs,
      List<String> topics) {
    TransactionalProducer opened =
        new TransactionalProducer(transactionalId, settings, transactionTimeoutMs);
    opened.lookUp(topics);
    try {
      opened.producer.initTransactions();
      return opened;
    } catch (RuntimeException e) {
      opened.close();
      throw opened.errors.explain(e);
    }
  }

  private void lookUp(List<String> topics) {
    if (topics.isEmpty()) {
      return;
    }
    Daemon.start(
        "eoskafka-leaders-" + transactionalId,
        () -> {
          try {
            topics.forEach(producer::partitionsFor);
          } catch (KafkaException | IllegalStateException e) {
            // The first record reports the problem again, if it matters.
            LOG.debug("Leaders of {} could not be looked up", topics, e);
          }
        });
  }

  /** Whether this producer was made with these settings. */
  public boolean hasSettings(ClientSettings other, int timeoutMs) {
    return settings.equals(other) && transactionTimeoutMs == timeoutMs;
  }

  public void begin() {
    try {
      producer.beginTransaction();
    } catch (RuntimeException e) {
      throw errors.explain(e);
    }
    open = true;
    sinceTimeCheck = 0;
    beganNanos = System.nanoTime();
  }

  /**
   * Begins a transaction that may use only what it registers here.
   *
   * @param topics may be written to, in all their partitions; empty for no limit and no
   *     registration
   * @param more partitions that may be written to as well
   * @param group whose offsets it may carry, or null
   * @param admin of the sink's cluster
   */
  public void begin(
      List<String> topics,
      Map<String, Set<Integer>> more,
      String group,
      Admin admin,
      CoordinatorCalls coordinators) {
    begin();
    if (topics.isEmpty()) {
      return;
    }
    try {
      if (registration == null) {
        Registration.requireTopics(topics, admin);
      }
      Map<String, Set<Integer>> partitions = new HashMap<>(more);
      for (String topic : topics) {
        partitions.put(topic, Registration.all(producer.partitionsFor(topic).size()));
      }
      registration = new Registration(partitions, group);
      TransactionRef transaction = transaction();
      if (!transaction.version2()) {
        coordinators.register(transaction, registration);
      }
    } catch (RuntimeException e) {
      throw refusedByCoordinator(e);
    }
  }

  /**
   * The open transaction, as requests past this producer have to name it. No broker is asked: a
   * former coordinator might answer with an earlier transaction of the same id, and any coordinator
   * with that of an attempt that has initialised the id since.
   */
  public TransactionRef transaction() {
    ProducerIdentity own = ProducerIdentity.of(producer);
    return new TransactionRef(
        transactionalId, own.producerId(), own.epoch(), ProducerIdentity.usesVersion2(producer));
  }

  /** What to throw for an error of a request past this producer. */
  private RuntimeException refusedByCoordinator(RuntimeException e) {
    RuntimeException explained = errors.explain(e);
    if (errors.wasFenced()) {
      // A former coordinator may have said so: the next attempt may ask another broker.
      ExecutorClients.forget(settings);
    }
    return explained;
  }

  public boolean isOpen() {
    return open;
  }

  /**
   * The next {@link #flush} reports a record that fails later. A record that fails at once because
   * its topic is missing has waited {@code max.block.ms}: the next one would wait, too.
   */
  public void send(ProducerRecord<byte[], byte[]> record) {
    submit(record);
    if (++sinceTimeCheck == RECORDS_PER_TIME_CHECK) {
      sinceTimeCheck = 0;
      checkTime();
    }
  }

  private Future<RecordMetadata> submit(ProducerRecord<byte[], byte[]> record) {
    if (registration != null) {
      registration.check(record);
    }
    Future<RecordMetadata> sent;
    try {
      sent = producer.send(record, errors);
    } catch (RuntimeException e) {
      throw errors.explain(e);
    }
    if (sent.isDone()) {
      arrived(sent);
    }
    return sent;
  }

  private RecordMetadata arrived(Future<RecordMetadata> sent) {
    try {
      return sent.get();
    } catch (ExecutionException e) {
      throw errors.explain(new KafkaException(e.getCause()));
    } catch (InterruptedException e) {
      throw errors.explain(new InterruptException(e));
    }
  }

  /**
   * Fails before the broker would abort the transaction by itself, while there is time to abort it
   * in order and to say why.
   */
  @Override
  public void checkTime() {
    long elapsedMs = (System.nanoTime() - beganNanos) / 1_000_000;
    if (open && elapsedMs > transactionTimeoutMs * 4L / 5) {
      throw EosKafkaException.of(
          "EOSKAFKA_TRANSACTION_NEAR_TIMEOUT",
          Map.of(
              "transactionalId", transactionalId,
              "elapsed", elapsedMs,
              "timeout", transactionTimeoutMs));
    }
  }

  /** Waits until every record has been acknowledged; fails if one has failed. */
  public void flush() {
    try {
      producer.flush();
    } catch (RuntimeException e) {
      throw errors.explain(e);
    }
    errors.requireNoFailedRecord();
    checkTime();
  }

  /**
   * Sends a last record, and waits until all records have been acknowledged.
   *
   * @return the record's offset
   */
  public long sendAndFlush(ProducerRecord<byte[], byte[]> record) {
    Future<RecordMetadata> sent = submit(record);
    flush();
    return arrived(sent).offset();
  }

  /**
   * Leaves the open transaction to somebody else and closes. Not with a plain close: that would
   * abort it.
   */
  public void leaveOpenAndClose() {
    ending = true;
    close();
  }

  /**
   * Adds offsets to the open transaction; the group coordinator checks the fence.
   *
   * @param members to name the owner of the group if it refuses the offsets
   */
  public void sendOffsets(
      Map<TopicPartition, OffsetAndMetadata> offsets, Fence fence, GroupInspector members) {
    if (registration != null) {
      registration.check(fence.group());
    }
    try {
      for (Map<TopicPartition, OffsetAndMetadata> part : ExclusiveMembership.parts(offsets)) {
        producer.sendOffsetsToTransaction(part, GroupMetadata.of(fence));
      }
    } catch (CommitFailedException | FencedInstanceIdException e) {
      throw fencedByGroup(fence, members, e);
    } catch (TopicAuthorizationException e) {
      throw AuthorizationErrors.or(e, "Read");
    } catch (RuntimeException e) {
      throw errors.explain(e);
    }
  }

  /** The coordinator that has accepted the last offsets that were sent here. */
  public Node offsetsCoordinator() {
    return OffsetsCoordinator.of(producer);
  }

  /** An error that names who owns the group. */
  public static EosKafkaException fencedByGroup(
      Fence fence, GroupInspector members, RuntimeException cause) {
    return members.fenced(
        "EOSKAFKA_FENCED_BY_GROUP",
        fence.instanceId(),
        Map.of("member", fence.memberId(), "generation", fence.generation()),
        cause);
  }

  /**
   * Commits after all records have been acknowledged. The client itself does not ensure this: its
   * sender thread checks for unsent records before it takes its next request, so if a send and a
   * commit both come in between, it ends the transaction without the record. For the first record
   * this is an error (INVALID_TXN_STATE); a later record is lost without an error (seen on
   * kafka-clients 4.3.1 with transaction version 2, which registers no partition beforehand).
   *
   * @throws EosKafkaException {@code EOSKAFKA_COMMIT_UNKNOWN} if the broker gave no clear answer
   */
  public void commit() {
    try {
      producer.flush();
      ending = true;
      producer.commitTransaction();
    } catch (TimeoutException e) {
      throw errors.commitUnknown(e);
    } catch (RuntimeException e) {
      throw errors.explain(e);
    }
    open = false;
    ending = false;
  }

  @Override
  public boolean mayLeaveOffsetsPending() {
    return !ProducerIdentity.usesVersion2(producer);
  }

  /**
   * As {@link #sendOffsets}, but bypasses this producer, which was refused with a former fence and
   * could only abort now.
   *
   * @return the coordinator that has accepted the last of them; empty if the group refuses this
   *     fence too
   */
  public Optional<Node> addOffsetsViaCoordinator(
      Map<TopicPartition, OffsetAndMetadata> offsets, Fence fence, CoordinatorCalls coordinators) {
    try {
      Optional<Node> accepted = Optional.empty();
      for (Map<TopicPartition, OffsetAndMetadata> part : ExclusiveMembership.parts(offsets)) {
        accepted = coordinators.addOffsets(transaction(), part, fence);
        if (accepted.isEmpty()) {
          return accepted;
        }
      }
      return accepted;
    } catch (TopicAuthorizationException e) {
      throw AuthorizationErrors.or(e, "Read");
    } catch (RuntimeException e) {
      throw refusedByCoordinator(e);
    }
  }

  /**
   * Commits the transaction without this producer, which has refused to and is not used again.
   *
   * @throws EosKafkaException {@code EOSKAFKA_COMMIT_UNKNOWN}, {@code EOSKAFKA_ATTEMPT_FENCED}
   */
  public void commitViaCoordinator(TransactionEnds ends) {
    TransactionRef transaction = transaction();
    leaveOpenAndClose();
    try {
      if (!ends.commit(List.of(transaction), Map.of(), settings.maxBlock()).isEmpty()) {
        throw refusedByCoordinator(errors.fenced(null));
      }
    } catch (TimeoutException e) {
      throw errors.commitUnknown(e);
    }
    open = false;
  }

  /** Whether it has committed, or may have, in a way that keeps it from beginning a transaction. */
  public boolean isSpent() {
    return ending;
  }

  /**
   * Ends the transaction so that nobody waits for it, and closes. If this gets no clear answer, the
   * next {@link #init} of this id settles it.
   *
   * @return whether a transaction was given up
   */
  public boolean abortAndClose() {
    // The thread of a killed task is interrupted, which would cut the abort short.
    boolean interrupted = Thread.interrupted();
    boolean isGivenUp = open && !ending;
    try {
      if (isGivenUp) {
        producer.abortTransaction();
      }
    } catch (KafkaException | IllegalStateException e) {
      LOG.info(
          "Transaction of {} was not aborted here ({}); the next attempt or start ends it",
          transactionalId,
          e.toString());
    } finally {
      close();
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
    return isGivenUp;
  }

  /** Whether another producer has initialised its id, or its transaction has timed out. */
  public boolean wasFenced() {
    return errors.wasFenced();
  }

  public void close() {
    producer.close(Duration.ZERO);
  }
}
