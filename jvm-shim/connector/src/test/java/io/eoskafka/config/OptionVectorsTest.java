package io.eoskafka.config;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowable;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** What Python says of the same options is in {@code tests/unit/test_options.py}. */
class OptionVectorsTest {
  private static final Path VECTORS = Path.of("..", "..", "tests", "unit", "option_vectors.json");

  static Stream<JsonNode> vectors() throws IOException {
    JsonNode all = new ObjectMapper().readTree(VECTORS.toFile()).get("vectors");
    return StreamSupport.stream(all.spliterator(), false);
  }

  @ParameterizedTest
  @MethodSource("vectors")
  void theConnectorSaysWhatTheVectorsSay(JsonNode vector) {
    Map<String, String> given = new HashMap<>();
    given.put("kafka.bootstrap.servers", "broker:9092");
    vector.get("options").properties().forEach(o -> given.put(o.getKey(), o.getValue().asText()));
    CaseInsensitiveStringMap options = new CaseInsensitiveStringMap(given);
    Throwable refused =
        catchThrowable(
            () -> {
              if (vector.get("side").asText().equals("source")) {
                SourceOptions.parse(options);
              } else {
                SinkOptions.parse(options);
              }
            });
    if (vector.get("message").isNull()) {
      assertThat(refused).isNull();
    } else {
      assertThat(refused).hasMessage(vector.get("message").asText());
    }
  }
}
