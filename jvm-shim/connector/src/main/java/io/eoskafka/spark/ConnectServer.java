package io.eoskafka.spark;

import io.eoskafka.config.EosKafkaException;
import java.lang.reflect.Method;
import java.net.URL;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.SparkSession;
import scala.Option;

/**
 * What a Spark Connect server knows of its clients' queries. There a {@code foreachBatch} function
 * runs in its own process, which is another client: the server runs its writes on threads, and
 * before Spark 4.3 in a session, that a batch job of the query's owner may also have.
 *
 * <p>Its classes are found by name, because a session without Connect may not have them.
 */
final class ConnectServer {
  private static final String PACKAGE = "org.apache.spark.sql.connect.";
  private static final String SERVICE = PACKAGE + "service.SparkConnectService$";

  private ConnectServer() {}

  /** Whether the caller runs on behalf of a Spark Connect client. */
  static boolean isCaller() {
    return BatchRows.stack(Thread.currentThread()).anyMatch(name -> name.startsWith(PACKAGE));
  }

  /**
   * The queries that the server knows: those that are running, and those that have ended within the
   * last hour. A function may continue in its process for a while after its query has ended.
   *
   * @throws EosKafkaException {@code EOSKAFKA_WRONG_SPARK} if a platform's own server does not
   *     provide the list
   */
  static List<StreamRun> queries() {
    try {
      Class<?> service = Class.forName(SERVICE);
      Object cache = call(service.getField("MODULE$").get(null), "streamingSessionManager");
      Method all = cache.getClass().getDeclaredMethod("queryCache");
      all.setAccessible(true);
      List<StreamRun> queries = new ArrayList<>();
      for (Object value : ((Map<?, ?>) all.invoke(cache)).values()) {
        Object wrapper = call(value, "query");
        queries.add(MovedClass.STREAM_EXECUTION.view(call(wrapper, "streamingQuery")));
      }
      return queries;
    } catch (ReflectiveOperationException e) {
      throw SparkCheck.wrong(
          SparkVersion.running(),
          "its server of Spark Connect does not list its queries, without which a batch write is not"
              + " known to be none of a foreachBatch function");
    }
  }

  /**
   * Whether a client has added this jar to its session only. Then the server loads the classes for
   * the session's threads alone: Spark's own threads cannot read the tasks' reports, and fail a
   * batch that has taken effect.
   */
  static boolean hasAddedThisJar() {
    Option<SparkSession> session = SparkSession.getActiveSession();
    if (session.isEmpty() || !SparkVersion.running().isAtLeast(4, 0)) {
      return false;
    }
    String jar = ConnectServer.class.getProtectionDomain().getCodeSource().getLocation().getPath();
    try {
      Iterable<?> added =
          ScalaCollections.list(
              (scala.collection.Iterable<?>)
                  call(call(session.get(), "artifactManager"), "getAddedJars"));
      for (Object each : added) {
        if (((URL) each).getPath().equals(jar)) {
          return true;
        }
      }
      return false;
    } catch (ReflectiveOperationException e) {
      // A platform that has no such sessions has no such jars.
      return false;
    }
  }

  private static Object call(Object target, String method) throws ReflectiveOperationException {
    Method found = target.getClass().getMethod(method);
    found.setAccessible(true);
    return found.invoke(target);
  }

  /** Whether a session is that of a query, or the one in which the query was started. */
  static boolean isOf(SparkSession session, StreamRun query) {
    return query.sparkSession() == session || StreamRun.sessionOf(query) == session;
  }
}
