package io.eoskafka.decision;

import com.fasterxml.jackson.databind.JsonNode;
import io.eoskafka.config.EosKafkaException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.LongSupplier;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/**
 * The entries of one query in the decision topic, taken in the order of the log.
 *
 * <p>They are read only after all entries have been taken. An entry that was replaced or removed
 * later is ignored, as in a compacted log: someone may have corrected an entry that someone else
 * had written.
 */
final class DecisionEntries {
  /** As a driver writes it: one of another form would be another key for compaction. */
  private static final Pattern PART = Pattern.compile("0|[1-9]\\d{0,5}");

  private final String topic;
  private final String runKey;
  private final String decisionKey;
  private final String ownerId;
  private final Map<Integer, String> parts = new TreeMap<>();
  private final TreeSet<String> strangeKeys = new TreeSet<>();
  private String run;

  /**
   * The entry of the last run.
   *
   * @param number the run's
   * @param decisionId the one that has claimed it
   */
  record Run(long number, String decisionId) {}

  DecisionEntries(String topic, String ownerId) {
    this.topic = topic;
    this.ownerId = ownerId;
    runKey = "run:" + ownerId;
    decisionKey = "decision:" + ownerId + ":";
  }

  /**
   * @param record of the query's partition; those of other queries change nothing
   */
  void take(ConsumerRecord<byte[], byte[]> record) {
    String key = record.key() == null ? "" : text(record.key());
    String value = record.value() == null ? null : text(record.value());
    if (key.equals(runKey)) {
      run = value;
    } else if (key.startsWith(decisionKey)) {
      takePart(key, value);
    }
  }

  private void takePart(String key, String value) {
    String number = key.substring(decisionKey.length());
    if (!PART.matcher(number).matches()) {
      if (value == null) {
        strangeKeys.remove(key);
      } else {
        strangeKeys.add(key);
      }
      return;
    }
    int part = Integer.parseInt(number);
    if (value == null) {
      parts.remove(part);
      return;
    }
    if (part == 0) {
      parts.clear(); // those of a former decision
    }
    parts.put(part, value);
  }

  private static String text(byte[] bytes) {
    return new String(bytes, StandardCharsets.UTF_8);
  }

  /**
   * The last run; empty if there is no entry of the query.
   *
   * @throws EosKafkaException {@code EOSKAFKA_DECISION_UNREADABLE} if the entry is none that a
   *     driver writes, {@code EOSKAFKA_NEWER_DECISIONS}
   */
  Optional<Run> run() {
    if (run == null) {
      return Optional.empty();
    }
    try {
      JsonNode node = Entry.parse(run);
      long version = Entry.number(node, "version", 0, Integer.MAX_VALUE);
      if (version > DecisionTopic.VERSION) {
        throw EosKafkaException.of(
            "EOSKAFKA_NEWER_DECISIONS", Map.of("topic", topic, "record", node));
      }
      Entry.require(version == DecisionTopic.VERSION, "its version is " + version);
      return Optional.of(
          new Run(
              Entry.number(node, "run", 1, DecisionTopic.MAX_NUMBER),
              Entry.text(node, "decisionId")));
    } catch (IllegalArgumentException e) {
      throw unreadable(runKey, e.getMessage(), e);
    }
  }

  /**
   * The number of the next run.
   *
   * @param first that of the query's first run; asked if there is no entry
   * @throws EosKafkaException {@code EOSKAFKA_DECISION_UNREADABLE} if it would be one that no later
   *     start can read: then others have used up the numbers
   */
  long nextRun(LongSupplier first) {
    long next = run().map(last -> last.number() + 1).orElseGet(first::getAsLong);
    if (next > DecisionTopic.MAX_NUMBER) {
      throw unreadable(runKey, "the next run would have the number " + next, null);
    }
    return next;
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
    if (!strangeKeys.isEmpty()) {
      throw unreadable(strangeKeys.first(), "its key names no part of a decision", null);
    }
    if (!parts.containsKey(0)) {
      // Any others are left of a former decision that was a longer one.
      return Optional.empty();
    }
    long lastRun = run().map(Run::number).orElse(0L);
    try {
      Optional<Decision> last = Decision.decode(List.copyOf(parts.values()));
      String prefix = decisionId.substring(0, decisionId.lastIndexOf("-" + ownerId));
      last.ifPresent(decision -> decision.requireOf(prefix, ownerId, lastRun, partitions));
      return last;
    } catch (IllegalArgumentException e) {
      throw unreadable(decisionKey + 0, e.getMessage(), e);
    }
  }

  private EosKafkaException unreadable(String key, String problem, Exception cause) {
    return EosKafkaException.of(
        "EOSKAFKA_DECISION_UNREADABLE",
        Map.of("topic", topic, "key", key, "problem", problem),
        cause);
  }
}
