package io.eoskafka.spark;

import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.package$;

/**
 * A version of Spark. Platforms append their own text, such as {@code 4.1.1-amzn-0} or {@code
 * 4.0.1.dev}.
 *
 * @param text as Spark reports it
 */
public record SparkVersion(int major, int minor, String text) implements Comparable<SparkVersion> {
  private static final Pattern FORM = Pattern.compile("(\\d{1,4})\\.(\\d{1,4})(?:[^\\d].*)?");

  /** The oldest and the newest minor version that the tests run on. */
  static final SparkVersion OLDEST = of("3.5");

  static final SparkVersion NEWEST = of("4.3");

  private static final SparkVersion RUNNING = of(package$.MODULE$.SPARK_VERSION());

  /** A text without two numbers becomes version 0.0, which is older than every other version. */
  static SparkVersion of(String text) {
    Matcher matcher = FORM.matcher(text.strip());
    return matcher.matches()
        ? new SparkVersion(
            Integer.parseInt(matcher.group(1)), Integer.parseInt(matcher.group(2)), text)
        : new SparkVersion(0, 0, text);
  }

  static SparkVersion running() {
    return RUNNING;
  }

  /** Whether it keeps the state of a running batch in a separate class. */
  boolean hasBatchContext() {
    return isAtLeast(4, 0);
  }

  /** Whether it has real-time mode. */
  public static boolean hasRealTime() {
    return running().isAtLeast(4, 1);
  }

  /** Whether it refuses a checkpoint with state store format 1 in real-time mode. */
  public static boolean refusesCheckpointV1() {
    return running().isAtLeast(4, 3);
  }

  /** Whether rows have their binary columns as views. */
  public static boolean hasBinaryView() {
    return running().isAtLeast(4, 2);
  }

  boolean isAtLeast(int major, int minor) {
    return this.major > major || this.major == major && this.minor >= minor;
  }

  /** By major and minor version. */
  @Override
  public int compareTo(SparkVersion other) {
    return major != other.major
        ? Integer.compare(major, other.major)
        : Integer.compare(minor, other.minor);
  }

  /** Major and minor version, such as 4.1. */
  String line() {
    return major + "." + minor;
  }
}
