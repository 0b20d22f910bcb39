package io.eoskafka.decision;

import com.fasterxml.jackson.databind.JsonNode;
import io.eoskafka.config.EosKafkaException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** What the decision topic says of one query: its entries, taken in the order of the log. */
final class DecisionEntries {
  private final String topic;
  private final String queryId;
  private final Map<Integer, String> parts = new TreeMap<>();
  private long run;
  private String claimedBy;

  DecisionEntries(String topic, String queryId) {
    this.topic = topic;
    this.queryId = queryId;
  }

  /**
   * @param record of the query's partition; those of other queries change nothing
   * @throws EosKafkaException {@code EOSKAFKA_DECISION_UNREADABLE} if it is none that a driver of
   *     this query writes, {@code EOSKAFKA_NEWER_DECISIONS}
   */
  void take(ConsumerRecord<byte[], byte[]> record) {
    String key = record.key() == null ? "" : new String(record.key(), StandardCharsets.UTF_8);
    try {
      if (key.equals("run:" + queryId)) {
        if (record.value() == null) {
          // A query is forgotten as a whole.
          run = 0;
          claimedBy = null;
          parts.clear();
        } else {
          takeRun(record);
        }
      } else if (key.startsWith("decision:" + queryId + ":") && record.value() != null) {
        takePart(key.substring(key.lastIndexOf(':') + 1), record);
      }
    } catch (IllegalArgumentException e) {
      throw unreadable(key, e);
    }
  }

  private void takeRun(ConsumerRecord<byte[], byte[]> record) {
    JsonNode node = Entry.parse(text(record));
    long version = Entry.number(node, "version", 0, Integer.MAX_VALUE);
    if (version > DecisionTopic.VERSION) {
      throw EosKafkaException.of(
          "EOSKAFKA_NEWER_DECISIONS", Map.of("topic", topic, "record", node));
    }
    Entry.require(version == DecisionTopic.VERSION, "its version is " + version);
    run = Entry.number(node, "run", 1, DecisionTopic.MAX_NUMBER);
    claimedBy = Entry.text(node, "decisionId");
  }

  private void takePart(String number, ConsumerRecord<byte[], byte[]> record) {
    Entry.require(number.matches("\\d{1,6}"), "its key names no part of a decision");
    int part = Integer.parseInt(number);
    if (part == 0) {
      parts.clear(); // a part of a former decision that was a longer one may be left
    }
    parts.put(part, text(record));
  }

  private static String text(ConsumerRecord<byte[], byte[]> record) {
    return new String(record.value(), StandardCharsets.UTF_8);
  }

  /** The number of the last run; 0 if there is no entry of the query. */
  long run() {
    return run;
  }

  /** The decision id that has claimed the last run; null if there is no entry of the query. */
  String claimedBy() {
    return claimedBy;
  }

  /**
   * The last decision, if there is one.
   *
   * @param decisionId the query's
   * @param partitions of the decision topic
   * @throws EosKafkaException {@code EOSKAFKA_DECISION_UNREADABLE} if it is none that a driver of
   *     the query can have made
   */
  Optional<Decision> last(String decisionId, int partitions) {
    try {
      Optional<Decision> last = Decision.decode(List.copyOf(parts.values()));
      String prefix = decisionId.substring(0, decisionId.lastIndexOf("-" + queryId));
      last.ifPresent(decision -> decision.requireOf(prefix, queryId, run, partitions));
      return last;
    } catch (IllegalArgumentException e) {
      throw unreadable("decision:" + queryId, e);
    }
  }

  private EosKafkaException unreadable(String key, IllegalArgumentException problem) {
    return EosKafkaException.of(
        "EOSKAFKA_DECISION_UNREADABLE",
        Map.of("topic", topic, "key", key, "problem", problem.getMessage()),
        problem);
  }
}
