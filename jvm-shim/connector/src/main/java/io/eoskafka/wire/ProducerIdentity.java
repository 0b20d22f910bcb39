package io.eoskafka.wire;

import org.apache.kafka.clients.producer.KafkaProducer;

/**
 * The producer id and epoch of a transactional producer. The producer has no method for them, and a
 * broker that is asked for them may be a former coordinator of the transactional id, which answers
 * from memory. So this class reads the producer's private fields.
 */
public record ProducerIdentity(long producerId, short epoch) {
  /** To be called after the producer has been initialised; both are -1 before. */
  public static ProducerIdentity of(KafkaProducer<?, ?> producer) {
    Object found =
        PrivateField.read(PrivateField.read(producer, "transactionManager"), "producerIdAndEpoch");
    return new ProducerIdentity(
        (long) PrivateField.read(found, "producerId"), (short) PrivateField.read(found, "epoch"));
  }

  /** Whether it uses transaction version 2 (KIP-890). To be called while a transaction is open. */
  public static boolean usesVersion2(KafkaProducer<?, ?> producer) {
    return (boolean)
        PrivateField.read(
            PrivateField.read(producer, "transactionManager"), "isTransactionV2Enabled");
  }
}
