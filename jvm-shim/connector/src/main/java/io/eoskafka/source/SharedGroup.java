package io.eoskafka.source;

import io.eoskafka.config.SinkOptions;
import io.eoskafka.task.SlotWork;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;

/** Several drivers are in the group, and partitions go from one to another between batches. */
final class SharedGroup implements GroupSharing {
  /** So a producer that rests goes on with its partitions while others come and go. */
  @Override
  public boolean keepsSlots() {
    return true;
  }

  @Override
  public void keepOwned(Map<TopicPartition, Long> ends, Set<TopicPartition> owned) {
    ends.keySet().retainAll(owned);
  }

  /** Its partitions are not given up while it runs. */
  @Override
  public long begin(BatchPlanner.Group group, Collection<SlotWork> work) {
    return group.beginShared(work);
  }

  /** Where other drivers have got to is not in this one's log; what it has of them stays. */
  @Override
  public Map<TopicPartition, Long> endsOfOthers(PartitionOffsets start, Set<TopicPartition> all) {
    Map<TopicPartition, Long> ends = new HashMap<>(start.offsets());
    ends.keySet().retainAll(all);
    return ends;
  }

  /** They may need longer, or their partitions come to this one. */
  @Override
  public boolean waitsForOthers() {
    return true;
  }

  /** The driver waits for a batch's tasks before it gives partitions up. */
  @Override
  public int commitIntervalMs(SinkOptions sink) {
    return 0;
  }

  /** The next batch's task may be another driver's, with transactional ids of its own. */
  @Override
  public boolean mayEndEarly() {
    return false;
  }

  @Override
  public boolean mayCommitNothing() {
    return true;
  }

  /** The driver gives no fence to an attempt of a batch that is over. */
  @Override
  public boolean hasLateAttempts() {
    return false;
  }
}
