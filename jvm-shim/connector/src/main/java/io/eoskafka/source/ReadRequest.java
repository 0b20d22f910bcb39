package io.eoskafka.source;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.task.SlotRange;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * What a reader asks of the consumer of its slot: the ranges of one batch, and how to read them.
 *
 * @param consumer the name of the slot within its run; all requests under one name have the same
 *     settings
 * @param reading only a consumer of the same one goes on; see {@link OwnedPartitions#reading}
 * @param group the source's, or null for a batch query
 * @param pollTimeoutMs how long a partition with a planned end may give nothing
 * @param starts where each range begins in this attempt
 * @param isRetry whether an attempt before this one may have failed because a topic was replaced
 * @param inOrder whether each range is read to its end before the next one, so that every attempt
 *     returns the same rows in the same order
 */
record ReadRequest(
    String consumer,
    int reading,
    ClientSettings client,
    String group,
    DataLossPolicy dataLoss,
    long pollTimeoutMs,
    Map<TopicPartition, OffsetAndMetadata> starts,
    List<SlotRange> ranges,
    boolean isRetry,
    boolean inOrder) {

  ReadRequest {
    starts = Map.copyOf(starts);
    ranges = List.copyOf(ranges);
  }

  /** Whether time ends the reading, not a planned end. */
  boolean isOpen() {
    return ranges.stream().anyMatch(SlotRange::isOpen);
  }
}
