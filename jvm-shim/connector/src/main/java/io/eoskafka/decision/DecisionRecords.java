package io.eoskafka.decision;

import io.eoskafka.config.EosKafkaException;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** What the decision topic has, for {@code read_committed} readers. */
interface DecisionRecords {
  /** The topic's name. */
  String name();

  /** How many of its partitions are in use. */
  int partitions();

  /** Where presence records may be. */
  List<Integer> presencePartitions();

  /** See {@link DecisionTopic#readUntil}. */
  void readUntil(
      int partition, long end, Duration timeout, Consumer<ConsumerRecord<byte[], byte[]>> each);

  /** See {@link DecisionTopic#lost}. */
  Set<Integer> lost(Collection<WriterOutput> outputs, Duration timeout);

  /** What to throw if the outcome of a decided transaction is still unknown. */
  EosKafkaException unsettled(String problem, RuntimeException e);
}
