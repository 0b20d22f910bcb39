package io.eoskafka.spark;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.List;
import java.util.stream.Stream;

/**
 * A method of Spark that is called by its name, because its signature differs between the versions:
 * a sequence has another type in Scala 2.12, and the session another class in Spark 3.5.
 */
enum NamedMethod {
  CHILDREN_OF_PLAN("org.apache.spark.sql.execution.SparkPlan", "children"),
  CHILDREN("org.apache.spark.sql.catalyst.plans.logical.LogicalPlan", "children"),
  SUBQUERIES("org.apache.spark.sql.catalyst.plans.logical.LogicalPlan", "subqueries"),
  DEPENDENCIES("org.apache.spark.rdd.RDD", "dependencies"),
  INPUT_PARTITIONS(
      "org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanExecBase", "inputPartitions"),
  ROWS("org.apache.spark.sql.execution.LocalTableScanExec", "rows"),
  SESSION("org.apache.spark.sql.execution.QueryExecution", "sparkSession"),
  POST_METRICS("org.apache.spark.sql.execution.metric.SQLMetrics", "postDriverMetricUpdates"),
  HADOOP_SETTINGS("org.apache.spark.sql.internal.SessionState", "newHadoopConf"),
  SESSION_STATE("org.apache.spark.sql.classic.SparkSession", "sessionState") {
    @Override
    String ownerIn(SparkVersion version) {
      return sessionIn(version);
    }
  },
  SHARED_STATE("org.apache.spark.sql.classic.SparkSession", "sharedState") {
    @Override
    String ownerIn(SparkVersion version) {
      return sessionIn(version);
    }
  };

  private final String owner;
  private final String method;

  NamedMethod(String owner, String method) {
    this.owner = owner;
    this.method = method;
  }

  /** The class that has this method in a version. */
  String ownerIn(SparkVersion version) {
    return owner;
  }

  private static String sessionIn(SparkVersion version) {
    return version.isAtLeast(4, 0)
        ? "org.apache.spark.sql.classic.SparkSession"
        : "org.apache.spark.sql.SparkSession";
  }

  String method() {
    return method;
  }

  /** Calls this method, without parameters, on an object. */
  Object of(Object target) {
    try {
      return call(target.getClass().getMethod(method), target);
    } catch (NoSuchMethodException e) {
      throw missing(e);
    }
  }

  /**
   * Calls this method, without parameters, on an object; it returns a sequence.
   *
   * @param type of its elements
   */
  <T> List<T> listOf(Object target, Class<T> type) {
    return ScalaCollections.list((scala.collection.Iterable<?>) of(target)).stream()
        .<T>map(type::cast)
        .toList();
  }

  /** Calls the static method, of which there is one. */
  Object callStatic(Object... arguments) {
    try {
      Class<?> type = Class.forName(ownerIn(SparkVersion.running()));
      Method found =
          Stream.of(type.getMethods())
              .filter(each -> each.getName().equals(method))
              .findFirst()
              .orElseThrow(() -> missing(null));
      return call(found, null, arguments);
    } catch (ClassNotFoundException e) {
      throw missing(e);
    }
  }

  private LinkageError missing(Throwable cause) {
    return new LinkageError(ownerIn(SparkVersion.running()) + "." + method, cause);
  }

  private static Object call(Method method, Object target, Object... arguments) {
    try {
      return method.invoke(target, arguments);
    } catch (InvocationTargetException e) {
      throw unchecked(e.getCause());
    } catch (IllegalAccessException e) {
      throw new IllegalStateException(e);
    }
  }

  private static RuntimeException unchecked(Throwable error) {
    if (error instanceof RuntimeException unchecked) {
      return unchecked;
    }
    if (error instanceof Error serious) {
      throw serious;
    }
    return new IllegalStateException(error);
  }
}
