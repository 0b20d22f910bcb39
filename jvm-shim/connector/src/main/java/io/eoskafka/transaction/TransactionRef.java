package io.eoskafka.transaction;

import java.io.Serializable;

/**
 * Identifies one transaction of a transactional id: the coordinator ends it only if a request has
 * its producer id and epoch.
 *
 * @param producerId and
 * @param producerEpoch what the coordinator knows of the producer while the transaction is open
 * @param version2 whether it runs with {@code transaction.version=2} (KIP-890)
 */
public record TransactionRef(
    String transactionalId, long producerId, short producerEpoch, boolean version2)
    implements Serializable {}
