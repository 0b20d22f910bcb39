package io.eoskafka.config;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;

/** Reads the tables that the jar shares with the Python package. */
final class Spec {
  private Spec() {}

  static JsonNode read(String name) {
    try (InputStream in = Spec.class.getResourceAsStream("/io/eoskafka/spec/" + name)) {
      return new ObjectMapper().readTree(in);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
