package io.eoskafka.source;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.Json;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.Iterator;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.streaming.Offset;

/**
 * An offset per topic-partition, in the built-in connector's JSON: {@code
 * {"topic":{"0":12,"1":7}}}. The text it was read from is kept, since Spark compares offsets by
 * their text.
 */
final class PartitionOffsets extends Offset {
  private static final ObjectMapper JSON =
      new ObjectMapper().enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS);

  /** The built-in connector's numbers for the two names. */
  static final long LATEST = -1;

  static final long EARLIEST = -2;

  /** White space, which either connector reads over. */
  private static final String OURS = " ";

  private static final Map<String, Long> NAMED = Map.of("earliest", EARLIEST, "latest", LATEST);

  static final Comparator<TopicPartition> ORDER =
      Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition);

  private final TreeMap<TopicPartition, Long> offsets;
  private final String json;

  private PartitionOffsets(TreeMap<TopicPartition, Long> offsets, String json) {
    this.offsets = offsets;
    this.json = json;
  }

  static PartitionOffsets of(Map<TopicPartition, Long> offsets) {
    TreeMap<TopicPartition, Long> sorted = new TreeMap<>(ORDER);
    sorted.putAll(offsets);
    ObjectNode root = JSON.createObjectNode();
    sorted.forEach(
        (partition, offset) ->
            Json.objectIn(root, partition.topic())
                .put(Integer.toString(partition.partition()), offset));
    return new PartitionOffsets(sorted, root.toString());
  }

  /**
   * @param json the built-in connector's text
   * @param file that it stands in
   * @throws EosKafkaException {@code EOSKAFKA_CHECKPOINT_UNREADABLE}
   */
  static PartitionOffsets parse(String json, String file) {
    try {
      return new PartitionOffsets(read(json, null), json);
    } catch (IllegalArgumentException e) {
      throw EosKafkaException.of("EOSKAFKA_CHECKPOINT_UNREADABLE", Map.of("file", file), e);
    }
  }

  /**
   * What a user gives in an option: also {@code {"topic":"earliest"}}, for all of the topic's
   * partitions.
   *
   * @param partitions all of the source's; null where an option takes numbers only
   * @throws EosKafkaException {@code EOSKAFKA_BAD_OFFSET_JSON}
   */
  static Map<TopicPartition, Long> parseOption(
      String option, String json, Collection<TopicPartition> partitions) {
    try {
      return read(json, partitions);
    } catch (IllegalArgumentException e) {
      throw EosKafkaException.of(
          "EOSKAFKA_BAD_OFFSET_JSON", Map.of("option", option, "json", json), e);
    }
  }

  private static TreeMap<TopicPartition, Long> read(
      String json, Collection<TopicPartition> partitions) {
    TreeMap<TopicPartition, Long> offsets = new TreeMap<>(ORDER);
    try {
      JsonNode root = JSON.readTree(json);
      if (root == null || !root.isObject()) {
        throw new IllegalArgumentException("no offsets: " + json);
      }
      for (Map.Entry<String, JsonNode> topic : iterable(root.fields())) {
        Long ofAll =
            partitions == null
                ? null
                : NAMED.get(topic.getValue().asText().toLowerCase(Locale.ROOT));
        if (ofAll != null && topic.getValue().isTextual()) {
          partitions.stream()
              .filter(partition -> partition.topic().equals(topic.getKey()))
              .forEach(partition -> offsets.put(partition, ofAll));
          continue;
        }
        if (!topic.getValue().isObject()) {
          throw new IllegalArgumentException("no offsets: " + json);
        }
        for (Map.Entry<String, JsonNode> partition : iterable(topic.getValue().fields())) {
          if (!partition.getValue().canConvertToLong()
              || !partition.getValue().isIntegralNumber()) {
            throw new IllegalArgumentException("no offsets: " + json);
          }
          int number = number(partition.getKey());
          offsets.put(new TopicPartition(topic.getKey(), number), partition.getValue().asLong());
        }
      }
    } catch (JsonProcessingException e) {
      throw new IllegalArgumentException(e);
    }
    return offsets;
  }

  /**
   * A partition's number as it is written in JSON: in no second form, or two members would mean one
   * partition.
   *
   * @throws IllegalArgumentException if it is none
   */
  static int number(String text) {
    int number = Integer.parseInt(text);
    if (number < 0 || !text.equals(Integer.toString(number))) {
      throw new IllegalArgumentException("no partition: " + text);
    }
    return number;
  }

  /** The same numbers in a text that shows, in Spark's log, that the group is authoritative. */
  PartitionOffsets ours() {
    return isOurs() ? this : new PartitionOffsets(offsets, json + OURS);
  }

  /** Whether it is such a text; what the built-in connector writes ends with a brace. */
  boolean isOurs() {
    return json.endsWith(OURS);
  }

  /** The same numbers in another text, so that Spark starts a batch for them. */
  PartitionOffsets respelled(String text) {
    String other = json.equals(text) ? " " + json : json;
    return new PartitionOffsets(offsets, other);
  }

  Map<TopicPartition, Long> offsets() {
    return Collections.unmodifiableMap(offsets);
  }

  @Override
  public String json() {
    return json;
  }

  private static <T> Iterable<T> iterable(Iterator<T> iterator) {
    return () -> iterator;
  }
}
