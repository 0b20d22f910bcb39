package io.eoskafka.spark;

import java.lang.reflect.Method;
import java.util.List;
import java.util.stream.Stream;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetrics;

/** Shows what the driver has counted in Spark's SQL view. */
final class DriverMetrics {
  /** Its sequence has another type with Scala 2.12. */
  private static final Method POST =
      Stream.of(SQLMetrics.class.getMethods())
          .filter(method -> method.getName().equals("postDriverMetricUpdates"))
          .findFirst()
          .orElseThrow(() -> new NoSuchMethodError("SQLMetrics.postDriverMetricUpdates"));

  private DriverMetrics() {}

  static void post(SparkContext spark, String execution, List<SQLMetric> changed) {
    try {
      POST.invoke(null, spark, execution, ScalaCollections.sequence(changed));
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }
}
