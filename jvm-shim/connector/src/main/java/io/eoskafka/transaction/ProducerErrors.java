package io.eoskafka.transaction;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.wire.AuthorizationErrors;
import io.eoskafka.wire.KafkaCalls;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.InvalidPidMappingException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.InvalidTxnStateException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.protocol.Errors;

/**
 * The errors of one producer: the first record that failed, whether another producer has taken over
 * its transactional id, and the error condition for each exception of Kafka's client.
 */
final class ProducerErrors implements Callback {
  private final String transactionalId;
  private final int transactionTimeoutMs;

  /** Why the first record failed. Neither a flush nor the coordinator reports this. */
  private volatile Exception failed;

  /** Its topic. */
  private volatile String failedTopic = "";

  private volatile boolean fenced;

  ProducerErrors(String transactionalId, int transactionTimeoutMs) {
    this.transactionalId = transactionalId;
    this.transactionTimeoutMs = transactionTimeoutMs;
  }

  /** Called for each record, on the client's sender thread or while it is sent. */
  @Override
  public void onCompletion(RecordMetadata metadata, Exception e) {
    if (e != null && failed == null) {
      failedTopic = metadata.topic();
      failed = e;
    }
  }

  /** To be called when every record has been acknowledged or has failed. */
  void requireNoFailedRecord() {
    if (failed != null) {
      throw explain(new KafkaException(failed));
    }
  }

  /** Whether another producer has initialised the id, or the transaction has timed out. */
  boolean wasFenced() {
    return fenced;
  }

  /** The error for a commit without a clear answer. */
  EosKafkaException commitUnknown(TimeoutException e) {
    return EosKafkaException.of(
        "EOSKAFKA_COMMIT_UNKNOWN",
        Map.of("transactionalId", transactionalId, "cause", EosKafkaException.plain(e)),
        e);
  }

  /** The error for a fenced producer; {@link #wasFenced} is true from now on. */
  EosKafkaException fenced(RuntimeException cause) {
    fenced = true;
    return EosKafkaException.of(
        "EOSKAFKA_ATTEMPT_FENCED",
        Map.of("transactionalId", transactionalId, "timeout", transactionTimeoutMs),
        cause);
  }

  /** The exception to throw for one of the client. */
  RuntimeException explain(RuntimeException e) {
    if (e instanceof InterruptException interrupt) {
      return KafkaCalls.asJava(interrupt);
    }
    if (e instanceof EosKafkaException) {
      return e;
    }
    for (Throwable cause = e; cause != null; cause = cause.getCause()) {
      if (cause instanceof ProducerFencedException
          || cause instanceof InvalidProducerEpochException
          || cause instanceof InvalidPidMappingException
          // With transaction version 2 brokers answer this for a transaction that has timed out.
          || cause instanceof InvalidTxnStateException) {
        return fenced(e);
      }
      if (cause instanceof UnknownTopicOrPartitionException && !failedTopic.isEmpty()) {
        return EosKafkaException.of("EOSKAFKA_NO_SUCH_TOPIC", Map.of("topic", failedTopic), e);
      }
      // The client reports this error only as text.
      if (String.valueOf(cause.getMessage())
          .contains(Errors.INVALID_TRANSACTION_TIMEOUT.message())) {
        return EosKafkaException.of(
            "EOSKAFKA_TRANSACTION_TIMEOUT_TOO_LONG",
            Map.of("timeout", transactionTimeoutMs, "maximum", "lower"),
            e);
      }
      if (cause instanceof RecordTooLargeException) {
        return EosKafkaException.of(
            "EOSKAFKA_RECORD_TOO_LARGE",
            Map.of("topic", failedTopic, "cause", cause.getMessage()),
            e);
      }
    }
    Optional<EosKafkaException> denied = AuthorizationErrors.inProducer(e, transactionalId);
    if (denied.isPresent()) {
      return denied.get();
    }
    return EosKafkaException.of(
        "EOSKAFKA_WRITE_FAILED",
        Map.of("transactionalId", transactionalId, "cause", EosKafkaException.plain(e)),
        e);
  }
}
