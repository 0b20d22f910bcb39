package io.eoskafka.identity;

import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * What the metadata of a committed offset says: who committed it, in which scope, for which batch.
 *
 * <p>Its text form has at most 120 bytes and never changes (Python reads it too):
 *
 * <pre>{@code eoskafka:<version>:<scope>:<identity>:<topicId>:<sinkCluster>:<epoch>}</pre>
 *
 * @param scope which log is authoritative after a restart
 * @param identity 22 characters, of {@link Identity}
 * @param topicId the topic's id when the offset was committed; if it differs, the topic was
 *     recreated
 * @param sinkCluster the sink's cluster, by {@link #clusterOf}, or {@code -} if it is the source's
 *     own
 * @param epoch the micro-batch, or -1 before the first
 */
public record Stamp(Scope scope, String identity, String topicId, String sinkCluster, long epoch) {

  public static final int VERSION = 1;
  public static final String SAME_CLUSTER = "-";
  public static final int MAX_BYTES = 120;

  /** Who decides where the next batch starts. */
  public enum Scope {
    /** The group: offsets and records were committed in one transaction. */
    TASK('t'),
    /** The decision if Spark runs that epoch again, otherwise the group; Spark's log must agree. */
    EPOCH('e'),
    /** Spark's log: the sink was not ours. */
    SOURCE_ONLY('s');

    private final char code;

    Scope(char code) {
      this.code = code;
    }
  }

  /** What kind of text the metadata of an offset is. */
  public enum Kind {
    OURS,
    NONE,
    OLDER_PROTOCOL,
    NEWER_PROTOCOL
  }

  private static final Pattern SHORT_CLUSTER = Pattern.compile("[A-Za-z0-9_-]{2,32}");
  private static final String MARK = "eoskafka:";
  private static final Pattern ANY_VERSION = Pattern.compile(MARK + "(\\d{1,9}):");
  private static final Pattern FORM =
      Pattern.compile(
          "eoskafka:(\\d{1,9}):([tes]):("
              + Identity.DIGEST_PATTERN
              + "):([A-Za-z0-9_-]{1,22}):"
              + "([A-Za-z0-9_-]{1,32}):(-?\\d{1,18})");

  /**
   * How a stamp names a sink's cluster: by its id, or by a digest of an id that is not so simple.
   */
  public static String clusterOf(String clusterId) {
    return SHORT_CLUSTER.matcher(clusterId).matches() ? clusterId : Identity.digest(clusterId);
  }

  /** Whether a batch of our sink has committed it, not a batch of another sink, nor a start. */
  public boolean tookEffect() {
    return scope != Scope.SOURCE_ONLY && epoch >= 0;
  }

  public String encode() {
    return MARK
        + VERSION
        + ':'
        + scope.code
        + ':'
        + identity
        + ':'
        + topicId
        + ':'
        + sinkCluster
        + ':'
        + epoch;
  }

  /** Tells a stamp of this protocol version from other versions and from text that is no stamp. */
  public static Kind kindOf(String metadata) {
    if (metadata == null || !metadata.startsWith(MARK)) {
      return Kind.NONE;
    }
    if (parse(metadata).isPresent()) {
      return Kind.OURS;
    }
    Matcher version = ANY_VERSION.matcher(metadata);
    boolean isOlder = version.lookingAt() && Integer.parseInt(version.group(1)) < VERSION;
    return isOlder ? Kind.OLDER_PROTOCOL : Kind.NEWER_PROTOCOL;
  }

  /** The stamp, or empty if the metadata is not a stamp of this protocol version. */
  public static Optional<Stamp> parse(String metadata) {
    Matcher m = FORM.matcher(metadata == null ? "" : metadata);
    if (!m.matches() || Integer.parseInt(m.group(1)) != VERSION) {
      return Optional.empty();
    }
    char code = m.group(2).charAt(0);
    for (Scope scope : Scope.values()) {
      if (scope.code == code) {
        return Optional.of(
            new Stamp(scope, m.group(3), m.group(4), m.group(5), Long.parseLong(m.group(6))));
      }
    }
    return Optional.empty();
  }
}
