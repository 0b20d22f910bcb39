package io.eoskafka;

import io.eoskafka.decision.EpochSessions;
import io.eoskafka.source.RestingConsumers;
import io.eoskafka.spark.FunctionQueries;
import io.eoskafka.spark.RunningQuery;
import io.eoskafka.spark.SparkCheck;
import io.eoskafka.task.FenceLeases;
import io.eoskafka.task.SlotProducers;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.util.ShutdownHookManager;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;

/**
 * Set by {@code eoskafka.configure}. On executors it closes idle clients at the end, and tasks of a
 * shared group ask their driver for the fence through it. If the driver's JVM has to shut down
 * (SIGTERM), it ends queries in order before Spark stops its context: they end their transactions
 * and leave their groups.
 */
public final class EosKafkaPlugin implements SparkPlugin {
  /** Spark stops its context, and with it all tasks, at the file systems' priority plus 30. */
  private static final int BEFORE_SPARKS = FileSystem.SHUTDOWN_HOOK_PRIORITY + 50;

  /** Less than the 30 s that Kubernetes gives a process between SIGTERM and SIGKILL. */
  private static final Duration END_WITHIN = Duration.ofSeconds(15);

  /**
   * An application setting from which a Spark Connect client learns that jar and plugin are set up.
   */
  private static final String VERSION = "spark.eoskafka.version";

  private static final AtomicBoolean IS_HOOKED = new AtomicBoolean();

  @Override
  public DriverPlugin driverPlugin() {
    return new DriverPlugin() {
      @Override
      public Map<String, String> init(SparkContext spark, PluginContext context) {
        FenceLeases.install();
        context.conf().set(VERSION, SparkCheck.version());
        spark.addSparkListener(FunctionQueries.listener());
        if (IS_HOOKED.compareAndSet(false, true)) {
          ShutdownHookManager.get()
              .addShutdownHook(
                  () -> EpochSessions.closeAllBut(RunningQuery.interruptAll(END_WITHIN)),
                  BEFORE_SPARKS,
                  2 * END_WITHIN.toSeconds(),
                  TimeUnit.SECONDS);
        }
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
        SlotProducers.closeResting();
        RestingConsumers.close();
      }
    };
  }
}
