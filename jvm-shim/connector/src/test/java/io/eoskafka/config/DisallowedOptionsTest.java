package io.eoskafka.config;

import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class DisallowedOptionsTest {
  @ParameterizedTest
  @ValueSource(
      strings = {
        "sasl.jaas.config",
        "client.id, SASL.jaas.config",
        "kafka.sasl.jaas.config",
        " ,sasl.jaas.config,"
      })
  void anOptionOnTheListIsRefusedInAnySpelling(String list) {
    assertThatThrownBy(
            () -> DisallowedOptions.check(Set.of("topic", "Kafka.Sasl.Jaas.Config"), list))
        .hasMessageContaining("EOSKAFKA_OPTION_DISALLOWED")
        .hasMessageContaining("kafka.sasl.jaas.config");
  }

  @Test
  void theListIsOfSettingsOfKafkasClientOnly() {
    assertThatCode(
            () ->
                DisallowedOptions.check(
                    Set.of("topic", "kafkaConsumer.pollTimeoutMs", "kafka.client.id"),
                    "topic,kafkaconsumer.polltimeoutms,pollTimeoutMs,client"))
        .doesNotThrowAnyException();
    assertThatCode(() -> DisallowedOptions.check(Set.of("kafka."), ",")).doesNotThrowAnyException();
  }
}
