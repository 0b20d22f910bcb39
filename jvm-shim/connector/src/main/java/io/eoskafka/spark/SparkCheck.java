package io.eoskafka.spark;

import io.eoskafka.config.EosKafkaException;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.Map;
import java.util.Properties;
import org.apache.spark.package$;
import scala.util.Properties$;

/** Whether this Spark is one the jar was built for. */
public final class SparkCheck {
  private static final Properties BUILD = new Properties();

  static {
    try (InputStream in = SparkCheck.class.getResourceAsStream("/io/eoskafka/build.properties")) {
      BUILD.load(in);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private SparkCheck() {}

  /**
   * @throws EosKafkaException {@code EOSKAFKA_WRONG_SPARK}: the connector stands on Spark's
   *     internal plan classes, which move between minor versions
   */
  public static void check() {
    String spark = package$.MODULE$.SPARK_VERSION();
    String scala = Properties$.MODULE$.versionNumberString();
    if (!minor(spark).equals(minor(BUILD.getProperty("spark")))
        || !minor(scala).equals(BUILD.getProperty("scala"))) {
      throw EosKafkaException.of(
          "EOSKAFKA_WRONG_SPARK",
          Map.of(
              "version", BUILD.getProperty("version"),
              "wantedSpark", minor(BUILD.getProperty("spark")),
              "wantedScala", BUILD.getProperty("scala"),
              "spark", spark,
              "scala", scala));
    }
  }

  private static String minor(String version) {
    String[] parts = version.split("\\.");
    return parts[0] + "." + parts[1];
  }
}
