package io.eoskafka.source;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.transaction.ExecutorClients;
import io.eoskafka.wire.NewestLeaders;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.LogTruncationException;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What the reader of a slot does if a position of its batch is not in the log: records were
 * deleted, the log was cut, or the broker that says so is not the leader any more.
 */
final class OutOfRangePositions {
  private static final Logger LOG = LoggerFactory.getLogger(OutOfRangePositions.class);

  private final Consumer<byte[], byte[]> consumer;
  private final ReadRequest request;
  private final Function<TopicPartition, PartitionCursor> cursors;
  private final java.util.function.Consumer<PartitionCursor> moved;
  private long count;
  private long losses;

  /**
   * @param request the batch that is read
   * @param cursors of its partitions, and of those that former batches have read
   * @param moved told of each cursor that continues elsewhere
   */
  OutOfRangePositions(
      Consumer<byte[], byte[]> consumer,
      ReadRequest request,
      Function<TopicPartition, PartitionCursor> cursors,
      java.util.function.Consumer<PartitionCursor> moved) {
    this.consumer = consumer;
    this.request = request;
    this.cursors = cursors;
    this.moved = moved;
  }

  /** How often a position was not in its log. */
  long count() {
    return count;
  }

  /** How often records were gone, and skipped. */
  long losses() {
    return losses;
  }

  /**
   * Says for each position where reading continues, and seeks it.
   *
   * @param topicIds by which the consumer fetches
   * @throws EosKafkaException if the query or the attempt has to stop
   */
  void resolve(OffsetOutOfRangeException lost, Map<String, Uuid> topicIds) {
    Map<TopicPartition, Long> positions = lost.offsetOutOfRangePartitions();
    count += positions.size();
    Map<TopicPartition, Long> first = consumer.beginningOffsets(positions.keySet());
    positions.forEach(
        (partition, position) -> {
          PartitionCursor cursor = cursors.apply(partition);
          cursor.isToldOf(topicIds);
          long logStart = first.get(partition);
          if (logStart <= position) {
            if (!(lost instanceof LogTruncationException)) {
              requireNewestLeaderAgrees(partition, position);
            }
            if (isCutAhead(cursor, position, lost)) {
              return;
            }
          }
          boolean isTruncated = lost instanceof LogTruncationException;
          if (position >= cursor.end() && logStart > position && !isTruncated) {
            // The request was sent before the partition was paused. All that the batch reads of it
            // was fetched, and the batch that reads on asks again.
            return;
          }
          request.dataLoss().skipWhileReading(partition, position, cursor.end(), logStart, lost);
          losses++;
          long logEnd =
              request.isOpen()
                  ? consumer.endOffsets(Set.of(partition)).get(partition)
                  : cursor.end();
          long next =
              DataLossPolicy.afterLoss(position, cursor.end(), logStart, logEnd, isTruncated);
          // Without its leader epoch: what is there now is read.
          cursor.skipTo(next);
          consumer.seek(partition, next);
          moved.accept(cursor);
        });
  }

  /**
   * Whether a log was cut where this consumer has only fetched ahead: nothing of that was handed
   * out, and it is dropped.
   *
   * @throws EosKafkaException {@code EOSKAFKA_LOG_TRUNCATED} if it was cut before that, also if
   *     this batch does not read the partition: the log may have other records from there on by
   *     now, and rows that were made of the former ones may be out. Only this consumer knows. The
   *     next attempt has another one and fetches its offsets, with their leader epochs in task
   *     scope.
   */
  private boolean isCutAhead(
      PartitionCursor cursor, long position, OffsetOutOfRangeException lost) {
    OffsetAndMetadata end =
        lost instanceof LogTruncationException cut
            ? cut.divergentOffsets().get(cursor.partition())
            : null;
    if (end == null) {
      return false;
    }
    if (cursor.isReading() || end.offset() < cursor.end()) {
      throw EosKafkaException.of(
          "EOSKAFKA_LOG_TRUNCATED",
          Map.of("partition", cursor.partition(), "from", position, "end", end.offset()),
          lost);
    }
    LOG.warn("The log of {} was cut to {}, beyond what was read", cursor.partition(), end.offset());
    // The next batch seeks it.
    cursor.giveUp(true);
    consumer.seek(cursor.partition(), position);
    return true;
  }

  /**
   * A position beyond the end of a log means that records are gone, unless the leader that has said
   * so is not the leader any more. Another attempt reads with a consumer of its own.
   */
  private void requireNewestLeaderAgrees(TopicPartition partition, long position) {
    Long end =
        NewestLeaders.highWatermarks(
                ExecutorClients.admin(request.client()), request.client(), Set.of(partition))
            .get(partition);
    if (end != null && position <= end) {
      throw EosKafkaException.of(
          "EOSKAFKA_LEADER_IS_FORMER",
          Map.of("partition", partition, "position", position, "end", end));
    }
  }
}
