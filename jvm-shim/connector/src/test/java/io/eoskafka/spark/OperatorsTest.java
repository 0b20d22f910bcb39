package io.eoskafka.spark;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class OperatorsTest {
  /** Its iterator reads on before it hands out the last row that it has made of one. */
  @ParameterizedTest
  @CsvSource({"3.5.8, false", "4.0.5, false", "4.1.4, false", "4.2.0, true", "4.3.0, true"})
  void expandIsSynchronousSinceSpark42(String version, boolean isSynchronous) {
    Operators operators = Operators.of(SparkVersion.of(version));
    String expand = "org.apache.spark.sql.execution.ExpandExec";
    assertThat(operators.fit()).contains(expand);
    assertThat(operators.synchronous().contains(expand)).isEqualTo(isSynchronous);
  }

  /** Another thread than the task's reads their input in Spark 3.5. */
  @ParameterizedTest
  @CsvSource({"3.5.8, false", "4.0.5, true", "4.3.0, true"})
  void pythonIsFitSinceSpark4(String version, boolean isFit) {
    boolean hasPython =
        Operators.of(SparkVersion.of(version)).fit().stream()
            .anyMatch(name -> name.contains(".python."));
    assertThat(hasPython).isEqualTo(isFit);
  }
}
