package org.apache.spark.kafka010;

import java.util.HashMap;
import java.util.Map;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** Collects the settings of one Kafka client. */
public final class KafkaConfigUpdater {
  private final Map<String, Object> settings;

  /**
   * @param module whom the settings are for; the original logs it
   */
  public KafkaConfigUpdater(
      String module, scala.collection.immutable.Map<String, Object> settings) {
    this.settings = new HashMap<>(CollectionConverters.asJava(settings));
  }

  public KafkaConfigUpdater set(String name, Object value) {
    settings.put(name, value);
    return this;
  }

  public KafkaConfigUpdater setIfUnset(String name, Object value) {
    settings.putIfAbsent(name, value);
    return this;
  }

  public KafkaConfigUpdater setAuthenticationConfigIfNeeded() {
    return this;
  }

  /**
   * @param tokenCluster always empty here
   */
  public KafkaConfigUpdater setAuthenticationConfigIfNeeded(Option<?> tokenCluster) {
    return this;
  }

  public Map<String, Object> build() {
    return settings;
  }
}
