package io.eoskafka.source;

import io.eoskafka.config.SinkOptions;
import io.eoskafka.task.SlotWork;
import java.util.Collection;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;

/** One driver has the group for itself: all partitions are its own, from start to end. */
final class ExclusiveGroup implements GroupSharing {
  @Override
  public boolean keepsSlots() {
    return false;
  }

  @Override
  public void keepOwned(Map<TopicPartition, Long> ends, Set<TopicPartition> owned) {}

  @Override
  public long begin(BatchPlanner.Group group, Collection<SlotWork> work) {
    return 0;
  }

  @Override
  public Map<TopicPartition, Long> endsOfOthers(PartitionOffsets start, Set<TopicPartition> all) {
    return Map.of();
  }

  @Override
  public boolean waitsForOthers() {
    return false;
  }

  @Override
  public int commitIntervalMs(SinkOptions sink) {
    return sink.commitIntervalMs();
  }

  @Override
  public boolean mayEndEarly() {
    return true;
  }

  @Override
  public boolean mayCommitNothing() {
    return false;
  }

  @Override
  public boolean hasLateAttempts() {
    return true;
  }
}
