package io.eoskafka.transaction;

import java.io.Serializable;

/**
 * A transaction whose producer has flushed everything and will not end it: the driver does.
 *
 * @param producerId and
 * @param producerEpoch what the producer had; together they name this one transaction of the id
 * @param version2 whether it runs by the rules of transaction version 2 (KIP-890)
 */
public record PreparedTransaction(
    String transactionalId, long producerId, short producerEpoch, boolean version2)
    implements Serializable {}
