package io.eoskafka.config;

import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalInt;
import java.util.OptionalLong;
import org.apache.spark.network.util.JavaUtils;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Typed values of options; an error names the option and what it must be. */
record Values(CaseInsensitiveStringMap options) {

  void required(String option, String side) {
    String value = options.get(option);
    if (value == null || value.isBlank()) {
      throw EosKafkaException.of("EOSKAFKA_OPTION_MISSING", Map.of("option", option, "side", side));
    }
  }

  OptionalLong positive(String option) {
    return atLeast(1, option, "a whole number above 0");
  }

  OptionalInt positiveInt(String option) {
    OptionalLong value = positive(option);
    if (value.isEmpty()) {
      return OptionalInt.empty();
    }
    if (value.getAsLong() > Integer.MAX_VALUE) {
      throw invalid(option, "at most " + Integer.MAX_VALUE);
    }
    return OptionalInt.of((int) value.getAsLong());
  }

  OptionalLong notNegative(String option) {
    return atLeast(0, option, "a whole number, 0 or more");
  }

  private OptionalLong atLeast(long least, String option, String expected) {
    String value = options.get(option);
    if (value == null) {
      return OptionalLong.empty();
    }
    try {
      long number = Long.parseLong(value.trim());
      if (number >= least) {
        return OptionalLong.of(number);
      }
    } catch (NumberFormatException e) {
      // Reported below, with the value.
    }
    throw invalid(option, expected);
  }

  /** A time with a unit, as in Spark's settings, in milliseconds. */
  long duration(String option, String fallback) {
    try {
      long ms = JavaUtils.timeStringAsMs(options.getOrDefault(option, fallback).trim());
      if (ms >= 0) {
        return ms;
      }
    } catch (IllegalArgumentException e) {
      // Reported below, with the value.
    }
    throw invalid(option, "a time with its unit, such as 90s or 15m");
  }

  /** One of these choices, in any case; for a setting of Kafka's clients, exactly as written. */
  String choice(String option, String fallback, String... choices) {
    String given = options.getOrDefault(option, fallback).trim();
    String chosen = option.startsWith("kafka.") ? given : given.toLowerCase(Locale.ROOT);
    if (!List.of(choices).contains(chosen)) {
      String last = choices[choices.length - 1];
      String others = String.join(", ", List.of(choices).subList(0, choices.length - 1));
      throw invalid(option, others.isEmpty() ? last : others + " or " + last);
    }
    return chosen;
  }

  boolean bool(String option, boolean fallback) {
    String value = options.get(option);
    if (value == null) {
      return fallback;
    }
    return switch (value.trim().toLowerCase(Locale.ROOT)) {
      case "true" -> true;
      case "false" -> false;
      default -> throw invalid(option, "true or false");
    };
  }

  EosKafkaException invalid(String option, String expected) {
    return EosKafkaException.of(
        "EOSKAFKA_OPTION_INVALID",
        Map.of("option", option, "value", options.get(option), "expected", expected));
  }
}
