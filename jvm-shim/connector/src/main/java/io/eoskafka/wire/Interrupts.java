package io.eoskafka.wire;

import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.errors.InterruptException;

/** Kafka's ways to fail, in the form Spark knows. */
public final class Interrupts {
  private Interrupts() {}

  /**
   * Spark takes a query's end as a stop, not as a failure, only where the cause is one of Java's
   * own interruption types.
   */
  public static UncheckedIOException asJava(InterruptException e) {
    InterruptedIOException cause = new InterruptedIOException(e.getMessage());
    cause.initCause(e);
    return new UncheckedIOException(cause);
  }

  /** The value of an admin call; throws Kafka's own exception, not its wrapper. */
  public static <T> T get(KafkaFuture<T> future) {
    try {
      return future.get();
    } catch (InterruptedException e) {
      throw asJava(new InterruptException(e));
    } catch (ExecutionException e) {
      if (e.getCause() instanceof RuntimeException cause) {
        throw cause;
      }
      throw new KafkaException(e.getCause());
    }
  }
}
