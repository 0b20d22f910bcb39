package io.eoskafka.config;

import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.SparkSession;
import scala.Option;

/**
 * The settings of Kafka's client that Spark's administrator forbids users to set ({@code
 * spark.sql.kafka.disallowedOptions}, Spark 4.3). Only Spark's built-in connector reads the list by
 * itself.
 *
 * <p>Before Spark 4.3 the list is an ordinary setting, which a session can change. So the list with
 * which the application was started counts as well as the session's.
 */
final class DisallowedOptions {
  static final String SETTING = "spark.sql.kafka.disallowedOptions";

  private static final String PREFIX = "kafka.";

  private DisallowedOptions() {}

  /**
   * @param names the option names a user gave, in any case
   * @throws EosKafkaException {@code EOSKAFKA_OPTION_DISALLOWED}
   */
  static void check(Set<String> names) {
    check(names, ofSession() + "," + ofApplication());
  }

  /**
   * @param list comma-separated names, with or without {@code kafka.}
   */
  static void check(Set<String> names, String list) {
    Set<String> disallowed =
        Stream.of(list.split(","))
            .map(name -> setting(name.trim()))
            .filter(name -> !name.isEmpty())
            .collect(Collectors.toSet());
    for (String given : names) {
      if (lower(given).startsWith(PREFIX) && disallowed.contains(setting(given))) {
        throw EosKafkaException.of(
            "EOSKAFKA_OPTION_DISALLOWED",
            Map.of("option", PREFIX + setting(given), "setting", SETTING));
      }
    }
  }

  /** Spark refuses a list whose names have the prefix, but only since 4.3. */
  private static String setting(String name) {
    String lower = lower(name);
    return lower.startsWith(PREFIX) ? lower.substring(PREFIX.length()) : lower;
  }

  private static String ofSession() {
    Option<SparkSession> session = SparkSession.getActiveSession();
    if (session.isEmpty()) {
      session = SparkSession.getDefaultSession();
    }
    return session.isEmpty() ? "" : session.get().conf().get(SETTING, "");
  }

  private static String ofApplication() {
    SparkEnv env = SparkEnv.get();
    return env == null ? "" : env.conf().get(SETTING, "");
  }

  private static String lower(String name) {
    return name.toLowerCase(Locale.ROOT);
  }
}
