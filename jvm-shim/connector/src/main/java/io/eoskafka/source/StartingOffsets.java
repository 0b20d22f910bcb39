package io.eoskafka.source;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SourceOptions;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;

/** Turns {@code startingOffsets} into numbers, once in a query's life. */
final class StartingOffsets {
  /** The built-in connector's numbers for the two names. */
  private static final long LATEST = -1;

  private static final long EARLIEST = -2;

  private StartingOffsets() {}

  static Map<TopicPartition, Long> resolve(
      SourceOptions options, Topics topics, Collection<TopicPartition> partitions) {
    switch (options.startingOffsets()) {
      case "earliest":
        return topics.earliest(partitions);
      case "latest":
        return topics.readable(partitions);
      default:
        return specific(options.startingOffsets(), topics, partitions);
    }
  }

  private static Map<TopicPartition, Long> specific(
      String json, Topics topics, Collection<TopicPartition> partitions) {
    Map<TopicPartition, Long> given = new HashMap<>(PartitionOffsets.parse(json).offsets());
    if (!given.keySet().equals(new HashSet<>(partitions))) {
      Set<TopicPartition> missing = new HashSet<>(partitions);
      missing.removeAll(given.keySet());
      Set<TopicPartition> unknown = new HashSet<>(given.keySet());
      unknown.removeAll(new HashSet<>(partitions));
      throw EosKafkaException.of(
          "EOSKAFKA_STARTING_OFFSETS_PARTITIONS", Map.of("missing", missing, "unknown", unknown));
    }
    Map<TopicPartition, Long> earliest = topics.earliest(partitions);
    Map<TopicPartition, Long> latest = topics.readable(partitions);
    given.replaceAll(
        (partition, offset) -> {
          if (offset == LATEST) {
            return latest.get(partition);
          }
          if (offset == EARLIEST) {
            return earliest.get(partition);
          }
          if (offset < 0) {
            throw EosKafkaException.of("EOSKAFKA_BAD_OFFSET_JSON", Map.of("json", json));
          }
          return offset;
        });
    return given;
  }
}
