package io.eoskafka.wire;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.Node;

/**
 * The broker that has accepted the offsets of a producer's transaction. A producer has no method
 * for it, and any broker that is asked for the group's coordinator may name a former one. So this
 * class reads the producer's private fields.
 */
public final class OffsetsCoordinator {
  private OffsetsCoordinator() {}

  /** To be called after offsets were accepted; null before. */
  public static Node of(KafkaProducer<?, ?> producer) {
    return (Node)
        PrivateField.read(
            PrivateField.read(producer, "transactionManager"), "consumerGroupCoordinator");
  }
}
