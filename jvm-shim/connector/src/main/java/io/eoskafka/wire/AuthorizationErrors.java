package io.eoskafka.wire;

import io.eoskafka.config.EosKafkaException;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.GroupAuthorizationException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.errors.TransactionalIdAuthorizationException;

/**
 * Turns refusals by brokers into errors that name the missing right, and detects refused log-ins.
 */
public final class AuthorizationErrors {
  private AuthorizationErrors() {}

  /**
   * @param onTopics the operation, if it is one on topics
   * @return the error for a refusal among an exception and its causes, or empty
   */
  public static Optional<EosKafkaException> in(Throwable exception, String onTopics) {
    return in(exception, onTopics, "");
  }

  /**
   * The same for a caller that knows what it has asked about: many refusals do not name it.
   *
   * @param name of the topic, or the transactional id; empty if the caller does not know it
   */
  public static Optional<EosKafkaException> in(Throwable exception, String onTopics, String name) {
    return in(exception, onTopics, name, name);
  }

  /** The same for a producer, whose client may not name the topic. */
  public static Optional<EosKafkaException> inProducer(
      Throwable exception, String transactionalId) {
    return in(exception, "Write", "", transactionalId);
  }

  private static Optional<EosKafkaException> in(
      Throwable exception, String onTopics, String topic, String transactionalId) {
    for (Throwable cause = exception; cause != null; cause = cause.getCause()) {
      if (cause instanceof AuthorizationException refusal) {
        return Optional.of(
            EosKafkaException.of(
                "EOSKAFKA_NOT_AUTHORIZED",
                Map.of(
                    "right",
                    right(refusal, onTopics, topic, transactionalId),
                    "cause",
                    said(refusal)),
                exception));
      }
      if (cause instanceof AuthenticationException) {
        return Optional.of(logInFailed(exception));
      }
    }
    return Optional.empty();
  }

  /** The error for a refusal, or otherwise the exception itself. */
  public static RuntimeException or(RuntimeException exception, String onTopics) {
    return or(exception, onTopics, "");
  }

  /** The same with the name of the topic or the transactional id. */
  public static RuntimeException or(RuntimeException exception, String onTopics, String name) {
    Optional<EosKafkaException> denied = in(exception, onTopics, name);
    return denied.isPresent() ? denied.get() : exception;
  }

  /** Whether an exception or one of its causes means that a log-in was refused. */
  public static boolean isRefusedLogIn(Throwable exception) {
    for (Throwable cause = exception; cause != null; cause = cause.getCause()) {
      if (cause instanceof AuthenticationException) {
        return true;
      }
    }
    return false;
  }

  /** The error for an exception that says, somewhere among its causes, why a log-in failed. */
  static EosKafkaException logInFailed(Throwable exception) {
    return EosKafkaException.of(
        "EOSKAFKA_LOG_IN_FAILED",
        Map.of("cause", reason(exception)),
        isOfJaasText(EosKafkaException.root(exception)) ? null : exception);
  }

  /**
   * Why a log-in failed. Kafka's own exceptions say only that a handshake or the creation of a
   * client has failed, so this is their last cause. It is left out if it contains a part of {@code
   * sasl.jaas.config}, which may be part of a password.
   */
  public static String reason(Throwable exception) {
    Throwable root = EosKafkaException.root(exception);
    if (isOfJaasText(root)) {
      return "The option kafka.sasl.jaas.config cannot be parsed. In its values, write \\\" for \".";
    }
    // Java's own log-in has a whole stack trace in its message.
    String cause = EosKafkaException.plain(exception).lines().findFirst().orElse("");
    return cause.endsWith(".") ? cause : cause + ".";
  }

  private static boolean isOfJaasText(Throwable root) {
    return root instanceof IllegalArgumentException
        && String.valueOf(root.getMessage()).contains("JAAS config");
  }

  private static String said(AuthorizationException refusal) {
    String text = String.valueOf(refusal.getMessage());
    return text.endsWith(".") ? text : text + ".";
  }

  private static String right(
      AuthorizationException refusal, String onTopics, String topic, String transactionalId) {
    if (refusal instanceof TopicAuthorizationException topics) {
      // Admin clients do not say of which.
      String named =
          topics.unauthorizedTopics().isEmpty()
              ? topic
              : String.join(", ", topics.unauthorizedTopics());
      return onTopics + (named.isEmpty() ? " on a topic of the query" : " on the topic " + named);
    }
    if (refusal instanceof GroupAuthorizationException group) {
      return "Read on the group " + (group.groupId() == null ? "of the query" : group.groupId());
    }
    if (refusal instanceof TransactionalIdAuthorizationException) {
      return transactionalId.isEmpty()
          ? "Write on transactional ids with the query's transactionalIdPrefix"
          : "Write on the transactional id "
              + transactionalId
              + " (grant it on all with the query's transactionalIdPrefix)";
    }
    return "a right on the cluster (Create, for the decision topic)";
  }
}
