package io.eoskafka.source;

import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.eoskafka.config.SourceOptions;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class RealTimeTest {

  private static SourceOptions options(Map<String, String> more) {
    Map<String, String> given = new HashMap<>(more);
    given.put("kafka.bootstrap.servers", "broker:9092");
    given.put("subscribe", "t");
    return SourceOptions.parse(new CaseInsensitiveStringMap(given));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "maxOffsetsPerTrigger",
        "maxOffsetsPerPartition",
        "minOffsetsPerTrigger",
        "minPartitions",
        "maxRecordsPerPartition"
      })
  void whatDividesBatchesByTheirRecordsIsRefusedByName(String option) {
    assertThatThrownBy(() -> RealTime.requireAllowed(options(Map.of(option, "5"))))
        .hasMessageContaining("EOSKAFKA_REAL_TIME_REFUSED")
        .hasMessageContaining(option);
  }

  @Test
  void aSharedGroupIsRefused() {
    Map<String, String> shared = Map.of("ownership", "shared", "kafka.group.id", "g");
    assertThatThrownBy(() -> RealTime.requireAllowed(options(shared)))
        .hasMessageContaining("ownership=shared");
  }

  @Test
  void slotsAreAllowed() {
    assertThatCode(() -> RealTime.requireAllowed(options(Map.of("slots", "3"))))
        .doesNotThrowAnyException();
  }
}
