package io.eoskafka.config;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Map;
import org.junit.jupiter.api.Test;

class ErrorConditionsTest {
  @Test
  void aMessageStartsWithItsConditionAndHasEveryValue() {
    EosKafkaException error =
        EosKafkaException.of(
            "EOSKAFKA_OPTION_MISSING", Map.of("side", "sink", "option", "kafka.bootstrap.servers"));
    assertThat(error)
        .hasMessageStartingWith(
            "[EOSKAFKA_OPTION_MISSING] The sink needs the option kafka.bootstrap.servers.");
    assertThat(error.condition()).isEqualTo("EOSKAFKA_OPTION_MISSING");
  }

  @Test
  void valuesAreTakenAsTheyAre() {
    assertThat(
            ErrorConditions.message(
                "EOSKAFKA_BAD_SCHEMA", Map.of("problem", "$1 \\ <schema>", "schema", "s")))
        .contains("$1 \\ <schema>");
  }

  @Test
  void aMissingValueOrConditionIsAFaultOfOurs() {
    assertThatThrownBy(() -> ErrorConditions.message("EOSKAFKA_OPTION_MISSING", Map.of()))
        .isInstanceOf(IllegalArgumentException.class);
    assertThatThrownBy(() -> ErrorConditions.message("EOSKAFKA_NO_SUCH", Map.of()))
        .isInstanceOf(IllegalArgumentException.class);
  }
}
