package io.eoskafka.identity;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

class StampTest {
  private static final Path VECTORS = Path.of("..", "..", "tests", "unit", "stamp_vectors.json");
  private static final String ID = "Zr4a4oV-BZc_lbkke8hgdw";

  static Stream<JsonNode> vectors() throws IOException {
    Stream.Builder<JsonNode> all = Stream.builder();
    new ObjectMapper().readTree(Files.readString(VECTORS)).get("vectors").forEach(all::add);
    return all.build();
  }

  @ParameterizedTest
  @MethodSource("vectors")
  void everyTextMeansWhatTheSharedVectorsSay(JsonNode vector) {
    String text = vector.get("text").asText();
    switch (vector.get("kind").asText()) {
      case "ours" -> {
        Stamp stamp =
            new Stamp(
                Stamp.Scope.valueOf(vector.get("scope").asText().toUpperCase(Locale.ROOT)),
                vector.get("identity").asText(),
                vector.get("topicId").asText(),
                vector.get("sinkCluster").asText(),
                vector.get("epoch").asLong());
        assertThat(Stamp.kindOf(text)).isEqualTo(Stamp.Kind.OURS);
        assertThat(Stamp.parse(text)).contains(stamp);
        assertThat(stamp.encode()).isEqualTo(text);
      }
      case "none" -> {
        assertThat(Stamp.kindOf(text)).isEqualTo(Stamp.Kind.NONE);
        assertThat(Stamp.parse(text)).isEmpty();
      }
      case "older" -> {
        assertThat(Stamp.kindOf(text)).isEqualTo(Stamp.Kind.OLDER_PROTOCOL);
        assertThat(Stamp.parse(text)).isEmpty();
      }
      case "newer" -> {
        assertThat(Stamp.kindOf(text)).isEqualTo(Stamp.Kind.NEWER_PROTOCOL);
        assertThat(Stamp.parse(text)).isEmpty();
      }
      default -> throw new AssertionError(vector);
    }
  }

  @Test
  void noMetadataIsNoStamp() {
    assertThat(Stamp.kindOf(null)).isEqualTo(Stamp.Kind.NONE);
    assertThat(Stamp.parse(null)).isEmpty();
  }

  @ParameterizedTest
  @EnumSource(Stamp.Scope.class)
  void theLongestStampFitsAThousandTimesIntoOneCommit(Stamp.Scope scope) {
    Stamp longest = new Stamp(scope, ID, ID, "c".repeat(32), 999_999_999_999_999_999L);
    assertThat(longest.encode().getBytes(StandardCharsets.UTF_8))
        .hasSizeLessThanOrEqualTo(Stamp.MAX_BYTES);
    assertThat(Stamp.parse(longest.encode())).contains(longest);
  }
}
