package io.eoskafka.config;

import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.stream.Stream;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The options of a sink, checked.
 *
 * @param topic the topic of every record, or null: then each row names its topic. The option takes
 *     precedence over the column, as in the built-in connector
 * @param transactionTimeout {@code kafka.transaction.timeout.ms}, if given: a task must end within
 *     it; in epoch scope, a batch
 * @param commitInterval how often a task commits what it has done so far, in milliseconds, if given
 * @param recoveryReserve how much of the transaction timeout is kept for a restart after an epoch's
 *     decision, in milliseconds, if given
 * @param decisionTopic the topic in which epoch scope keeps its decisions
 * @param writeId the name of a batch write
 * @param registerTopics the only topics that may be written to; empty for no such limit
 * @param allowsNonReplayableSources whether the query may read from a source that is known not to
 *     return the same records again
 */
public record SinkOptions(
    ClientSettings client,
    String topic,
    TransactionScope transactionScope,
    String transactionalIdPrefix,
    OptionalInt transactionTimeout,
    OptionalInt commitInterval,
    OptionalInt recoveryReserve,
    String decisionTopic,
    Optional<String> writeId,
    List<String> registerTopics,
    boolean allowsNonReplayableSources) {

  /** Allows a source that cannot return the same records again. */
  public static final String ALLOW_NON_REPLAYABLE = "allowNonReplayableSources";

  /** The topic of decisions, unless the user sets another one. */
  public static final String DEFAULT_DECISION_TOPIC = "__eoskafka_decisions";

  /** The prefix of transactional ids, unless the user sets another one. */
  public static final String DEFAULT_TRANSACTIONAL_ID_PREFIX = "eoskafka";

  /** The scopes that a user may choose. */
  public enum TransactionScope {
    AUTO,
    TASK,
    EPOCH
  }

  /**
   * Five minutes, for task scope: long enough for a large first batch, within the broker's default
   * maximum of 15 minutes. It limits how long a {@code read_committed} consumer is blocked if
   * executors and driver die together and the query is never restarted.
   */
  private static final int TASK_TRANSACTION_TIMEOUT_MS = 300_000;

  private static final int REAL_TIME_COMMIT_INTERVAL_MS = 100;

  public static SinkOptions parse(CaseInsensitiveStringMap options) {
    OptionTable.check("sink", options.asCaseSensitiveMap().keySet());
    Values values = new Values(options);
    values.required("kafka.bootstrap.servers", "sink");
    // Users may set what transactions need anyway.
    values.choice("kafka.acks", "all", "all", "-1");
    values.choice("kafka.enable.idempotence", "true", "true");
    values.positiveInt("kafka.retries");
    values.choice("kafka.max.in.flight.requests.per.connection", "5", "1", "2", "3", "4", "5");
    TransactionScope scope =
        TransactionScope.valueOf(
            values
                .choice("transactionScope", "auto", "auto", "task", "epoch")
                .toUpperCase(Locale.ROOT));
    String prefix = options.getOrDefault("transactionalIdPrefix", DEFAULT_TRANSACTIONAL_ID_PREFIX);
    if (prefix.isBlank()) {
      throw values.invalid("transactionalIdPrefix", "a value that is not empty");
    }
    // The transactional ids of batch jobs have -job after the prefix, and are recognized by it.
    if (prefix.endsWith("-job")) {
      throw values.invalid("transactionalIdPrefix", "a prefix that does not end in -job");
    }
    String decisionTopic = options.getOrDefault("decisionTopic", DEFAULT_DECISION_TOPIC);
    if (decisionTopic.isBlank()) {
      throw values.invalid("decisionTopic", "a value that is not empty");
    }
    if (decisionTopic.equals(topic(options))) {
      throw values.invalid("topic", "another topic than the one of the decisions (decisionTopic)");
    }
    OptionalInt commitInterval = values.positiveInt("commitIntervalMs");
    if (scope == TransactionScope.EPOCH && commitInterval.isPresent()) {
      throw values.invalid(
          "commitIntervalMs",
          "left out with transactionScope=epoch, because a batch then takes effect as a whole");
    }
    SinkOptions parsed =
        new SinkOptions(
            new ClientSettings(options),
            topic(options),
            scope,
            prefix,
            values.positiveInt("kafka.transaction.timeout.ms"),
            commitInterval,
            values.positiveInt("recoveryReserveMs"),
            decisionTopic,
            Optional.ofNullable(options.get("writeId")),
            registerTopics(values, options),
            values.bool(ALLOW_NON_REPLAYABLE, false));
    // Last, so that what this connector says of a setting comes first.
    parsed.client.check("sink", ProducerConfig.configDef());
    return parsed;
  }

  /** Options to settle what an owner has left, if only these are known; no records are written. */
  public static SinkOptions ofOwner(ClientSettings client, String prefix, String decisionTopic) {
    return new SinkOptions(
        client,
        null,
        TransactionScope.EPOCH,
        prefix,
        OptionalInt.empty(),
        OptionalInt.empty(),
        OptionalInt.empty(),
        decisionTopic,
        Optional.empty(),
        List.of(),
        false);
  }

  private static List<String> registerTopics(Values values, CaseInsensitiveStringMap options) {
    String given = options.get("registerTopics");
    if (given == null) {
      return List.of();
    }
    List<String> topics = Stream.of(given.split(",", -1)).map(String::trim).distinct().toList();
    if (topics.stream().anyMatch(String::isEmpty)) {
      throw values.invalid("registerTopics", "a list of topic names, with commas between them");
    }
    String topic = topic(options);
    if (topic != null && !topics.contains(topic)) {
      throw values.invalid(
          "registerTopics", "a list that contains " + topic + ", the value of the option topic");
    }
    return topics;
  }

  private static String topic(CaseInsensitiveStringMap options) {
    String given = options.get("topic");
    return given == null ? null : given.trim();
  }

  /** Whether both write to the same target, with the same clients. */
  public boolean isSameTarget(SinkOptions other) {
    return client.equals(other.client)
        && transactionalIdPrefix.equals(other.transactionalIdPrefix)
        && decisionTopic.equals(other.decisionTopic);
  }

  /** The timeout of a task's transaction in task scope, in milliseconds. */
  public int taskTransactionTimeoutMs() {
    return transactionTimeout.orElse(TASK_TRANSACTION_TIMEOUT_MS);
  }

  /** The commit interval in real-time mode, in milliseconds: 100 unless the option is set. */
  public int realTimeCommitIntervalMs() {
    return Math.min(longestTransactionMs(), commitInterval.orElse(REAL_TIME_COMMIT_INTERVAL_MS));
  }

  /**
   * The commit interval in micro-batches, in milliseconds: the option, at most half of the timeout.
   */
  public int commitIntervalMs() {
    return Math.min(longestTransactionMs(), commitInterval.orElse(Integer.MAX_VALUE));
  }

  /** Half of the transaction timeout, in milliseconds. The rest is for the flush and the commit. */
  public int longestTransactionMs() {
    return taskTransactionTimeoutMs() / 2;
  }
}
