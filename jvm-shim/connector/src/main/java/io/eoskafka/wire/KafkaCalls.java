package io.eoskafka.wire;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.config.EosKafkaException;
import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.TimeoutException;

/** Waits for the admin client, and turns its failures into exceptions that Spark and users know. */
public final class KafkaCalls {
  private KafkaCalls() {}

  /**
   * Spark treats an interrupted query as stopped, not as failed, only if the cause is one of Java's
   * own interruption types.
   */
  public static UncheckedIOException asJava(InterruptException e) {
    InterruptedIOException cause = new InterruptedIOException(e.getMessage());
    cause.initCause(e);
    return new UncheckedIOException(cause);
  }

  /** Waits between two tries; an interruption throws an exception that Spark knows. */
  public static void sleep(long ms) {
    try {
      Thread.sleep(ms);
    } catch (InterruptedException e) {
      throw asJava(new InterruptException(e));
    }
  }

  /** The value of an admin call; throws Kafka's own exception, not its wrapper. */
  public static <T> T get(KafkaFuture<T> future) {
    return get(future, "Describe");
  }

  /**
   * The same for a call that needs another right.
   *
   * @param onTopics Kafka's name of the operation
   */
  public static <T> T get(KafkaFuture<T> future, String onTopics) {
    return get(future, onTopics, "");
  }

  /**
   * The same for a call about one topic or one transactional id.
   *
   * @param name the name of the topic or id, which brokers do not report when they refuse
   */
  public static <T> T get(KafkaFuture<T> future, String onTopics, String name) {
    try {
      return future.get();
    } catch (InterruptedException e) {
      throw asJava(new InterruptException(e));
    } catch (ExecutionException e) {
      if (e.getCause() instanceof RuntimeException cause) {
        throw AuthorizationErrors.or(cause, onTopics, name);
      }
      throw new KafkaException(e.getCause());
    }
  }

  /**
   * Waits until an admin call has ended, with or without success.
   *
   * @return false if it has not ended in time
   */
  public static boolean isDoneWithin(Duration time, KafkaFuture<?> future) {
    try {
      future.get(time.toMillis(), TimeUnit.MILLISECONDS);
      return true;
    } catch (InterruptedException e) {
      throw asJava(new InterruptException(e));
    } catch (ExecutionException e) {
      return true;
    } catch (java.util.concurrent.TimeoutException e) {
      return false;
    }
  }

  /**
   * As {@link #get}, for the first call to a cluster.
   *
   * @throws EosKafkaException {@code EOSKAFKA_UNREACHABLE}
   */
  public static <T> T reach(KafkaFuture<T> future, ClientSettings client) {
    return reach(future, client, "Describe", "");
  }

  /**
   * The same for a call about one topic.
   *
   * @param right Kafka's name of the operation for which the topic is asked about
   */
  public static <T> T reach(
      KafkaFuture<T> future, ClientSettings client, String right, String topic) {
    try {
      return get(future, right, topic);
    } catch (TimeoutException e) {
      throw EosKafkaException.of(
          "EOSKAFKA_UNREACHABLE",
          Map.of("servers", client.bootstrapServers(), "cause", EosKafkaException.plain(e)),
          e);
    }
  }
}
