package io.eoskafka.task;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.group.GroupOffsets;
import io.eoskafka.transaction.ExecutorClients;
import io.eoskafka.wire.ConnectedBrokers;
import io.eoskafka.wire.TopicIds;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.requests.MetadataResponse;

/**
 * Which ranges of a batch nobody can read any more, since their topics were deleted.
 *
 * <p>Two witnesses: a broker that has fallen behind may not know a new topic yet, but a group loses
 * its offset of a partition only with the topic, and each start is committed before it is planned.
 * The same broker may be both, if it was the group's coordinator. So in the end no connected broker
 * may know the topic.
 */
public final class GoneRanges {
  /** An answer takes milliseconds; a look that has less time than this would miss it. */
  private static final int LEAST_MS = 500;

  private static final int SOON_MS = 5_000;

  private GoneRanges() {}

  /**
   * @param source client settings of the source
   * @param group the source's, or null for a batch query, which has none
   * @return the partitions of those whose topic is not the one that was planned, or not there
   */
  public static Set<TopicPartition> of(
      ClientSettings source, String group, Collection<SlotRange> ranges) {
    return of(source, group, ranges, () -> null);
  }

  /**
   * As the other one, for a reader, which must not miss what it waits for.
   *
   * @param mostMs how long brokers may take to answer
   */
  public static Set<TopicPartition> within(
      long mostMs, ClientSettings source, String group, Collection<SlotRange> ranges) {
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(Math.min(mostMs, SOON_MS));
    return of(
        source,
        group,
        ranges,
        () -> (int) Math.max(LEAST_MS, TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime())));
  }

  /**
   * @param timeoutMs how long the next call may take; null for as long as the client lets it
   */
  private static Set<TopicPartition> of(
      ClientSettings source,
      String group,
      Collection<SlotRange> ranges,
      Supplier<Integer> timeoutMs) {
    Admin admin = ExecutorClients.admin(source);
    Set<String> topics = new HashSet<>();
    ranges.forEach(range -> topics.add(range.topic()));
    Map<TopicPartition, String> there =
        TopicIds.present(
            admin, topics, source, new DescribeTopicsOptions().timeoutMs(timeoutMs.get()));
    Set<TopicPartition> gone = new HashSet<>();
    for (SlotRange range : ranges) {
      if (!range.topicId().equals(there.get(range.topicPartition()))) {
        gone.add(range.topicPartition());
      }
    }
    if (group != null && !gone.isEmpty()) {
      gone.removeAll(
          new GroupOffsets(admin, group)
              .committed(gone, new ListConsumerGroupOffsetsOptions().timeoutMs(timeoutMs.get()))
              .keySet());
    }
    if (!gone.isEmpty()) {
      gone.removeAll(known(admin, source, gone, ranges));
    }
    return gone;
  }

  /** Those that a connected broker still knows as planned; all if they cannot all be asked. */
  private static Set<TopicPartition> known(
      Admin admin,
      ClientSettings source,
      Set<TopicPartition> partitions,
      Collection<SlotRange> ranges) {
    Set<String> topics = new HashSet<>();
    partitions.forEach(partition -> topics.add(partition.topic()));
    return ConnectedBrokers.of(admin, source, topics)
        .map(answers -> known(answers.values(), ranges))
        .orElse(Set.copyOf(partitions));
  }

  static Set<TopicPartition> known(
      Collection<MetadataResponse> answers, Collection<SlotRange> ranges) {
    Map<TopicPartition, String> planned = new HashMap<>();
    ranges.forEach(range -> planned.put(range.topicPartition(), range.topicId()));
    Set<TopicPartition> known = new HashSet<>();
    for (MetadataResponse answer : answers) {
      for (MetadataResponse.TopicMetadata topic : answer.topicMetadata()) {
        topic.partitionMetadata().stream()
            .map(found -> found.topicPartition)
            .filter(partition -> topic.topicId().toString().equals(planned.get(partition)))
            .forEach(known::add);
      }
    }
    return known;
  }
}
