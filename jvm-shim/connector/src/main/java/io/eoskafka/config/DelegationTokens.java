package io.eoskafka.config;

import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.SparkEnv;

/**
 * Delegation tokens that Spark fetches for the clusters in {@code spark.kafka.clusters}. Its
 * built-in connector logs in with them if a query names no log-in of its own; this connector
 * cannot, because the code that reads them is private to Spark.
 */
final class DelegationTokens {
  private static final String CLUSTERS = "spark.kafka.clusters.";

  private DelegationTokens() {}

  /**
   * @param client the settings of Kafka's client that a user gave
   * @throws EosKafkaException {@code EOSKAFKA_DELEGATION_TOKENS}
   */
  static void refuse(Map<String, String> client) {
    SparkEnv env = SparkEnv.get();
    if (env == null || System.getProperty("java.security.auth.login.config") != null) {
      return;
    }
    Map<String, String> conf = new TreeMap<>();
    Stream.of(env.conf().getAllWithPrefix(CLUSTERS)).forEach(e -> conf.put(e._1(), e._2()));
    refuse(client, conf);
  }

  /**
   * @param clusters the Spark settings with the prefix {@code spark.kafka.clusters.}, without the
   *     prefix
   */
  static void refuse(Map<String, String> client, Map<String, String> clusters) {
    String protocol = client.getOrDefault("security.protocol", "");
    if (clusters.isEmpty()
        || !protocol.startsWith("SASL_")
        || client.containsKey("sasl.jaas.config")) {
      return;
    }
    String names =
        clusters.keySet().stream()
            .map(key -> CLUSTERS + key.split("\\.")[0])
            .distinct()
            .collect(Collectors.joining(", "));
    throw EosKafkaException.of("EOSKAFKA_DELEGATION_TOKENS", Map.of("settings", names));
  }
}
