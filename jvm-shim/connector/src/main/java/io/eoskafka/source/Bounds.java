package io.eoskafka.source;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SourceOptions;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;

/** Turns what a user says of beginning and end into offsets. */
final class Bounds {
  private final SourceOptions options;
  private final Topics topics;

  Bounds(SourceOptions options, Topics topics) {
    this.options = options;
    this.topics = topics;
  }

  /** Where a new streaming query begins. */
  Map<TopicPartition, Long> starts(Collection<TopicPartition> partitions) {
    return find("starting", options.starting().or("latest"), partitions);
  }

  /**
   * Where a batch query begins.
   *
   * @throws EosKafkaException {@code EOSKAFKA_BATCH_BOUND} for {@code latest}
   */
  Map<TopicPartition, Long> batchStarts(Collection<TopicPartition> partitions) {
    SourceOptions.Bound bound = options.starting().or("earliest");
    refuse("startingOffsets", "latest", PartitionOffsets.LATEST, bound, partitions);
    return find("starting", bound, partitions);
  }

  /**
   * Where a batch query ends.
   *
   * @throws EosKafkaException {@code EOSKAFKA_BATCH_BOUND} for {@code earliest}
   */
  Map<TopicPartition, Long> batchEnds(Collection<TopicPartition> partitions) {
    SourceOptions.Bound bound = options.ending().or("latest");
    refuse("endingOffsets", "earliest", PartitionOffsets.EARLIEST, bound, partitions);
    return find("ending", bound, partitions);
  }

  private static void refuse(
      String option,
      String name,
      long number,
      SourceOptions.Bound bound,
      Collection<TopicPartition> partitions) {
    if (name.equals(bound.offsets()) && !bound.isByTime()
        || bound.isExplicit()
            && offsets(option, bound.offsets(), partitions).containsValue(number)) {
      throw EosKafkaException.of("EOSKAFKA_BATCH_BOUND", Map.of("option", option, "name", name));
    }
  }

  private Map<TopicPartition, Long> find(
      String name, SourceOptions.Bound bound, Collection<TopicPartition> partitions) {
    if (bound.timestamp().isPresent()) {
      Map<TopicPartition, Long> same = new HashMap<>();
      partitions.forEach(partition -> same.put(partition, bound.timestamp().getAsLong()));
      return at(name, same);
    }
    if (bound.timestamps() != null) {
      String option = name + "OffsetsByTimestamp";
      Map<TopicPartition, Long> times =
          exactly(
              option, PartitionOffsets.parseOption(option, bound.timestamps(), null), partitions);
      if (times.values().stream().anyMatch(time -> time < 0)) {
        throw EosKafkaException.of(
            "EOSKAFKA_OPTION_INVALID",
            Map.of(
                "option",
                option,
                "value",
                bound.timestamps(),
                "expected",
                "times in milliseconds since 1970, 0 or later"));
      }
      return at(name, times);
    }
    return switch (bound.offsets()) {
      case "earliest" -> topics.earliest(partitions);
      case "latest" -> topics.readable(partitions);
      default -> specific(name + "Offsets", bound.offsets(), partitions);
    };
  }

  /** The first records at or after these times. A batch without one ends where its topic does. */
  private Map<TopicPartition, Long> at(String name, Map<TopicPartition, Long> timestamps) {
    // Looked at first: what comes after this has its time, and is not skipped.
    Map<TopicPartition, Long> readable = topics.readable(timestamps.keySet());
    Map<TopicPartition, Long> found = topics.atOrAfter(timestamps);
    Set<TopicPartition> none = new HashSet<>(timestamps.keySet());
    none.removeAll(found.keySet());
    if (!none.isEmpty()) {
      if (name.equals("starting") && !options.isLatestWithoutMatch()) {
        TopicPartition partition = none.iterator().next();
        throw EosKafkaException.of(
            "EOSKAFKA_NO_RECORD_AT_TIMESTAMP",
            Map.of("partition", partition, "timestamp", timestamps.get(partition)));
      }
      none.forEach(partition -> found.put(partition, readable.get(partition)));
    }
    return found;
  }

  private static Map<TopicPartition, Long> offsets(
      String option, String json, Collection<TopicPartition> partitions) {
    return exactly(option, PartitionOffsets.parseOption(option, json, partitions), partitions);
  }

  /** A number for each of all partitions and no others. */
  private static Map<TopicPartition, Long> exactly(
      String option, Map<TopicPartition, Long> numbers, Collection<TopicPartition> partitions) {
    Map<TopicPartition, Long> given = new HashMap<>(numbers);
    if (!given.keySet().equals(new HashSet<>(partitions))) {
      Set<TopicPartition> missing = new HashSet<>(partitions);
      missing.removeAll(given.keySet());
      Set<TopicPartition> unknown = new HashSet<>(given.keySet());
      unknown.removeAll(new HashSet<>(partitions));
      throw EosKafkaException.of(
          "EOSKAFKA_OFFSETS_OF_OTHER_PARTITIONS",
          Map.of("option", option, "missing", missing, "unknown", unknown));
    }
    return given;
  }

  private Map<TopicPartition, Long> specific(
      String option, String json, Collection<TopicPartition> partitions) {
    Map<TopicPartition, Long> given = offsets(option, json, partitions);
    Map<TopicPartition, Long> earliest = topics.earliest(given.keySet());
    Map<TopicPartition, Long> latest = topics.readable(given.keySet());
    given.replaceAll(
        (partition, offset) -> {
          if (offset == PartitionOffsets.LATEST) {
            return latest.get(partition);
          }
          if (offset == PartitionOffsets.EARLIEST) {
            return earliest.get(partition);
          }
          if (offset < 0) {
            throw EosKafkaException.of(
                "EOSKAFKA_BAD_OFFSET_JSON", Map.of("option", option, "json", json));
          }
          return offset;
        });
    return given;
  }
}
