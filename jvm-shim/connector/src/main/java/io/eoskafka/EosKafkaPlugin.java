package io.eoskafka;

import io.eoskafka.source.RestingConsumers;
import io.eoskafka.task.FenceLeases;
import io.eoskafka.task.TaskTransaction;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;

/**
 * Set by {@code eoskafka.configure}. On executors it closes resting clients at the end; tasks of a
 * shared group ask their driver through it for the fence.
 */
public final class EosKafkaPlugin implements SparkPlugin {
  @Override
  public DriverPlugin driverPlugin() {
    return new DriverPlugin() {
      @Override
      public Map<String, String> init(SparkContext spark, PluginContext context) {
        FenceLeases.install();
        return Map.of();
      }

      @Override
      public Object receive(Object message) {
        return FenceLeases.answer((String) message);
      }
    };
  }

  @Override
  public ExecutorPlugin executorPlugin() {
    return new ExecutorPlugin() {
      @Override
      public void init(PluginContext context, Map<String, String> ofDriver) {
        FenceLeases.connect(context);
      }

      @Override
      public void shutdown() {
        TaskTransaction.closeResting();
        RestingConsumers.close();
      }
    };
  }
}
