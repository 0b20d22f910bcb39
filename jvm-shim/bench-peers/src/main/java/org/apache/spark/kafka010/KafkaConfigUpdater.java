package org.apache.spark.kafka010;

import java.util.HashMap;
import java.util.Map;
import scala.Option;
import scala.Tuple2;
import scala.collection.Iterator;

/** Collects the settings of one Kafka client. */
public final class KafkaConfigUpdater {
  private final Map<String, Object> settings = new HashMap<>();

  /**
   * @param module whom the settings are for; the original logs it
   */
  public KafkaConfigUpdater(
      String module, scala.collection.immutable.Map<String, Object> settings) {
    // Not with Scala's converters, which have other names in 2.12 and 2.13.
    Iterator<Tuple2<String, Object>> next = settings.iterator();
    while (next.hasNext()) {
      Tuple2<String, Object> setting = next.next();
      this.settings.put(setting._1(), setting._2());
    }
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
