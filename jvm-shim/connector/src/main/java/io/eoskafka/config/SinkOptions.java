package io.eoskafka.config;

import java.util.Locale;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The options of a sink, checked.
 *
 * @param topic where every record goes, or null: then each row names its topic. The option wins
 *     over the column, as in the built-in connector
 * @param transactionTimeoutMs {@code kafka.transaction.timeout.ms}; a task must end within it
 */
public record SinkOptions(
    ClientSettings client,
    String topic,
    TransactionScope transactionScope,
    String transactionalIdPrefix,
    int transactionTimeoutMs) {

  /** What a user may ask for. */
  public enum TransactionScope {
    AUTO,
    TASK
  }

  /**
   * Five minutes: long enough for a large first batch, within the broker's default maximum of 15
   * minutes. It bounds how long a {@code read_committed} consumer can be held up when executors and
   * driver die together and the query is never started again.
   */
  private static final int DEFAULT_TRANSACTION_TIMEOUT_MS = 300_000;

  public static SinkOptions parse(CaseInsensitiveStringMap options) {
    OptionTable.check("sink", options.asCaseSensitiveMap().keySet());
    Values values = new Values(options);
    values.required("kafka.bootstrap.servers", "sink");
    long timeout =
        values.positive("kafka.transaction.timeout.ms").orElse(DEFAULT_TRANSACTION_TIMEOUT_MS);
    if (timeout > Integer.MAX_VALUE) {
      throw values.invalid("kafka.transaction.timeout.ms", "at most " + Integer.MAX_VALUE);
    }
    TransactionScope scope =
        switch (options.getOrDefault("transactionScope", "auto").toLowerCase(Locale.ROOT)) {
          case "auto" -> TransactionScope.AUTO;
          case "task" -> TransactionScope.TASK;
          default ->
              throw values.invalid("transactionScope", "auto or task (epoch is not there yet)");
        };
    String prefix = options.getOrDefault("transactionalIdPrefix", "eoskafka");
    if (prefix.isBlank()) {
      throw values.invalid("transactionalIdPrefix", "not empty");
    }
    return new SinkOptions(
        new ClientSettings(options), options.get("topic"), scope, prefix, (int) timeout);
  }
}
