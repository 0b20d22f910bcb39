package io.eoskafka.config;

import java.util.Locale;
import java.util.Map;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The options of a source, checked. Each precedence and default is stated here and nowhere else.
 *
 * @param strategy exactly one of {@code subscribe}, {@code subscribePattern}, {@code assign}
 * @param strategyValue the value given for it
 * @param groupId {@code kafka.group.id}, or null: then it is derived from the checkpoint
 * @param groupIdPrefix the prefix of a derived group id
 * @param starting where a new query begins: {@code startingTimestamp}, {@code
 *     startingOffsetsByTimestamp}, {@code startingOffsets}
 * @param ending where a batch query ends, likewise
 * @param isLatestWithoutMatch whether a partition without a record at or after its starting time
 *     begins at its end ({@code startingOffsetsByTimestampStrategy=latest}); otherwise that is an
 *     error
 * @param limits the limits of what a batch reads
 * @param fetchOffset how often requests for topic offsets are retried
 * @param slots how many tasks share the partitions, or empty: default parallelism
 * @param split whether partitions are split for more tasks
 * @param isShared {@code ownership=shared}: other drivers may be in the group
 * @param isHandover whether it takes over from the drivers that are in the group
 * @param readCommitted whether records of open and aborted transactions are hidden (the default)
 * @param pollTimeoutMs how long a task waits for a record that must exist, in milliseconds
 */
