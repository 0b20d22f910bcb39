package io.eoskafka.source;

import io.eoskafka.config.SourceOptions;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxRows;

/**
 * The limits of a batch. Each partition gets a share of {@code maxOffsetsPerTrigger} in proportion
 * to what it may read within {@code maxOffsetsPerPartition}.
 */
final class RateLimit {
  private RateLimit() {}

  /** {@code maxOffsetsPerPartition}. Spark has no such limit, and hands this one back. */
  record PerPartition(long offsets) implements ReadLimit {}

  /** What the options say, for Spark. */
  static ReadLimit readLimit(SourceOptions.BatchLimits given) {
    List<ReadLimit> limits = new ArrayList<>();
    given
        .minOffsets()
        .ifPresent(min -> limits.add(ReadLimit.minRows(min, given.maxTriggerDelayMs())));
    given.maxOffsetsPerPartition().ifPresent(max -> limits.add(new PerPartition(max)));
    given.maxOffsets().ifPresent(max -> limits.add(ReadLimit.maxRows(max)));
    return switch (limits.size()) {
      case 0 -> ReadLimit.allAvailable();
      case 1 -> limits.get(0);
      default -> ReadLimit.compositeLimit(limits.toArray(ReadLimit[]::new));
    };
  }

  /**
   * @param limits of the batch
   * @param from where each partition's batch starts
   * @param until where each partition could be read to
   * @return the ends; each partition with a backlog moves by one at least
   */
  static Map<TopicPartition, Long> apply(
      List<ReadLimit> limits, Map<TopicPartition, Long> from, Map<TopicPartition, Long> until) {
    Map<TopicPartition, Long> ends = new HashMap<>(until);
    for (ReadLimit limit : limits) {
      if (limit instanceof PerPartition each) {
        // The difference is compared, because a start with the limit added may overflow.
        ends.replaceAll(
            (partition, end) -> {
              long start = from.getOrDefault(partition, end);
              return start + Math.min(end - start, each.offsets());
            });
      }
    }
    // Afterwards, so that no share is for records that the partition's own limit keeps back.
    for (ReadLimit limit : limits) {
      if (limit instanceof ReadMaxRows max) {
        ends = share(max.maxRows(), from, ends);
      }
    }
    return ends;
  }

  /**
   * @param limit records of a batch, over all partitions
   * @param from where each partition's batch starts
   * @param until where each partition could be read to
   * @return the ends; each partition with a backlog moves by one at least
   */
  static Map<TopicPartition, Long> share(
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
