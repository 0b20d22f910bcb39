package io.eoskafka.decision;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

/**
 * Reads an entry of the decision topic. Every executor of a team may write there, so types are
 * checked strictly: a text is not accepted as a number, and a missing number is not 0.
 */
final class Entry {
  private static final ObjectMapper JSON =
      new ObjectMapper().enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS);

  private Entry() {}

  /**
   * @throws IllegalArgumentException if it is no JSON object; the other methods throw it too
   */
  static JsonNode parse(String text) {
    try {
      JsonNode node = JSON.readTree(text);
      require(node != null && node.isObject(), "it is no JSON object");
      return node;
    } catch (JsonProcessingException e) {
      throw new IllegalArgumentException("it is no JSON: " + e.getOriginalMessage(), e);
    }
  }

  static long number(JsonNode node, String name, long least, long most) {
    JsonNode value = node.path(name);
    require(
        value.isIntegralNumber()
            && value.canConvertToLong()
            && value.asLong() >= least
            && value.asLong() <= most,
        name + " is no number from " + least + " to " + most);
    return value.asLong();
  }

  static String text(JsonNode node, String name) {
    require(node.path(name).isTextual(), name + " is no text");
    return node.get(name).asText();
  }

  static boolean flag(JsonNode node, String name) {
    require(node.path(name).isBoolean(), name + " is neither true nor false");
    return node.get(name).asBoolean();
  }

  static JsonNode object(JsonNode node, String name) {
    require(node.path(name).isObject(), name + " is no JSON object");
    return node.get(name);
  }

  static JsonNode list(JsonNode node, String name) {
    require(node.path(name).isArray(), name + " is no list");
    return node.get(name);
  }

  static void require(boolean holds, String problem) {
    if (!holds) {
      throw new IllegalArgumentException(problem);
    }
  }
}
