package io.eoskafka.source;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.identity.Identity;
import io.eoskafka.identity.Stamp;
import io.eoskafka.spark.RunningQuery;
import java.util.Map;
import java.util.OptionalLong;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Batches in Spark's log that the built-in connector has planned, or this one without its sink: how
 * far they go, and whether a run of this connector with its sink has taken them over.
 */
final class ForeignBatches {
  private static final Logger LOG = LoggerFactory.getLogger(ForeignBatches.class);

  private final CheckpointFiles files;
  private final Identity identity;

  ForeignBatches(CheckpointFiles files, Identity identity) {
    this.files = files;
    this.identity = identity;
  }

  /**
   * The last batch before the one that is about to be planned, if others have logged it and no run
   * has taken it over; otherwise -1. Offsets do not show this: a batch that ended early also leaves
   * the group behind Spark's log.
   */
  long last(PartitionOffsets sparkStart, RunningQuery query) {
    if (sparkStart == null || sparkStart.isOurs()) {
      return -1;
    }
    long last = query.lastDone().orElse(-1);
    if (isTakenOver(query)) {
      return -1;
    }
    LOG.info(
        "Batches up to {} were logged by another connector or sink; continuing from Spark's log",
        last);
    return last;
  }

  /**
   * Whether a run of this connector with its sink has gone on from the last batch of others in
   * Spark's log; also if that batch is still open, and this connector has run it.
   */
  boolean isTakenOver(RunningQuery query) {
    OptionalLong taken = files.readTakenOver();
    return taken.isPresent()
        && (taken.equals(query.lastDone()) || taken.equals(query.lastPlanned()));
  }

  /**
   * A batch that others had planned and not finished has been run here. Called before Spark logs it
   * as done: the log keeps the text of others, which says nothing of what the batch has left, nor
   * of what the next one commits.
   */
  void takeOver(long batch) {
    files.writeTakenOver(batch);
  }

  /**
   * Where the group has offsets of the last batch of others, that batch was run here, and the file
   * that says so is missing, alone or with all files that this connector keeps: what the batch has
   * left, if it ended early, only the group knows.
   *
   * @throws EosKafkaException {@code EOSKAFKA_GROUP_BEHIND_LOG}
   */
  void requireNotRunHere(
      long last, Map<TopicPartition, OffsetAndMetadata> committed, PartitionOffsets sparkStart) {
    boolean wasRunHere =
        committed.values().stream()
            .map(offset -> Stamp.parse(offset.metadata()).orElseThrow())
            .anyMatch(stamp -> stamp.tookEffect() && stamp.epoch() >= last);
    if (!wasRunHere) {
      return;
    }
    committed.forEach(
        (partition, offset) -> {
          Long logged = sparkStart.offsets().get(partition);
          if (logged != null && offset.offset() < logged) {
            throw behindLog(identity, partition, offset.offset(), logged);
          }
        });
  }

  static EosKafkaException behindLog(
      Identity identity, TopicPartition partition, long committed, long logged) {
    return EosKafkaException.of(
        "EOSKAFKA_GROUP_BEHIND_LOG",
        Map.of(
            "group", identity.group(),
            "partition", partition,
            "offset", committed,
            "logged", logged));
  }
}
