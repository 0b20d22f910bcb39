package io.eoskafka;

import io.eoskafka.source.RestingConsumers;
import io.eoskafka.task.TaskTransaction;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.SparkPlugin;

/**
 * Set by {@code eoskafka.configure}. On executors it closes resting clients at the end; on the
 * driver it has nothing to do yet.
 */
public final class EosKafkaPlugin implements SparkPlugin {
  @Override
  public DriverPlugin driverPlugin() {
    return null;
  }

  @Override
  public ExecutorPlugin executorPlugin() {
    return new ExecutorPlugin() {
      @Override
      public void shutdown() {
        TaskTransaction.closeResting();
        RestingConsumers.close();
      }
    };
  }
}
