package io.eoskafka.wire;

import static org.assertj.core.api.Assertions.assertThat;

import javax.security.auth.login.LoginException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.errors.SslAuthenticationException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.junit.jupiter.api.Test;

class AuthorizationErrorsTest {
  @Test
  void aRefusedLogInIsNamedByWhatIsAtItsBottom() {
    Exception handshake =
        new SslAuthenticationException("SSL handshake failed", new Exception("no such host"));
    assertThat(AuthorizationErrors.in(new KafkaException(handshake), "Read").orElseThrow())
        .hasMessageContaining("[EOSKAFKA_LOG_IN_FAILED]")
        .hasMessageContaining("failed: Exception: no such host. No records");
    assertThat(AuthorizationErrors.in(new SaslAuthenticationException("bad"), "Read").orElseThrow())
        .hasMessageContaining("failed: SaslAuthenticationException: bad. No records");
  }

  @Test
  void stackTracesInMessagesAreLeftOut() {
    assertThat(AuthorizationErrors.logInFailed(new LoginException("refused: 401\n\tat x.Y")))
        .hasMessageContaining("failed: LoginException: refused: 401. No records")
        .hasMessageNotContaining("x.Y");
  }

  @Test
  void otherFailuresAreNoRefusals() {
    assertThat(AuthorizationErrors.in(new TimeoutException("late"), "Read")).isEmpty();
    assertThat(AuthorizationErrors.in(new TopicAuthorizationException("t"), "Read").orElseThrow())
        .hasMessageContaining("[EOSKAFKA_NOT_AUTHORIZED]");
  }
}
