package io.eoskafka.source;

/** The consumers that rest on this executor between batches. */
public final class RestingConsumers {
  private RestingConsumers() {}

  /** Closes them, at the executor's end. */
  public static void close() {
    SlotConsumer.closeResting();
  }
}
