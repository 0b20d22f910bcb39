package io.eoskafka.config;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The message templates of {@code spec/errors.json}. */
final class ErrorConditions {
  private static final JsonNode CONDITIONS = Spec.read("errors.json").get("conditions");
  private static final Pattern PLACEHOLDER = Pattern.compile("<([a-zA-Z]+)>");

  private ErrorConditions() {}

  static String message(String condition, Map<String, ?> values) {
    JsonNode entry = CONDITIONS.get(condition);
    if (entry == null) {
      throw new IllegalArgumentException("errors.json has no condition " + condition);
    }
    Matcher matcher = PLACEHOLDER.matcher(entry.get("message").asText());
    StringBuilder message = new StringBuilder();
    while (matcher.find()) {
      Object value = values.get(matcher.group(1));
      if (value == null) {
        throw new IllegalArgumentException(condition + " needs a value for " + matcher.group());
      }
      matcher.appendReplacement(message, Matcher.quoteReplacement(value.toString()));
    }
    return matcher.appendTail(message).toString();
  }
}
