package io.eoskafka.source;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SourceOptions;
import io.eoskafka.wire.KafkaCalls;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Which topic-partitions a source has, and how far their logs reach. */
final class Topics {
  private static final Logger LOG = LoggerFactory.getLogger(Topics.class);

  private final Admin admin;
  private final SourceOptions options;
  private final Pattern pattern;
  private final Set<TopicPartition> assigned = new HashSet<>();
  private final Set<String> named = new TreeSet<>();

  Topics(Admin admin, SourceOptions options) {
    this.admin = admin;
    this.options = options;
    switch (options.strategy()) {
      case SUBSCRIBE ->
          Arrays.stream(options.strategyValue().split(","))
              .map(String::trim)
              .filter(topic -> !topic.isEmpty())
              .forEach(named::add);
      case ASSIGN -> parseAssign(options.strategyValue());
      case SUBSCRIBE_PATTERN -> {}
    }
    pattern = options.strategy() == SourceOptions.Strategy.SUBSCRIBE_PATTERN ? compile() : null;
  }

  private Pattern compile() {
    try {
      return Pattern.compile(options.strategyValue());
    } catch (PatternSyntaxException e) {
      throw EosKafkaException.of(
          "EOSKAFKA_OPTION_INVALID",
          Map.of(
              "option",
              "subscribePattern",
              "value",
              options.strategyValue(),
              "takes",
              "a regular expression (" + e.getDescription() + ")"),
          e);
    }
  }

  private void parseAssign(String json) {
    try {
      for (Map.Entry<String, JsonNode> topic : new ObjectMapper().readTree(json).properties()) {
        named.add(topic.getKey());
        if (!topic.getValue().isArray()) {
          throw badAssign(json, null);
        }
        for (JsonNode partition : topic.getValue()) {
          if (!partition.isInt() || partition.asInt() < 0) {
            throw badAssign(json, null);
          }
          assigned.add(new TopicPartition(topic.getKey(), partition.asInt()));
        }
      }
    } catch (JsonProcessingException e) {
      throw badAssign(json, e);
    }
    if (assigned.isEmpty()) {
      throw badAssign(json, null);
    }
  }

  private static EosKafkaException badAssign(String json, Exception cause) {
    return EosKafkaException.of(
        "EOSKAFKA_OPTION_INVALID",
        Map.of("option", "assign", "value", json, "takes", "JSON such as {\"topic\":[0,1]}"),
        cause);
  }

  /**
   * The source's topic-partitions, each with its topic's id. Asked anew for every batch, so that
   * added partitions are found.
   *
   * @throws EosKafkaException {@code EOSKAFKA_NO_SUCH_TOPIC}
   */
  Map<TopicPartition, String> discover() {
    Set<String> topics = named;
    if (pattern != null) {
      topics = new TreeSet<>();
      for (String topic : KafkaCalls.reach(admin.listTopics().names(), options.client())) {
        if (pattern.matcher(topic).find()) {
          topics.add(topic);
        }
      }
    }
    Map<TopicPartition, String> found = new HashMap<>();
    admin
        .describeTopics(topics)
        .topicNameValues()
        .forEach(
            (topic, answer) -> {
              try {
                TopicDescription description = KafkaCalls.reach(answer, options.client());
                description
                    .partitions()
                    .forEach(
                        p ->
                            found.put(
                                new TopicPartition(topic, p.partition()),
                                description.topicId().toString()));
              } catch (UnknownTopicOrPartitionException e) {
                throw EosKafkaException.of("EOSKAFKA_NO_SUCH_TOPIC", Map.of("topic", topic), e);
              }
            });
    if (options.strategy() == SourceOptions.Strategy.ASSIGN) {
      for (TopicPartition partition : assigned) {
        if (!found.containsKey(partition)) {
          throw EosKafkaException.of("EOSKAFKA_NO_SUCH_TOPIC", Map.of("topic", partition));
        }
      }
      found.keySet().retainAll(assigned);
    }
    return found;
  }

  /** The first offset that each log still has. */
  Map<TopicPartition, Long> earliest(Collection<TopicPartition> partitions) {
    return list(partitions, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED);
  }

  /** The end of each log: the high watermark. */
  Map<TopicPartition, Long> highWatermarks(Collection<TopicPartition> partitions) {
    return list(partitions, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED);
  }

  /** How far the source may read: the last stable offset, or the high watermark. */
  Map<TopicPartition, Long> readable(Collection<TopicPartition> partitions) {
    return list(partitions, OffsetSpec.latest(), isolation());
  }

  /**
   * The first record's offset at or after a time, in milliseconds since 1970; without an entry
   * where there is none.
   */
  Map<TopicPartition, Long> atOrAfter(Map<TopicPartition, Long> timestamps) {
    Map<TopicPartition, OffsetSpec> wanted = new HashMap<>();
    timestamps.forEach((p, timestamp) -> wanted.put(p, OffsetSpec.forTimestamp(timestamp)));
    Map<TopicPartition, Long> found = list(wanted, isolation());
    found.values().removeIf(offset -> offset < 0);
    return found;
  }

  private IsolationLevel isolation() {
    return options.readCommitted()
        ? IsolationLevel.READ_COMMITTED
        : IsolationLevel.READ_UNCOMMITTED;
  }

  private Map<TopicPartition, Long> list(
      Collection<TopicPartition> partitions, OffsetSpec spec, IsolationLevel isolation) {
    Map<TopicPartition, OffsetSpec> wanted = new HashMap<>();
    partitions.forEach(p -> wanted.put(p, spec));
    return list(wanted, isolation);
  }

  private Map<TopicPartition, Long> list(
      Map<TopicPartition, OffsetSpec> wanted, IsolationLevel isolation) {
    for (long left = options.fetchOffset().attempts(); ; left--) {
      try {
        Map<TopicPartition, Long> found = new HashMap<>();
        KafkaCalls.get(admin.listOffsets(wanted, new ListOffsetsOptions(isolation)).all())
            .forEach((partition, offset) -> found.put(partition, offset.offset()));
        return found;
      } catch (RetriableException e) {
        if (left <= 1) {
          throw e;
        }
        LOG.info("Offsets are asked for again: {}", e.toString());
        KafkaCalls.sleep(options.fetchOffset().intervalMs());
      }
    }
  }
}
