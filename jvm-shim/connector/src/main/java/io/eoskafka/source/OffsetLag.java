package io.eoskafka.source;

import java.util.LongSummaryStatistics;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/** How many records a query is behind what it could read, over the partitions of this driver. */
final class OffsetLag {
  private OffsetLag() {}

  /**
   * Under the built-in connector's names.
   *
   * @param latest how far partitions could be read
   * @param consumed how far they were read
   * @return empty if no partition is in both
   */
  static Map<String, String> metrics(
      Map<TopicPartition, Long> latest, Map<TopicPartition, Long> consumed) {
    LongSummaryStatistics behind =
        latest.entrySet().stream()
            .filter(end -> consumed.containsKey(end.getKey()))
            .mapToLong(end -> Math.max(0, end.getValue() - consumed.get(end.getKey())))
            .summaryStatistics();
    return behind.getCount() == 0
        ? Map.of()
        : Map.of(
            "minOffsetsBehindLatest",
            Long.toString(behind.getMin()),
            "maxOffsetsBehindLatest",
            Long.toString(behind.getMax()),
            "avgOffsetsBehindLatest",
            Double.toString(behind.getAverage()));
  }
}
