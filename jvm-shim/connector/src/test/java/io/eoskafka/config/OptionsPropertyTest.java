package io.eoskafka.config;

import static io.eoskafka.foreign.ForeignInput.any;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowable;

import com.fasterxml.jackson.databind.JsonNode;
import io.eoskafka.foreign.ForeignInput;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.Consumer;
import java.util.stream.StreamSupport;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.Tag;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Options as a user gives them. {@code tests/fuzz/given.py} asks Python for the same. */
class OptionsPropertyTest {
  private static final List<String> NAMES =
      StreamSupport.stream(Spec.read("options.json").get("options").spliterator(), false)
          .map((JsonNode option) -> option.get("name").asText())
          .toList();

  private static final List<String> WORDS =
      List.of(
          "",
          " ",
          "0",
          "1",
          "-1",
          "+7",
          "0x7",
          "1e9",
          "\u0661",
          "9".repeat(5_000),
          "9223372036854775807",
          "9223372036854775808",
          "true",
          "TRUE",
          "earliest",
          "Latest",
          "30s",
          "9223372036854775807d",
          "task",
          "epoch",
          "shared",
          "consumer",
          "t,u",
          ",",
          "[",
          "(a+)+$",
          "\0",
          "{\"t\":[0,1]}",
          "{\"a\":".repeat(20_000));

  @Property
  @Tag("reader")
  void anyOptionsOfASourceAreTakenOrRefusedByName(@ForAll("options") Map<String, String> options) {
    takenOrRefused(SourceOptions::parse, options);
  }

  @Property
  @Tag("reader")
  void anyOptionsOfASinkAreTakenOrRefusedByName(@ForAll("options") Map<String, String> options) {
    takenOrRefused(SinkOptions::parse, options);
  }

  private static void takenOrRefused(
      Consumer<CaseInsensitiveStringMap> parse, Map<String, String> options) {
    Throwable refused = catchThrowable(() -> parse.accept(new CaseInsensitiveStringMap(options)));
    if (refused != null) {
      assertThat(refused).isInstanceOf(EosKafkaException.class);
      assertThat(((EosKafkaException) refused).condition()).startsWith("EOSKAFKA_");
    }
  }

  @Provide
  Arbitrary<Map<String, String>> options() {
    return Arbitraries.randomValue(OptionsPropertyTest::some);
  }

  private static Map<String, String> some(Random random) {
    Map<String, String> options = new HashMap<>();
    options.put("kafka.bootstrap.servers", "broker:9092");
    if (random.nextInt(4) > 0) {
      options.put("subscribe", "t");
    }
    for (int i = random.nextInt(4); i >= 0; i--) {
      String name = any(random, NAMES);
      options.put(
          random.nextInt(8) == 0 ? ForeignInput.damaged(random, name) : name, value(random));
    }
    return options;
  }

  private static String value(Random random) {
    return switch (random.nextInt(4)) {
      case 0 -> ForeignInput.noise(random);
      case 1 -> ForeignInput.damagedJson(random, "{\"t\":{\"0\":23,\"1\":-1},\"u\":\"earliest\"}");
      default -> any(random, WORDS);
    };
  }
}
