package io.eoskafka.task;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.group.GroupOffsets;
import io.eoskafka.transaction.ExecutorClients;
import io.eoskafka.wire.ConnectedBrokers;
import io.eoskafka.wire.KafkaCalls;
import io.eoskafka.wire.TopicIds;
import java.time.Duration;
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
 * Which ranges of a batch can no longer be read because their topics were deleted.
 *
 * <p>Two sources must agree: a broker with stale metadata may not know a new topic yet, but a group
 * loses its offset of a partition only with the topic, and each start is committed before it is
 * planned. If that broker was also the group's coordinator, both answers come from the same broker.
 * So in the end no connected broker may know the topic.
 */
public final class GoneRanges {
  /** An answer takes milliseconds, but a call with a shorter timeout than this would miss it. */
  private static final int LEAST_MS = 500;

  private static final int SOON_MS = 5_000;

  /** By default, a broker that has died stays in the other brokers' lists for nine seconds. */
  private static final Duration PATIENCE = Duration.ofSeconds(15);

  private static final long LOOK_AGAIN_MS = 500;

  private GoneRanges() {}

  /**
   * Asks again for a while if not all connected brokers confirm that a topic was deleted.
   *
   * @param source client settings of the source
   * @param group the source's group, or null for a batch query, which has none
   * @return the partitions whose topic no longer exists or is not the one that was planned
   */
  public static Set<TopicPartition> of(
      ClientSettings source, String group, Collection<SlotRange> ranges) {
    long deadline = System.nanoTime() + PATIENCE.toNanos();
    while (true) {
      Look look = look(source, group, ranges, () -> null);
      if (look.unconfirmed().isEmpty() || System.nanoTime() > deadline) {
        return look.gone();
      }
      KafkaCalls.sleep(LOOK_AGAIN_MS);
    }
  }

  /**
   * The same for a reader, which asks once: it must not miss the record that it is waiting for.
   *
   * @param mostMs how long brokers may take to answer
   */
  public static Set<TopicPartition> within(
      long mostMs, ClientSettings source, String group, Collection<SlotRange> ranges) {
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(Math.min(mostMs, SOON_MS));
    return look(
            source,
            group,
            ranges,
            () -> (int) Math.max(LEAST_MS, TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime())))
        .gone();
  }

  /**
   * The brokers' answers at one moment.
   *
   * @param unconfirmed the partitions that both sources report as deleted, but not all connected
   *     brokers
   */
  private record Look(Set<TopicPartition> gone, Set<TopicPartition> unconfirmed) {}

  /**
   * @param timeoutMs how long the next call may take; null for as long as the client lets it
   */
  private static Look look(
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
    Set<TopicPartition> unconfirmed = new HashSet<>(gone);
    if (!gone.isEmpty()) {
      unconfirmed.retainAll(known(admin, source, gone, ranges));
    }
    gone.removeAll(unconfirmed);
    return new Look(gone, unconfirmed);
  }

  /**
   * The partitions that a connected broker still knows as planned; all if a broker does not answer.
   */
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
