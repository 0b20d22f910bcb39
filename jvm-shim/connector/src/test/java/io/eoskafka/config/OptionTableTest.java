package io.eoskafka.config;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Locale;
import java.util.Set;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

class OptionTableTest {
  private static Stream<JsonNode> options() {
    return StreamSupport.stream(Spec.read("options.json").get("options").spliterator(), false);
  }

  /** Each option with each side that it is for. */
  static Stream<Object[]> sided() {
    return options()
        .flatMap(
            option ->
                StreamSupport.stream(option.get("sides").spliterator(), false)
                    .map(side -> new Object[] {option, side.asText()}));
  }

  @ParameterizedTest(name = "{1} {0}")
  @MethodSource("sided")
  void everyOptionOfTheTableIsTakenOrRefusedByName(JsonNode option, String side) {
    String name = option.get("name").asText();
    for (String spelling : new String[] {name, name.toLowerCase(Locale.ROOT)}) {
      switch (option.get("status").asText()) {
        case "available" ->
            assertThatCode(() -> OptionTable.check(side, Set.of(spelling)))
                .doesNotThrowAnyException();
        case "refused" -> {
          assertRefused(side, spelling, "EOSKAFKA_OPTION_REFUSED", "Option " + name);
          assertRefused(side, spelling, "EOSKAFKA_OPTION_REFUSED", option.get("instead").asText());
        }
        default -> throw new AssertionError(option);
      }
    }
  }

  @ParameterizedTest
  @CsvSource({
    "source, startingOfsets, startingOffsets",
    "source, maxOffsetPerTrigger, maxOffsetsPerTrigger",
    "source, subscibe, subscribe",
    "source, group.id, kafka.group.id",
    "source, bootstrap.servers, kafka.bootstrap.servers",
    "sink, topics, topic",
    "sink, transactionScop, transactionScope",
    "sink, transactional.id.prefix, transactionalIdPrefix",
  })
  void aMisspeltNameIsToldTheNearest(String side, String given, String nearest) {
    assertRefused(side, given, "EOSKAFKA_UNKNOWN_OPTION", "Did you mean " + nearest + "?");
  }

  @ParameterizedTest
  @CsvSource({
    "source, topic, sink",
    "source, transactionScope, sink",
    "sink, subscribe, source",
    "sink, startingOffsets, source",
    "sink, failOnDataLoss, source"
  })
  void anOptionOfTheOtherSideIsSentThere(String side, String given, String other) {
    assertRefused(side, given, "EOSKAFKA_OPTION_WRONG_SIDE", "belongs to the " + other);
  }

  @ParameterizedTest
  @ValueSource(strings = {"kafka.fetch.min.bytes", "kafka.no.such.setting", "checkpointLocation"})
  void clientSettingsAndSparksOwnOptionsPass(String name) {
    for (String side : new String[] {"source", "sink"}) {
      assertThatCode(() -> OptionTable.check(side, Set.of(name))).doesNotThrowAnyException();
    }
  }

  private static void assertRefused(String side, String given, String condition, String text) {
    assertThatThrownBy(() -> OptionTable.check(side, Set.of(given)))
        .isInstanceOf(EosKafkaException.class)
        .hasMessageContaining("[" + condition + "]")
        .hasMessageContaining(text);
  }

  @Test
  void namesAreUnique() {
    assertThat(options().map(o -> o.get("name").asText().toLowerCase(Locale.ROOT)))
        .doesNotHaveDuplicates();
  }
}
