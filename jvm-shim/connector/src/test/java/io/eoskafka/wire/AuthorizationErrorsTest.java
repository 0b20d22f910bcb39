package io.eoskafka.wire;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.config.SinkOptions;
import java.util.Map;
import java.util.Set;
import javax.security.auth.login.LoginException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.errors.SslAuthenticationException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.errors.TransactionalIdAuthorizationException;
import org.apache.kafka.common.security.plain.PlainLoginModule;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.Test;

class AuthorizationErrorsTest {
  @Test
  void aRefusedLogInIsNamedByWhatIsAtItsBottom() {
    Exception handshake =
        new SslAuthenticationException("SSL handshake failed", new Exception("no such host"));
    assertThat(AuthorizationErrors.in(new KafkaException(handshake), "Read").orElseThrow())
        .hasMessageContaining("[EOSKAFKA_LOG_IN_FAILED]")
        .hasMessageContaining("failed: Exception: no such host. The next start");
    assertThat(AuthorizationErrors.in(new SaslAuthenticationException("bad"), "Read").orElseThrow())
        .hasMessageContaining("failed: SaslAuthenticationException: bad. The next start");
  }

  @Test
  void stackTracesInMessagesAreLeftOut() {
    assertThat(AuthorizationErrors.logInFailed(new LoginException("refused: 401\n\tat x.Y")))
        .hasMessageContaining("failed: LoginException: refused: 401. The next start")
        .hasMessageNotContaining("x.Y");
  }

  @Test
  void whatKafkaSaysOfAJaasTextIsLeftOutBecauseItMayBeOfAPassword() {
    ClientSettings settings =
        SinkOptions.parse(
                new CaseInsensitiveStringMap(
                    Map.of(
                        "kafka.bootstrap.servers", "127.0.0.1:1",
                        "topic", "t",
                        "kafka.security.protocol", "SASL_PLAINTEXT",
                        "kafka.sasl.mechanism", "PLAIN",
                        "kafka.sasl.jaas.config",
                            PlainLoginModule.class.getName()
                                + " required username=\"u\" password=\"ab\"cdef\";")))
            .client();
    assertThatThrownBy(() -> Admins.create(settings, "test"))
        .hasMessageContaining("kafka.sasl.jaas.config cannot be parsed")
        .hasMessageNotContaining("cdef")
        .hasNoCause();
  }

  @Test
  void aTopicThatAProducersClientDoesNotNameIsNotCalledByTheTransactionalId() {
    String id = "eoskafka-q-w1.0.0";
    assertThat(
            AuthorizationErrors.inProducer(new TopicAuthorizationException("no"), id).orElseThrow())
        .hasMessageContaining("Write on a topic of the query")
        .hasMessageNotContaining(id);
    assertThat(
            AuthorizationErrors.inProducer(new TransactionalIdAuthorizationException("no"), id)
                .orElseThrow())
        .hasMessageContaining("Write on the transactional id " + id);
  }

  @Test
  void otherFailuresAreNoRefusals() {
    assertThat(AuthorizationErrors.in(new TimeoutException("late"), "Read")).isEmpty();
    assertThat(AuthorizationErrors.in(new TopicAuthorizationException("t"), "Read").orElseThrow())
        .hasMessageContaining("[EOSKAFKA_NOT_AUTHORIZED]")
        .hasMessageContaining("lacks Read on a topic of the query: t. None");
  }

  @Test
  void whatARefusalDoesNotNameIsNamedByWhoAsked() {
    RuntimeException topic = new TopicAuthorizationException("refused.");
    assertThat(AuthorizationErrors.in(topic, "Read", "payments").orElseThrow())
        .hasMessageContaining("lacks Read on the topic payments: refused. None");
    RuntimeException topics = new TopicAuthorizationException("refused.", Set.of("others"));
    assertThat(AuthorizationErrors.in(topics, "Write", "payments").orElseThrow())
        .hasMessageContaining("lacks Write on the topic others: ");
    RuntimeException id = new TransactionalIdAuthorizationException("refused");
    assertThat(AuthorizationErrors.in(id, "Write", "x-1").orElseThrow())
        .hasMessageContaining("lacks Write on the transactional id x-1 (grant it on all with");
    assertThat(AuthorizationErrors.in(id, "Write").orElseThrow())
        .hasMessageContaining("lacks Write on transactional ids with the query's");
  }
}
