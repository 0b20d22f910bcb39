package io.eoskafka.decision;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.faults.FaultPoint;
import io.eoskafka.transaction.ExecutorClients;
import io.eoskafka.transaction.TransactionCounts;
import io.eoskafka.transaction.TransactionRef;
import io.eoskafka.transaction.TransactionalProducer;
import io.eoskafka.wire.Daemon;
import io.eoskafka.wire.KafkaCalls;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.spark.TaskContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One writer's attempt in epoch scope: writes its rows into a transaction of its own and leaves it
 * open for the driver to decide on. A writer without rows begins none.
 */
public final class WriterTransaction {
  private static final Logger LOG = LoggerFactory.getLogger(WriterTransaction.class);
  private static final byte[] EMPTY = {};

  private final WriterScope scope;
  private final int writer;
  private final boolean writing;
  private final RowDigest digest = new RowDigest();
  private String transactionalId;

  /** A producer that is being opened, or was, and has begun no transaction; or null. */
  private CompletableFuture<TransactionalProducer> opening;

  /** The one with the transaction; null before the first row. */
  private TransactionalProducer producer;

  private boolean mayOpenLate;

  /**
   * Opens the producer beside what the task does before its first row, if the writer had rows in
   * the last epoch.
   *
   * @param writer the number of this task in its stage
   * @param topic of all rows, or null if they name their own
   */
  public WriterTransaction(WriterScope scope, int writer, String topic) {
    this.scope = scope;
    this.writer = writer;
    this.writing = scope.isWriting(writer);
    if (writing && scope.formerPresence().containsKey(writer)) {
      beginToOpen(topic);
    }
  }

  public void send(ProducerRecord<byte[], byte[]> record) {
    digest.add(record);
    if (!writing) {
      return;
    }
    if (producer == null) {
      open(record.topic());
    }
    producer.send(record);
  }

  private void beginToOpen(String topic) {
    TaskContext task = TaskContext.get();
    ExecutorClients.forgetAfterRefusal(task, scope.sink());
    transactionalId =
        scope.transactionalId(writer, task.stageAttemptNumber(), task.attemptNumber());
    // Brokers may create a topic that somebody looks up: only one that may be written to.
    List<String> topics =
        topic == null || registers()
            ? List.of(scope.decisionTopic())
            : List.of(topic, scope.decisionTopic());
    opening =
        CompletableFuture.supplyAsync(
            () -> {
              FaultPoint.BEFORE_INIT.reach();
              return TransactionalProducer.init(
                  transactionalId, scope.sink(), scope.transactionTimeoutMs(), topics);
            },
            work -> Daemon.start("eoskafka-open-" + transactionalId, work));
  }

  private boolean registers() {
    return !scope.registerTopics().isEmpty();
  }

  private TransactionalProducer opened() {
    try {
      return opening.get();
    } catch (ExecutionException e) {
      throw e.getCause() instanceof RuntimeException cause
          ? cause
          : new KafkaException(e.getCause());
    } catch (InterruptedException e) {
      throw KafkaCalls.asJava(new InterruptException(e));
    }
  }

  private void open(String topic) {
    if (opening == null) {
      beginToOpen(topic);
    }
    producer = opened();
    opening = null;
    FaultPoint.AFTER_INIT.reach();
    if (!registers()) {
      producer.begin();
      return;
    }
    producer.begin(
        scope.registerTopics(),
        Map.of(scope.decisionTopic(), Set.of(scope.presencePartition(writer))),
        null,
        ExecutorClients.admin(scope.sink()),
        ExecutorClients.coordinators(scope.sink()));
  }

  /** Everything has arrived; from here on the transaction is the driver's. */
  public WriterOutput prepare() {
    if (producer == null) {
      if (opening != null) {
        closeUnused();
      }
      return WriterOutput.withoutTransaction(writer, digest.rows(), digest.sum());
    }
    FaultPoint.BEFORE_FLUSH.reach();
    String former = scope.formerPresence().get(writer);
    if (former != null) {
      producer.send(presence(former, null));
    }
    long marker = producer.sendAndFlush(presence(scope.presenceKey(transactionalId), EMPTY));
    TransactionRef prepared = producer.transaction();
    producer.leaveOpenAndClose();
    producer = null;
    FaultPoint.AFTER_FLUSH.reach();
    return new WriterOutput(
        writer, prepared, scope.presencePartition(writer), marker, digest.rows(), digest.sum());
  }

  /** Waits: late, it would initialise the id of a transaction of the next epoch, and end that. */
  private void closeUnused() {
    try {
      opened().close();
    } catch (KafkaException | EosKafkaException e) {
      LOG.warn("{} had no rows, and could not be initialised", transactionalId, e);
      mayOpenLate = true;
    }
    opening = null;
  }

  /** Whether a coordinator may yet initialise its id, although it has reported. */
  public boolean mayOpenLate() {
    return mayOpenLate;
  }

  private ProducerRecord<byte[], byte[]> presence(String key, byte[] value) {
    return new ProducerRecord<>(
        scope.decisionTopic(),
        scope.presencePartition(writer),
        key.getBytes(StandardCharsets.UTF_8),
        value);
  }

  /** Of attempts that have failed in this JVM and were not reported yet. */
  public TransactionCounts takeFailed() {
    return TransactionCounts.takeFailed(scope.ownerId());
  }

  /** Ends an attempt that was not prepared; does nothing to one that was. */
  public void abort() {
    if (producer != null) {
      boolean aborted = producer.abortAndClose();
      TransactionCounts.failed(scope.ownerId(), aborted, producer.wasFenced());
      producer = null;
    } else if (opening != null) {
      opening.thenAccept(TransactionalProducer::close);
    }
  }
}
