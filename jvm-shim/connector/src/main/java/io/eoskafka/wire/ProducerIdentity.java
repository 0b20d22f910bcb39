package io.eoskafka.wire;

import org.apache.kafka.clients.producer.KafkaProducer;

/**
 * The producer id and epoch that a transactional producer has. It has no call for them, and the
 * broker that is asked for them may be a former coordinator of its transactional id, which answers
 * from memory. So this looks into the producer.
 */
public record ProducerIdentity(long producerId, short epoch) {
  /** To be asked after the producer has been initialised; both are -1 before. */
  public static ProducerIdentity of(KafkaProducer<?, ?> producer) {
    Object found =
        PrivateField.read(PrivateField.read(producer, "transactionManager"), "producerIdAndEpoch");
    return new ProducerIdentity(
        (long) PrivateField.read(found, "producerId"), (short) PrivateField.read(found, "epoch"));
  }

  /** Whether its transactions are of version 2 (KIP-890). To be asked while one is open. */
  public static boolean usesVersion2(KafkaProducer<?, ?> producer) {
    return (boolean)
        PrivateField.read(
            PrivateField.read(producer, "transactionManager"), "isTransactionV2Enabled");
  }
}
