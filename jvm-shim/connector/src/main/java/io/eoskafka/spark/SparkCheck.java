package io.eoskafka.spark;

import io.eoskafka.config.EosKafkaException;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.SparkSession;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;
import scala.util.Properties$;

/**
 * Whether the connector can run on this Spark. It uses Spark's internal plan classes, which change
 * between minor versions.
 */
public final class SparkCheck {
  /** Whether a minor version that is newer than all tested ones is accepted. */
  static final String ALLOW_UNTESTED = "spark.eoskafka.allowUntestedSpark";

  private static final String SPARK = "org/apache/spark/";
  private static final int NAMED = 5;
  private static final Logger LOG = LoggerFactory.getLogger(SparkCheck.class);
  private static final Properties BUILD = new Properties();

  static {
    try (InputStream in = SparkCheck.class.getResourceAsStream("/io/eoskafka/build.properties")) {
      BUILD.load(in);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static volatile boolean hasAll;

  private SparkCheck() {}

  /** The version of this jar. */
  public static String version() {
    return BUILD.getProperty("version");
  }

  /**
   * @throws EosKafkaException {@code EOSKAFKA_WRONG_SPARK}, {@code EOSKAFKA_UNTESTED_SPARK}, {@code
   *     EOSKAFKA_JAR_IN_SESSION}
   */
  public static void check() {
    SparkVersion spark = SparkVersion.running();
    refusal(spark, Properties$.MODULE$.versionNumberString(), allowsUntested())
        .ifPresent(
            error -> {
              throw error;
            });
    if (!hasAll) {
      requireAll(spark);
      if (ConnectServer.hasAddedThisJar()) {
        throw EosKafkaException.of("EOSKAFKA_JAR_IN_SESSION", Map.of());
      }
      hasAll = true;
    }
  }

  /**
   * Why a version is not accepted, or empty.
   *
   * @param allowsUntested the value of {@link #ALLOW_UNTESTED}
   */
  static Optional<EosKafkaException> refusal(
      SparkVersion spark, String scala, boolean allowsUntested) {
    if (!isScalaOf(spark, SparkVersion.of(scala))) {
      return Optional.of(wrong(spark, "this one has Scala " + scala));
    }
    if (spark.compareTo(SparkVersion.OLDEST) < 0) {
      return Optional.of(wrong(spark, "this one is older"));
    }
    if (spark.compareTo(SparkVersion.NEWEST) > 0 && !allowsUntested) {
      return Optional.of(
          EosKafkaException.of(
              "EOSKAFKA_UNTESTED_SPARK",
              Map.of(
                  "version", BUILD.getProperty("version"),
                  "newest", SparkVersion.NEWEST.line(),
                  "spark", spark.text(),
                  "setting", ALLOW_UNTESTED)));
    }
    return Optional.empty();
  }

  /** Spark 3.5 comes with either version; the connector uses no method that differs. */
  private static boolean isScalaOf(SparkVersion spark, SparkVersion scala) {
    return scala.line().equals(BUILD.getProperty("scala"))
        || !spark.isAtLeast(4, 0) && scala.line().equals("2.12");
  }

  /** Platforms build their own Spark, so this checks that each class and method exists. */
  private static void requireAll(SparkVersion spark) {
    ClassLoader loader = SparkCheck.class.getClassLoader();
    if (loader.getResource(SPARK + "SparkContext.class") == null) {
      LOG.warn("Spark's class files cannot be read here, so nobody looks what this Spark lacks");
      return;
    }
    Linkage linkage = Linkage.of(loader);
    Set<String> missing = new LinkedHashSet<>(linkage.missingOfMoved(spark));
    missing.addAll(linkage.missingOfNamed(spark));
    missing.addAll(linkage.missing(linkage.loadedIn(spark), name -> name.startsWith(SPARK)));
    if (!missing.isEmpty()) {
      String names = String.join(", ", missing.stream().limit(NAMED).toList());
      String more = missing.size() > NAMED ? " and " + (missing.size() - NAMED) + " more" : "";
      throw wrong(spark, "this one lacks " + names + more);
    }
  }

  static EosKafkaException wrong(SparkVersion spark, String reason) {
    return EosKafkaException.of(
        "EOSKAFKA_WRONG_SPARK",
        Map.of(
            "version", BUILD.getProperty("version"),
            "oldest", SparkVersion.OLDEST.line(),
            "newest", SparkVersion.NEWEST.line(),
            "wantedScala", BUILD.getProperty("scala"),
            "spark", spark.text(),
            "reason", reason));
  }

  private static boolean allowsUntested() {
    Option<SparkSession> session = SparkSession.getActiveSession();
    String ofSession = session.isEmpty() ? "" : session.get().conf().get(ALLOW_UNTESTED, "");
    SparkEnv env = SparkEnv.get();
    String ofApplication = env == null ? "" : env.conf().get(ALLOW_UNTESTED, "");
    return Boolean.parseBoolean(ofSession.isEmpty() ? ofApplication : ofSession);
  }
}
