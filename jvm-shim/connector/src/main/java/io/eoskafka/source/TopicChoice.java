package io.eoskafka.source;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SourceOptions;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import org.apache.kafka.common.TopicPartition;

/** Which topic-partitions a source's options choose: one of the three options says it. */
final class TopicChoice {
  private final SourceOptions options;
  private final Set<String> hidden;
  private final Set<String> named = new TreeSet<>();
  private final Set<TopicPartition> assigned = new HashSet<>();

  /** Null unless topics are chosen by a pattern. */
  private final Pattern pattern;

  /**
   * @param hidden topics that a pattern does not find
   */
  TopicChoice(SourceOptions options, Set<String> hidden) {
    this.options = options;
    this.hidden = hidden;
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

  /** The topics that the options name; none for a pattern. */
  Set<String> named() {
    return Collections.unmodifiableSet(named);
  }

  /** The partitions that the options name one by one; none if they choose whole topics. */
  Set<TopicPartition> assigned() {
    return Collections.unmodifiableSet(assigned);
  }

  boolean isPattern() {
    return pattern != null;
  }

  boolean has(TopicPartition partition) {
    return switch (options.strategy()) {
      case SUBSCRIBE -> named.contains(partition.topic());
      case ASSIGN -> assigned.contains(partition);
      case SUBSCRIBE_PATTERN -> has(partition.topic());
    };
  }

  /** For a pattern only. */
  boolean has(String topic) {
    return !hidden.contains(topic) && pattern.matcher(topic).find();
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
              "expected",
              "a valid Java regular expression (" + e.getDescription() + ")"),
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
        Map.of("option", "assign", "value", json, "expected", "JSON such as {\"topic\":[0,1]}"),
        cause);
  }
}
