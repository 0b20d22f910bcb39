package io.eoskafka.config;

import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class DelegationTokensTest {
  private static final Map<String, String> CLUSTERS =
      Map.of("east.auth.bootstrap.servers", "e:9092", "east.sasl.token.mechanism", "SCRAM-SHA-512");

  @ParameterizedTest
  @CsvSource({"SASL_SSL", "SASL_PLAINTEXT"})
  void aQueryThatSparkWouldGiveATokenIsRefused(String protocol) {
    assertThatThrownBy(
            () -> DelegationTokens.refuse(Map.of("security.protocol", protocol), CLUSTERS))
        .hasMessageContaining("EOSKAFKA_DELEGATION_TOKENS")
        .hasMessageContaining("spark.kafka.clusters.east ")
        .hasMessageContaining("kafka.sasl.jaas.config");
  }

  @Test
  void aQueryWithALogInOfItsOwnIsNot() {
    assertThatCode(
            () -> {
              DelegationTokens.refuse(
                  Map.of("security.protocol", "SASL_SSL", "sasl.jaas.config", "x"), CLUSTERS);
              DelegationTokens.refuse(Map.of("security.protocol", "SSL"), CLUSTERS);
              DelegationTokens.refuse(Map.of(), CLUSTERS);
              DelegationTokens.refuse(Map.of("security.protocol", "SASL_SSL"), Map.of());
            })
        .doesNotThrowAnyException();
  }
}
