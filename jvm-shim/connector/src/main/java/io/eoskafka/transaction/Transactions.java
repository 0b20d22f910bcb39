package io.eoskafka.transaction;

import io.eoskafka.group.GroupInspector;
import io.eoskafka.identity.Fence;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * The transactions of one transactional id, one at a time. After any exception the caller may only
 * {@link #abortAndClose}; {@link TransactionalProducer} says more of each method.
 */
public interface Transactions {
  /** Begins a transaction. */
  void begin();

  /** Sends a record; the next {@link #flush} reports one that fails later. */
  void send(ProducerRecord<byte[], byte[]> record);

  /** Waits until every record has arrived. */
  void flush();

  /** Fails if the transaction nears its timeout. */
  void checkTime();

  /**
   * Sends a last record, and waits until everything has arrived.
   *
   * @return the record's offset
   */
  long sendAndFlush(ProducerRecord<byte[], byte[]> record);

  /**
   * Adds offsets to the open transaction; the group coordinator checks the fence.
   *
   * @param members to tell who owns the group when it refuses them
   */
  void sendOffsets(
      Map<TopicPartition, OffsetAndMetadata> offsets, Fence fence, GroupInspector members);

  /** Commits, after all records have arrived. */
  void commit();

  /**
   * Whether brokers may answer the end of a transaction before its group has taken over its offsets
   * (KAFKA-17507): those before 4.0. They have at most version 1 of transactions. To be asked after
   * a transaction has begun.
   */
  boolean mayLeaveOffsetsPending();

  /**
   * Ends the transaction so that nobody waits for it, and closes.
   *
   * @return whether one was given up
   */
  boolean abortAndClose();

  /** Closes without waiting. */
  void close();
}
