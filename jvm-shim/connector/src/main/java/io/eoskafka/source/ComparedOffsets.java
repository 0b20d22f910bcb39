package io.eoskafka.source;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * Offsets of partitions whose readable ends are behind the group, and that were compared with their
 * logs by {@link TruncatedLogs}. An open transaction of the input keeps the end behind for as long
 * as it is open, and a comparison needs a consumer of its own: each offset is compared once. If its
 * log is cut later, a task finds that out.
 */
final class ComparedOffsets {
  private Map<TopicPartition, OffsetAndMetadata> compared = Map.of();

  /**
   * Those that have not been compared yet; they count as compared from now on. A partition that is
   * not among them is forgotten.
   *
   * @param committed offsets of all partitions that are behind now, with their leader epochs
   */
  Map<TopicPartition, OffsetAndMetadata> take(Map<TopicPartition, OffsetAndMetadata> committed) {
    Map<TopicPartition, OffsetAndMetadata> toCompare = new HashMap<>(committed);
    toCompare.entrySet().removeAll(compared.entrySet());
    compared = Map.copyOf(committed);
    return toCompare;
  }
}
