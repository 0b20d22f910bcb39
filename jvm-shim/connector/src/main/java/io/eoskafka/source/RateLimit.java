package io.eoskafka.source;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/** {@code maxOffsetsPerTrigger}: each partition gets its share of the limit by its backlog. */
final class RateLimit {
  private RateLimit() {}

  /**
   * @param limit records of a batch, over all partitions
   * @param from where each partition's batch starts
   * @param until where each partition could be read to
   * @return the ends; each partition with a backlog moves by one at least
   */
  static Map<TopicPartition, Long> apply(
      long limit, Map<TopicPartition, Long> from, Map<TopicPartition, Long> until) {
    Map<TopicPartition, Long> backlog = new HashMap<>();
    until.forEach((p, end) -> backlog.put(p, Math.max(0, end - from.getOrDefault(p, end))));
    double total = backlog.values().stream().mapToDouble(Long::doubleValue).sum();
    Map<TopicPartition, Long> ends = new HashMap<>();
    until.forEach(
        (partition, end) -> {
          long mine = backlog.get(partition);
          if (mine == 0) {
            ends.put(partition, end);
            return;
          }
          double share = limit * (mine / total);
          long records = Math.max(1, (long) Math.min(share, (double) mine));
          // A limit near Long.MAX_VALUE must not overflow.
          ends.put(partition, records >= mine ? end : end - mine + records);
        });
    return ends;
  }
}
