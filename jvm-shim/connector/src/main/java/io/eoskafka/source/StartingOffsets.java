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
    SourceOptions.Starting starting = options.starting();
    if (starting.timestamp().isPresent()) {
      Map<TopicPartition, Long> same = new HashMap<>();
      partitions.forEach(partition -> same.put(partition, starting.timestamp().getAsLong()));
      return at(same, starting, topics);
    }
    if (starting.timestamps() != null) {
      return at(
          exactly("startingOffsetsByTimestamp", starting.timestamps(), partitions),
          starting,
          topics);
    }
    return switch (starting.offsets()) {
      case "earliest" -> topics.earliest(partitions);
      case "latest" -> topics.readable(partitions);
      default -> specific(starting.offsets(), topics, partitions);
    };
  }

  /** The first records at or after these times. */
  private static Map<TopicPartition, Long> at(
      Map<TopicPartition, Long> timestamps, SourceOptions.Starting starting, Topics topics) {
    Map<TopicPartition, Long> found = topics.atOrAfter(timestamps);
    Set<TopicPartition> none = new HashSet<>(timestamps.keySet());
    none.removeAll(found.keySet());
    if (!none.isEmpty()) {
      if (!starting.isLatestWithoutMatch()) {
        TopicPartition partition = none.iterator().next();
        throw EosKafkaException.of(
            "EOSKAFKA_NO_RECORD_AT_TIMESTAMP",
            Map.of("partition", partition, "timestamp", timestamps.get(partition)));
      }
      found.putAll(topics.readable(none));
    }
    return found;
  }

  /** The JSON's numbers, which must be those of all partitions and no others. */
  private static Map<TopicPartition, Long> exactly(
      String option, String json, Collection<TopicPartition> partitions) {
    Map<TopicPartition, Long> given = new HashMap<>(PartitionOffsets.parse(json).offsets());
    if (!given.keySet().equals(new HashSet<>(partitions))) {
      Set<TopicPartition> missing = new HashSet<>(partitions);
      missing.removeAll(given.keySet());
      Set<TopicPartition> unknown = new HashSet<>(given.keySet());
      unknown.removeAll(new HashSet<>(partitions));
      throw EosKafkaException.of(
          "EOSKAFKA_STARTING_OFFSETS_PARTITIONS",
          Map.of("option", option, "missing", missing, "unknown", unknown));
    }
    return given;
  }

  private static Map<TopicPartition, Long> specific(
      String json, Topics topics, Collection<TopicPartition> partitions) {
    Map<TopicPartition, Long> given = exactly("startingOffsets", json, partitions);
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
