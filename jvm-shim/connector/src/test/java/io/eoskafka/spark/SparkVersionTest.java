package io.eoskafka.spark;

import static org.assertj.core.api.Assertions.assertThat;

import io.eoskafka.config.EosKafkaException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class SparkVersionTest {
  @ParameterizedTest
  @CsvSource({
    "4.0.5, 4.0",
    "4.1.1-amzn-0, 4.1",
    "4.0.1.dev, 4.0",
    "4.2, 4.2",
    "4.3.0-SNAPSHOT, 4.3",
    "4.10.2, 4.10",
    "4.1-preview, 4.1",
    "four, 0.0",
    "4, 0.0"
  })
  void aVersionIsItsFirstTwoNumbers(String text, String line) {
    assertThat(SparkVersion.of(text).line()).isEqualTo(line);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {"3.5.0", "3.5.2-databricks", "4.0.0", "4.0.5", "4.1.1-amzn-0", "4.2.1", "4.3.7"})
  void theseAreTaken(String version) {
    assertThat(SparkCheck.refusal(SparkVersion.of(version), "2.13.17", false)).isEmpty();
  }

  @ParameterizedTest
  @ValueSource(strings = {"3.4.4", "four"})
  void olderOnesAreRefusedWhateverIsAllowed(String version) {
    assertThat(SparkCheck.refusal(SparkVersion.of(version), "2.13.17", true))
        .map(Throwable::getMessage)
        .hasValueSatisfying(
            said -> assertThat(said).contains("[EOSKAFKA_WRONG_SPARK]", version, "is older"));
  }

  @ParameterizedTest
  @ValueSource(strings = {"4.4.0", "5.0.0-preview1"})
  void newerOnesAreTakenOnlyIfThatIsAllowed(String version) {
    SparkVersion newer = SparkVersion.of(version);
    assertThat(SparkCheck.refusal(newer, "2.13.17", true)).isEmpty();
    assertThat(SparkCheck.refusal(newer, "2.13.17", false))
        .map(EosKafkaException::getMessage)
        .hasValueSatisfying(
            said ->
                assertThat(said)
                    .contains("[EOSKAFKA_UNTESTED_SPARK]", version, "allowUntestedSpark=true"));
  }

  @ParameterizedTest
  @ValueSource(strings = {"2.12.18", "2.13.8"})
  void spark35ComesWithEitherScala(String scala) {
    assertThat(SparkCheck.refusal(SparkVersion.of("3.5.8"), scala, false)).isEmpty();
  }

  @Test
  void anotherScalaIsRefused() {
    assertThat(SparkCheck.refusal(SparkVersion.of("4.1.4"), "2.12.18", false))
        .map(Throwable::getMessage)
        .hasValueSatisfying(said -> assertThat(said).contains("Scala 2.12.18"));
  }

  @Test
  void thisBuildsSparkHasAll() {
    SparkCheck.check();
  }
}
