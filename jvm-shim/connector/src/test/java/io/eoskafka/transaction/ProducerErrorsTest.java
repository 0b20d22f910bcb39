package io.eoskafka.transaction;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.eoskafka.config.EosKafkaException;
import java.util.stream.Stream;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.InvalidPidMappingException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.InvalidTxnStateException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.protocol.Errors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Which condition an exception of Kafka's producer comes to. */
class ProducerErrorsTest {
  private static ProducerErrors errors() {
    return new ProducerErrors("id-0", 60_000);
  }

  private static RecordMetadata of(String topic) {
    return new RecordMetadata(new TopicPartition(topic, 0), -1, -1, -1, -1, -1);
  }

  static Stream<Arguments> exceptions() {
    return Stream.of(
        Arguments.of(new ProducerFencedException("x"), "EOSKAFKA_ATTEMPT_FENCED", true),
        Arguments.of(new InvalidProducerEpochException("x"), "EOSKAFKA_ATTEMPT_FENCED", true),
        Arguments.of(new InvalidPidMappingException("x"), "EOSKAFKA_ATTEMPT_FENCED", true),
        Arguments.of(new InvalidTxnStateException("x"), "EOSKAFKA_ATTEMPT_FENCED", true),
        // The client wraps what has ended a transaction.
        Arguments.of(
            new KafkaException(new ProducerFencedException("x")), "EOSKAFKA_ATTEMPT_FENCED", true),
        Arguments.of(
            new KafkaException(Errors.INVALID_TRANSACTION_TIMEOUT.message()),
            "EOSKAFKA_TRANSACTION_TIMEOUT_TOO_LONG",
            false),
        Arguments.of(new RecordTooLargeException("x"), "EOSKAFKA_RECORD_TOO_LARGE", false),
        Arguments.of(new TopicAuthorizationException("t"), "EOSKAFKA_NOT_AUTHORIZED", false),
        // Nobody knows of a topic as long as no record has failed.
        Arguments.of(new UnknownTopicOrPartitionException("x"), "EOSKAFKA_WRITE_FAILED", false),
        Arguments.of(new SaslAuthenticationException("x"), "EOSKAFKA_LOG_IN_FAILED", false),
        Arguments.of(new TimeoutException("x"), "EOSKAFKA_WRITE_FAILED", false));
  }

  @ParameterizedTest
  @MethodSource("exceptions")
  void eachExceptionHasACondition(RuntimeException e, String condition, boolean isFenced) {
    ProducerErrors errors = errors();
    RuntimeException thrown = errors.explain(e);
    assertThat(thrown)
        .isInstanceOfSatisfying(
            EosKafkaException.class, named -> assertThat(named.condition()).isEqualTo(condition));
    assertThat(errors.wasFenced()).isEqualTo(isFenced);
  }

  @Test
  void anErrorOfOursIsThrownAsItIs() {
    EosKafkaException ours = errors().commitUnknown(new TimeoutException("x"));
    assertThat(ours.condition()).isEqualTo("EOSKAFKA_COMMIT_UNKNOWN");
    ProducerErrors errors = errors();
    assertThat(errors.explain(ours)).isSameAs(ours);
    assertThat(errors.wasFenced()).isFalse();
  }

  @Test
  void anInterruptedThreadStaysInterrupted() {
    RuntimeException thrown = errors().explain(new InterruptException("x"));
    assertThat(Thread.interrupted()).isTrue();
    assertThat(thrown).isNotInstanceOf(EosKafkaException.class);
  }

  @Test
  void theFirstRecordThatFailedIsReported() {
    ProducerErrors errors = errors();
    errors.onCompletion(of("good"), null);
    assertThatCode(errors::requireNoFailedRecord).doesNotThrowAnyException();
    errors.onCompletion(of("missing"), new UnknownTopicOrPartitionException("x"));
    errors.onCompletion(of("other"), new RecordTooLargeException("x"));
    assertThatThrownBy(errors::requireNoFailedRecord)
        .hasMessageContaining("[EOSKAFKA_NO_SUCH_TOPIC]")
        .hasMessageContaining("missing");
    // It is not forgotten.
    assertThatThrownBy(errors::requireNoFailedRecord)
        .hasMessageContaining("[EOSKAFKA_NO_SUCH_TOPIC]");
  }

  @Test
  void aProducerThatACoordinatorRefusesIsFenced() {
    ProducerErrors errors = errors();
    assertThat(errors.fenced(null).condition()).isEqualTo("EOSKAFKA_ATTEMPT_FENCED");
    assertThat(errors.wasFenced()).isTrue();
  }
}
