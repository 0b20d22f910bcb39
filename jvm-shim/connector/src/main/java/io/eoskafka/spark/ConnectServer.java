package io.eoskafka.spark;

import java.lang.reflect.Method;
import java.net.URL;
import org.apache.spark.sql.SparkSession;
import scala.Option;

/**
 * What the connector asks of a server of Spark Connect. Its classes are called by their names,
 * because a session without Connect need not have them.
 */
final class ConnectServer {
  private ConnectServer() {}

  /**
   * Whether a client has added this jar to its session, and only there. Then the server loads the
   * classes for the session's threads alone: Spark's own cannot read what tasks report, and fail a
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
}
