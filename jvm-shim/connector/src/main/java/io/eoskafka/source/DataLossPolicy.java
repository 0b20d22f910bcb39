package io.eoskafka.source;

import io.eoskafka.config.EosKafkaException;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What happens where records or partitions that a query needs no longer exist.
 *
 * @param failOnDataLoss the option: whether the query fails, or logs a warning and skips them
 */
record DataLossPolicy(boolean failOnDataLoss) {
  private static final Logger LOG = LoggerFactory.getLogger(DataLossPolicy.class);

  /**
   * The start itself, or the nearest offset that the log has.
   *
   * @throws EosKafkaException {@code EOSKAFKA_DATA_LOSS}
   */
  long keepWithinLog(TopicPartition partition, long start, long logStart, long logEnd) {
    if (start < logStart) {
      return skip(partition, start, "the log now starts at " + logStart, logStart);
    }
    if (start > logEnd) {
      return skip(partition, start, "the log now ends at " + logEnd, logEnd);
    }
    return start;
  }

  /**
   * An offset that a user has given.
   *
   * @throws EosKafkaException {@code EOSKAFKA_START_OUT_OF_RANGE}
   */
  long requireInLog(TopicPartition partition, long start, long logStart, long logEnd) {
    if (failOnDataLoss && (start < logStart || start > logEnd)) {
      throw EosKafkaException.of(
          "EOSKAFKA_START_OUT_OF_RANGE",
          Map.of("partition", partition, "offset", start, "first", logStart, "end", logEnd));
    }
    return start;
  }

  /**
   * Records from an offset on are gone.
   *
   * @param next where reading continues
   * @return {@code next}
   * @throws EosKafkaException {@code EOSKAFKA_DATA_LOSS}
   */
  long skip(TopicPartition partition, long offset, String why, long next) {
    Map<String, Object> values =
        Map.of("partition", partition, "offset", offset, "why", why, "next", next);
    if (failOnDataLoss) {
      throw EosKafkaException.of("EOSKAFKA_DATA_LOSS", values);
    }
    LOG.warn("Records are gone and skipped, since failOnDataLoss is false: {}", values);
    return next;
  }

  /**
   * Records that a reader was to read next are gone.
   *
   * @param end of the range
   * @param refusal what the consumer has said
   * @throws EosKafkaException {@code EOSKAFKA_DATA_LOSS_WHILE_READING}
   */
  void skipWhileReading(
      TopicPartition partition, long from, long end, long logStart, RuntimeException refusal) {
    Map<String, Object> values =
        Map.of("partition", partition, "from", from, "to", end, "logStart", logStart);
    if (failOnDataLoss) {
      throw EosKafkaException.of("EOSKAFKA_DATA_LOSS_WHILE_READING", values, refusal);
    }
    LOG.warn("Records are gone and skipped, since failOnDataLoss is false: {}", values);
  }

  /**
   * Where reading continues after that.
   *
   * @param logEnd what counts as the end of the log: of a range with a planned end that end
   * @param isTruncated whether the log has other records now at the offsets that were read
   */
  static long afterLoss(long from, long end, long logStart, long logEnd, boolean isTruncated) {
    if (logStart > from) {
      return Math.min(logStart, end);
    }
    return isTruncated && from < end ? from : logEnd;
  }

  /**
   * A partition does not exist any more.
   *
   * @param next the offset at which the query would continue, or null if it is not known
   * @throws EosKafkaException {@code EOSKAFKA_PARTITION_GONE}
   */
  void skipPartition(TopicPartition partition, Long next) {
    Map<String, Object> values =
        Map.of("partition", partition, "offset", next == null ? "unknown" : next);
    if (failOnDataLoss) {
      throw EosKafkaException.of("EOSKAFKA_PARTITION_GONE", values);
    }
    LOG.warn("A partition is gone, and failOnDataLoss is false: {}", values);
  }
}
