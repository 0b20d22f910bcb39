package io.eoskafka.wire;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.Node;

/**
 * The broker that has accepted the offsets of a producer's transaction. A producer has no call for
 * it, and whoever else is asked for the group's coordinator may name a broker that is not it any
 * more, so this looks into the producer.
 */
public final class OffsetsCoordinator {
  private OffsetsCoordinator() {}

  /** To be asked after offsets were accepted; null before. */
  public static Node of(KafkaProducer<?, ?> producer) {
    return (Node)
        PrivateField.read(
            PrivateField.read(producer, "transactionManager"), "consumerGroupCoordinator");
  }
}
