package io.eoskafka.source;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SinkOptions;
import io.eoskafka.config.SourceOptions;
import io.eoskafka.task.SlotRange;
import io.eoskafka.task.SlotWork;
import io.eoskafka.wire.Admins;
import io.eoskafka.wire.BrokerVersions;
import io.eoskafka.wire.NewestLeaders;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A batch query over topics, from one offset of each partition to another. It is in no group, and
 * its ends are those of the moment in which it is planned.
 */
final class EosKafkaBatch implements Batch {
  private static final Logger LOG = LoggerFactory.getLogger(EosKafkaBatch.class);

  private final SourceOptions options;

  EosKafkaBatch(SourceOptions options) {
    this.options = options;
    if (!options.limits().isNone()) {
      LOG.warn("{} do not count in a batch query", SourceOptions.BatchLimits.NAMES);
    }
  }

  @Override
  public InputPartition[] planInputPartitions() {
    try (Admin admin = Admins.create(options.client(), "eoskafka-batch")) {
      BrokerVersions.require(admin, options.client());
      Topics topics =
          new Topics(
              admin,
              options,
              Set.of(SinkOptions.DEFAULT_DECISION_TOPIC),
              (times, isolation) ->
                  NewestLeaders.offsets(admin, options.client(), times, isolation));
      Map<TopicPartition, String> ids = topics.discoverAll();
      if (ids.isEmpty()) {
        throw EosKafkaException.of(
            "EOSKAFKA_NO_SUCH_TOPIC", Map.of("topic", options.strategyValue()));
      }
      Bounds bounds = new Bounds(options, topics);
      Map<TopicPartition, Long> starts = bounds.batchStarts(ids.keySet());
      TreeMap<TopicPartition, Long> ends = new TreeMap<>(PartitionOffsets.ORDER);
      ends.putAll(bounds.batchEnds(ids.keySet()));
      // Afterwards: what was looked up is within what is there, but for retention.
      Map<TopicPartition, Long> earliest = topics.earliest(ids.keySet());
      Map<TopicPartition, Long> readable = topics.readable(ids.keySet());
      if (!options.starting().isExplicit()) {
        starts.replaceAll((partition, start) -> Math.max(start, earliest.get(partition)));
      }
      if (!options.ending().isExplicit() && !options.ending().isByTime()) {
        ends.replaceAll((partition, end) -> Math.max(end, starts.get(partition)));
      }
      List<SlotRange> ranges = new ArrayList<>();
      ends.forEach(
          (partition, wanted) -> {
            long start = within(partition, starts.get(partition), earliest, readable);
            long end = within(partition, wanted, earliest, readable);
            if (start > end) {
              lost(partition, start, "the batch ends at offset " + end, end);
            }
            if (start < end) {
              ranges.add(
                  new SlotRange(
                      partition.topic(),
                      partition.partition(),
                      start,
                      start,
                      end,
                      ids.get(partition)));
            }
          });
      List<InputPartition> partitions = new ArrayList<>();
      for (SlotRange range : RangeSplit.cut(ranges, options.split())) {
        // Its consumer does not rest, since nobody would take it up again.
        partitions.add(
            new SlotPartition(
                new SlotWork(partitions.size(), List.of(range), null), new String[0], false));
      }
      return partitions.toArray(InputPartition[]::new);
    }
  }

  private long within(
      TopicPartition partition,
      long offset,
      Map<TopicPartition, Long> earliest,
      Map<TopicPartition, Long> readable) {
    long logStart = earliest.get(partition);
    long logEnd = Math.max(logStart, readable.get(partition));
    if (offset < logStart) {
      return lost(partition, offset, "the log now starts at " + logStart, logStart);
    }
    if (offset > logEnd) {
      return lost(partition, offset, "what can be read ends at " + logEnd, logEnd);
    }
    return offset;
  }

  private long lost(TopicPartition partition, long offset, String why, long next) {
    Map<String, Object> values =
        Map.of("partition", partition, "offset", offset, "why", why, "next", next);
    if (options.failOnDataLoss()) {
      throw EosKafkaException.of("EOSKAFKA_BATCH_OUT_OF_RANGE", values);
    }
    LOG.warn("Not all of a batch can be read, and failOnDataLoss is false: {}", values);
    return next;
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new SlotReaderFactory(UUID.randomUUID().toString(), 0, null, options, null);
  }
}
