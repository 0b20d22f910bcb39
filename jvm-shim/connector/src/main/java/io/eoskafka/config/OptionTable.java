package io.eoskafka.config;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;

/**
 * The option names of {@code spec/options.json}. A name that is not supported yet, is never allowed
 * or is misspelt is an error: an option that is silently ignored changes what a job does.
 */
public final class OptionTable {
  private static final JsonNode SPEC = Spec.read("options.json");
  private static final Map<String, JsonNode> BY_NAME = new HashMap<>();
  private static final Set<String> SPARK_OWN = new java.util.HashSet<>();

  static {
    SPEC.get("options").forEach(o -> BY_NAME.put(lower(o.get("name").asText()), o));
    SPEC.get("spark").forEach(o -> SPARK_OWN.add(lower(o.asText())));
  }

  /** A name that differs from a setting's in at most this many letters is a misspelling of it. */
  private static final int MISSPELT = 2;

  private OptionTable() {}

  /**
   * @param side {@code source} or {@code sink}
   * @param names the option names a user gave, in any case
   */
  static void check(String side, Set<String> names) {
    DisallowedOptions.check(names);
    for (String given : names) {
      String name = lower(given);
      if (SPARK_OWN.contains(name) || name.startsWith("asyncprogresstracking")) {
        continue;
      }
      JsonNode option = BY_NAME.get(name);
      if (option == null) {
        if (name.startsWith("kafka.")) {
          continue;
        }
        throw unknown(side, given);
      }
      String canonical = option.get("name").asText();
      boolean mine = isOn(option, side);
      switch (option.get("status").asText()) {
        case "refused" -> {
          if (mine) {
            throw EosKafkaException.of(
                "EOSKAFKA_OPTION_REFUSED",
                Map.of("option", canonical, "instead", option.get("instead").asText()));
          }
        }
        default -> {
          if (!mine && !name.startsWith("kafka.")) {
            throw EosKafkaException.of(
                "EOSKAFKA_OPTION_WRONG_SIDE",
                Map.of(
                    "option",
                    canonical,
                    "side",
                    side,
                    "other",
                    side.equals("source") ? "sink" : "source"));
          }
        }
      }
    }
  }

  /** Whether a property of a table is one of the connector's options. */
  public static boolean isOption(String name) {
    String lower = lower(name);
    return BY_NAME.containsKey(lower) || lower.startsWith("kafka.");
  }

  /**
   * Whether an option applies to one side of a table that is read and written; an unknown option
   * applies to both.
   *
   * @param side {@code source} or {@code sink}
   */
  public static boolean mayBeOn(String side, String name) {
    JsonNode option = BY_NAME.get(lower(name));
    return option == null || isOn(option, side);
  }

  private static EosKafkaException unknown(String side, String given) {
    List<String> candidates = new ArrayList<>();
    BY_NAME
        .values()
        .forEach(
            o -> {
              if (isOn(o, side) && o.get("status").asText().equals("available")) {
                candidates.add(o.get("name").asText());
              }
            });
    String nearest =
        candidates.stream()
            .min(java.util.Comparator.comparingInt(c -> distance(lower(c), lower(given))))
            .orElseThrow();
    return EosKafkaException.of(
        "EOSKAFKA_UNKNOWN_OPTION", Map.of("option", given, "side", side, "nearest", nearest));
  }

  /**
   * Refuses a setting of Kafka's client whose name is nearly one of these.
   *
   * @param setting without {@code kafka.}
   * @throws EosKafkaException {@code EOSKAFKA_UNKNOWN_OPTION}
   */
  static void refuseNearly(String side, String setting, Set<String> known) {
    known.stream()
        .filter(name -> distance(name, setting) <= MISSPELT)
        .findFirst()
        .ifPresent(
            nearest -> {
              throw EosKafkaException.of(
                  "EOSKAFKA_UNKNOWN_OPTION",
                  Map.of(
                      "option", "kafka." + setting, "side", side, "nearest", "kafka." + nearest));
            });
  }

  private static boolean isOn(JsonNode option, String side) {
    for (JsonNode s : option.get("sides")) {
      if (s.asText().equals(side)) {
        return true;
      }
    }
    return false;
  }

  /** Levenshtein's edit distance. */
  private static int distance(String a, String b) {
    int[] row = new int[b.length() + 1];
    for (int j = 0; j <= b.length(); j++) {
      row[j] = j;
    }
    for (int i = 1; i <= a.length(); i++) {
      int diagonal = row[0];
      row[0] = i;
      for (int j = 1; j <= b.length(); j++) {
        int substituted = diagonal + (a.charAt(i - 1) == b.charAt(j - 1) ? 0 : 1);
        diagonal = row[j];
        row[j] = Math.min(substituted, Math.min(row[j - 1], row[j]) + 1);
      }
    }
    return row[b.length()];
  }

  private static String lower(String name) {
    return name.toLowerCase(Locale.ROOT);
  }
}