public record SourceOptions(
    ClientSettings client,
    Strategy strategy,
    String strategyValue,
    String groupId,
    String groupIdPrefix,
    Bound starting,
    Bound ending,
    boolean isLatestWithoutMatch,
    BatchLimits limits,
    Retries fetchOffset,
    boolean includeHeaders,
    boolean failOnDataLoss,
    boolean readCommitted,
    OptionalInt slots,
    Split split,
    boolean isShared,
    boolean isHandover,
    long pollTimeoutMs) {

  /** How topics are selected. */
  public enum Strategy {
    SUBSCRIBE("subscribe"),
    SUBSCRIBE_PATTERN("subscribePattern"),
    ASSIGN("assign");

    private final String option;

    Strategy(String option) {
      this.option = option;
    }
  }

  /**
   * Where reading begins or ends. The first of these that is given counts.
   *
   * @param timestamp for all partitions, in milliseconds since 1970, or empty
   * @param timestamps by partition, in the JSON form of offsets, or null
   * @param offsets {@code earliest}, {@code latest} or the built-in connector's JSON, or null
   */
  public record Bound(OptionalLong timestamp, String timestamps, String offsets) {

    private static Bound starting(Values values, CaseInsensitiveStringMap options) {
      return new Bound(
          values.notNegative("startingTimestamp"),
          options.get("startingOffsetsByTimestamp"),
          named(options.get("startingOffsets")));
    }

    private static Bound ending(Values values, CaseInsensitiveStringMap options) {
      return new Bound(
          values.notNegative("endingTimestamp"),
          options.get("endingOffsetsByTimestamp"),
          named(options.get("endingOffsets")));
    }

    private static String named(String offsets) {
      String lower = offsets == null ? "" : offsets.trim().toLowerCase(Locale.ROOT);
      return lower.equals("latest") || lower.equals("earliest") ? lower : offsets;
    }

    /** Whether none of its options is given. */
    public boolean isEmpty() {
      return !isByTime() && offsets == null;
    }

    public boolean isByTime() {
      return timestamp.isPresent() || timestamps != null;
    }

    /** Whether it consists of explicit offsets. */
    public boolean isExplicit() {
      return !isByTime()
          && offsets != null
          && !offsets.equals("earliest")
          && !offsets.equals("latest");
    }

    /** This bound, or the named offsets if neither times nor offsets are given. */
    public Bound or(String name) {
      return isEmpty() ? new Bound(timestamp, timestamps, name) : this;
    }
  }

  /** How often something is tried in total, and how long to wait in between. */
  public record Retries(long attempts, long intervalMs) {}

  /**
   * The limits of what a batch reads. They do not apply to batch queries; real-time mode refuses
   * them.
   *
   * @param maxOffsets {@code maxOffsetsPerTrigger}: the maximum number of offsets, over all
   *     partitions
   * @param maxOffsetsPerPartition the maximum number of offsets of each partition
   * @param minOffsets {@code minOffsetsPerTrigger}: a batch waits for this number of records, or
   *     empty
   * @param maxTriggerDelayMs but no longer than this, once there is a record
   */
  public record BatchLimits(
      OptionalLong maxOffsets,
      OptionalLong maxOffsetsPerPartition,
      OptionalLong minOffsets,
      long maxTriggerDelayMs) {

    /** The options that set a limit, for messages. */
    public static final String NAMES =
        "minOffsetsPerTrigger, maxOffsetsPerTrigger and maxOffsetsPerPartition";

    public boolean isNone() {
      return maxOffsets.isEmpty() && maxOffsetsPerPartition.isEmpty() && minOffsets.isEmpty();
    }

    private static BatchLimits parse(Values values) {
      OptionalLong max = values.positive("maxOffsetsPerTrigger");
      OptionalLong min = values.notNegative("minOffsetsPerTrigger");
      if (min.isPresent() && max.isPresent() && min.getAsLong() > max.getAsLong()) {
        throw values.invalid("minOffsetsPerTrigger", "at most maxOffsetsPerTrigger");
      }
      return new BatchLimits(
          max,
          values.positive("maxOffsetsPerPartition"),
          min,
          values.duration("maxTriggerDelay", "15m"));
    }
  }

  /**
   * How a batch's input is split into more tasks than there are partitions.
   *
   * @param minPartitions the minimum number of tasks, as far as there are records; 0 for no minimum
   * @param maxRecords the maximum number of offsets for a task; 0 for no maximum
   */
  public record Split(int minPartitions, long maxRecords) {
    public static final Split NONE = new Split(0, 0);

    public boolean isNone() {
      return equals(NONE);
    }

    private static Split parse(Values values, boolean isShared, OptionalInt slots) {
      int min = values.positiveInt("minPartitions").orElse(0);
      long max = values.positive("maxRecordsPerPartition").orElse(0);
      if (isShared && min > 0) {
        throw values.invalid("minPartitions", SHARED_SPLIT);
      }
      if (isShared && max > 0) {
        throw values.invalid("maxRecordsPerPartition", SHARED_SPLIT);
      }
      if (slots.isPresent() && min > slots.getAsInt()) {
        throw values.invalid(
            "minPartitions",
            "at most "
                + slots.getAsInt()
                + ", the value of slots; leave slots out to have as many tasks as minPartitions says");
      }
      return new Split(min, max);
    }
  }

  private static final String SHARED_SPLIT =
      "left out with ownership=shared, because one task then reads a whole partition; set slots to"
          + " have more tasks";

  private static final long DEFAULT_POLL_TIMEOUT_MS = 120_000;

  public static SourceOptions parse(CaseInsensitiveStringMap options) {
    OptionTable.check("source", options.asCaseSensitiveMap().keySet());
    Values values = new Values(options);
    Strategy chosen = null;
    for (Strategy candidate : Strategy.values()) {
      if (options.containsKey(candidate.option)) {
        if (chosen != null) {
          throw values.invalid(
              candidate.option,
              "left out, because only one of subscribe, subscribePattern and assign can be set");
        }
        chosen = candidate;
      }
    }
    if (chosen == null) {
      throw EosKafkaException.of(
          "EOSKAFKA_OPTION_MISSING",
          Map.of("option", "subscribe, subscribePattern or assign", "side", "source"));
    }
    values.required("kafka.bootstrap.servers", "source");
    if (Stream.of(options.get(chosen.option).split(",")).allMatch(String::isBlank)) {
      // As a pattern it would match every topic.
      throw values.invalid(chosen.option, "a value that is not empty");
    }
    String ownership = values.choice("ownership", "exclusive", "exclusive", "shared");
    if (ownership.equals("shared") && !options.containsKey("kafka.group.id")) {
      throw EosKafkaException.of(
          "EOSKAFKA_OPTION_MISSING",
          Map.of("option", "kafka.group.id, which its drivers share", "side", "source"));
    }
    if (ownership.equals("shared") && chosen == Strategy.ASSIGN) {
      throw values.invalid(
          "ownership",
          "exclusive with assign, because a shared group distributes all partitions of a topic");
    }
    boolean handover = values.bool("handover", false);
    if (handover && !ownership.equals("shared")) {
      throw values.invalid("handover", "false unless ownership=shared is set");
    }
    String protocol = values.choice("kafka.group.protocol", "classic", "classic", "consumer");
    if (protocol.equals("consumer") && !ownership.equals("shared")) {
      throw values.invalid(
          "kafka.group.protocol",
          "classic unless ownership=shared is set: with ownership=exclusive, a restarted driver takes"
              + " its former place in the group at once, and the consumer protocol does not allow"
              + " that before the session of the former member has ended");
    }
    BatchLimits limits = BatchLimits.parse(values);
    String isolation =
        values.choice(
            "kafka.isolation.level", "read_committed", "read_committed", "read_uncommitted");
    String strategy =
        values.choice("startingOffsetsByTimestampStrategy", "error", "error", "latest");
    OptionalInt slots = values.positiveInt("slots");
    boolean isShared = ownership.equals("shared");
    SourceOptions parsed =
        new SourceOptions(
            new ClientSettings(options),
            chosen,
            options.get(chosen.option).trim(),
            options.get("kafka.group.id"),
            options.getOrDefault("groupIdPrefix", "eoskafka"),
            Bound.starting(values, options),
            Bound.ending(values, options),
            strategy.equals("latest"),
            limits,
            new Retries(
                values.positive("fetchOffset.numRetries").orElse(3),
                values.notNegative("fetchOffset.retryIntervalMs").orElse(1_000)),
            includeHeaders(options),
            values.bool("failOnDataLoss", true),
            isolation.equals("read_committed"),
            slots,
            Split.parse(values, isShared, slots),
            isShared,
            handover,
            values.positive("kafkaConsumer.pollTimeoutMs").orElse(DEFAULT_POLL_TIMEOUT_MS));
    // Last, so that what this connector says of a setting comes first.
    parsed.client.check("source", ConsumerConfig.configDef());
    return parsed;
  }

  /** Whether the source has the column {@code headers}; asked before the rest is known. */
  public static boolean includeHeaders(CaseInsensitiveStringMap options) {
    return new Values(options).bool("includeHeaders", false);
  }
}
