package io.eoskafka.source;

import java.util.Map;
import java.util.Set;
import java.util.SortedSet;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;

/** Which slot reads which partition: evenly, by the partitions' order. */
final class SlotShares {
  private final boolean keepsFormer;
  private final Map<TopicPartition, Integer> former = new TreeMap<>(PartitionOffsets.ORDER);

  /**
   * @param keepsFormer whether a partition keeps its slot from batch to batch, where that leaves
   *     the shares even, so that a resting producer goes on with its partitions while others come
   *     and go. An epoch that runs again has to have the same shares, whatever came before.
   */
  SlotShares(boolean keepsFormer) {
    this.keepsFormer = keepsFormer;
  }

  /**
   * @param partitions in {@link PartitionOffsets#ORDER}
   * @param slots at least 1
   * @param asBefore whether a partition keeps its slot in any case, even shares or not
   * @return a slot for each, from 0
   */
  Map<TopicPartition, Integer> of(
      SortedSet<TopicPartition> partitions, int slots, boolean asBefore) {
    Map<TopicPartition, Integer> shares = new TreeMap<>(PartitionOffsets.ORDER);
    int[] load = new int[slots];
    if (keepsFormer || asBefore) {
      int even = (partitions.size() + slots - 1) / slots;
      keepFormer(partitions, load, shares, asBefore ? partitions.size() : even);
    }
    for (TopicPartition partition : partitions) {
      if (!shares.containsKey(partition)) {
        int least = least(load);
        load[least]++;
        shares.put(partition, least);
      }
    }
    if (!asBefore) {
      former.clear();
    }
    // Also of those that are missing this time.
    former.putAll(shares);
    return shares;
  }

  private void keepFormer(
      Set<TopicPartition> partitions, int[] load, Map<TopicPartition, Integer> shares, int most) {
    former.forEach(
        (partition, slot) -> {
          if (partitions.contains(partition) && slot < load.length && load[slot] < most) {
            load[slot]++;
            shares.put(partition, slot);
          }
        });
  }

  /** The first of the slots with the fewest partitions. */
  private static int least(int[] load) {
    int least = 0;
    for (int slot = 1; slot < load.length; slot++) {
      least = load[slot] < load[least] ? slot : least;
    }
    return least;
  }
}
