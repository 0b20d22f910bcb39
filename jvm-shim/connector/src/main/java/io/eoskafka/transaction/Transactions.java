package io.eoskafka.transaction;

import io.eoskafka.group.GroupInspector;
import io.eoskafka.identity.Fence;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * The transactions of one transactional id, one at a time. After any exception the caller may only
 * {@link #abortAndClose}. {@link TransactionalProducer} describes each method in detail.
 */
public interface Transactions {
  /** Begins a transaction. */
  void begin();

  /** Sends a record; the next {@link #flush} reports one that fails later. */
  void send(ProducerRecord<byte[], byte[]> record);

  /** Waits until every record has been acknowledged. */
  void flush();

  /** Fails if the transaction nears its timeout. */
  void checkTime();

  /**
   * Sends a last record, and waits until all records have been acknowledged.
   *
   * @return the record's offset
   */
  long sendAndFlush(ProducerRecord<byte[], byte[]> record);

  /**
   * Adds offsets to the open transaction; the group coordinator checks the fence.
   *
   * @param members to name the owner of the group if it refuses the offsets
   */
  void sendOffsets(
      Map<TopicPartition, OffsetAndMetadata> offsets, Fence fence, GroupInspector members);

  /** Commits after all records have been acknowledged. */
  void commit();

  /**
   * Whether brokers may answer the end of a transaction before the group has its offsets
   * (KAFKA-17507), as brokers before 4.0 do. These have at most transaction version 1. To be called
   * after a transaction has begun.
   */
  boolean mayLeaveOffsetsPending();

  /**
   * Ends the transaction so that nobody waits for it, and closes.
   *
   * @return whether a transaction was given up
   */
  boolean abortAndClose();

  /** Closes without waiting. */
  void close();
}
