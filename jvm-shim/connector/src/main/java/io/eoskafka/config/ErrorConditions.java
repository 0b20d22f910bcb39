package io.eoskafka.config;

import static java.util.stream.Collectors.joining;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Collection;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The message templates of {@code spec/errors.json}. */
final class ErrorConditions {
  private static final JsonNode CONDITIONS = Spec.read("errors.json").get("conditions");
  private static final int MOST_NAMED = 10;
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
      matcher.appendReplacement(message, Matcher.quoteReplacement(text(value)));
    }
    return matcher.appendTail(message).toString();
  }

  private static String text(Object value) {
    if (!(value instanceof Collection<?> all)) {
      return value.toString();
    }
    if (all.isEmpty()) {
      return "none";
    }
    String first =
        all.stream().limit(MOST_NAMED).map(Object::toString).sorted().collect(joining(", "));
    return all.size() <= MOST_NAMED ? first : first + " and " + (all.size() - MOST_NAMED) + " more";
  }
}
