package io.eoskafka.config;

import java.util.Map;

/**
 * Every error that the connector raises. The condition is a name of {@code spec/errors.json}; the
 * message starts with it in brackets, as Spark's own do, and says what happened to the data and
 * what to do next.
 */
public final class EosKafkaException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final String condition;

  private EosKafkaException(String condition, String message, Throwable cause) {
    super("[" + condition + "] " + message, cause);
    this.condition = condition;
  }

  public static EosKafkaException of(String condition, Map<String, ?> values) {
    return of(condition, values, null);
  }

  /**
   * @param condition a name of {@code spec/errors.json}
   * @param values a value for each {@code <name>} in the condition's message; never a secret
   */
  public static EosKafkaException of(String condition, Map<String, ?> values, Throwable cause) {
    return new EosKafkaException(condition, ErrorConditions.message(condition, values), cause);
  }

  /**
   * The root cause of an exception, as a sentence to quote. It is never a message of this
   * connector, whose advice would be for another situation.
   */
  public static String plain(Throwable exception) {
    Throwable root = root(exception);
    String text =
        root instanceof EosKafkaException ours
            ? ours.condition
            : root.getClass().getSimpleName() + ": " + root.getMessage();
    return text.endsWith(".") ? text : text + ".";
  }

  /** The last of an exception's causes, or itself. */
  public static Throwable root(Throwable exception) {
    Throwable root = exception;
    while (root.getCause() != null) {
      root = root.getCause();
    }
    return root;
  }

  public String condition() {
    return condition;
  }
}
