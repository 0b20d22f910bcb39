package io.eoskafka.source;

import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.function.LongSupplier;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Looks from time to time whether a log that does not grow has another leader by now.
 *
 * <p>A leader that is cut off from the controllers goes on answering with an end that no longer
 * moves. The admin client keeps the leader of a partition for as long as it answers, so without
 * this a query would wait for records, without an error, until that broker is back.
 */
final class StalledLogs {
  private static final Logger LOG = LoggerFactory.getLogger(StalledLogs.class);
  private static final Duration PAUSE = Duration.ofSeconds(30);

  private final Function<Collection<TopicPartition>, Map<TopicPartition, Long>> ends;
  private final Function<Set<TopicPartition>, Map<TopicPartition, Long>> newestEnds;
  private final LongSupplier nanoTime;

  private Map<TopicPartition, Long> before = Map.of();
  private long comparedNanos;

  /** Ends that newer leaders have named, until those that are asked first get there. */
  private final Map<TopicPartition, Long> corrected = new HashMap<>();

  /**
   * @param ends how far partitions can be read, as any leader says
   * @param newestEnds the same as the leaders say that were elected last; empty if they cannot
   */
  StalledLogs(
      Function<Collection<TopicPartition>, Map<TopicPartition, Long>> ends,
      Function<Set<TopicPartition>, Map<TopicPartition, Long>> newestEnds,
      LongSupplier nanoTime) {
    this.ends = ends;
    this.newestEnds = newestEnds;
    this.nanoTime = nanoTime;
    comparedNanos = nanoTime.getAsLong();
  }

  /** How far these partitions can be read. */
  Map<TopicPartition, Long> ends(Collection<TopicPartition> partitions) {
    Map<TopicPartition, Long> named = ends.apply(partitions);
    corrected.entrySet().removeIf(each -> isReached(each.getValue(), named.get(each.getKey())));
    Map<TopicPartition, Long> found = new HashMap<>(named);
    corrected.forEach((partition, end) -> found.computeIfPresent(partition, (p, former) -> end));
    if (nanoTime.getAsLong() - comparedNanos < PAUSE.toNanos()) {
      return found;
    }
    Set<TopicPartition> stalled = new HashSet<>(found.keySet());
    stalled.removeIf(partition -> !found.get(partition).equals(before.get(partition)));
    if (!stalled.isEmpty()) {
      newestEnds
          .apply(stalled)
          .forEach(
              (partition, end) -> {
                if (end <= named.get(partition)) {
                  // Also what a newer leader has named before: the log may have been cut since.
                  corrected.remove(partition);
                  found.put(partition, named.get(partition));
                } else if (!end.equals(corrected.put(partition, end))) {
                  LOG.warn(
                      "A former leader has named {} as the end of {}, and the newest one names {}",
                      named.get(partition),
                      partition,
                      end);
                  found.put(partition, end);
                }
              });
    }
    before = Map.copyOf(found);
    comparedNanos = nanoTime.getAsLong();
    return found;
  }

  private static boolean isReached(long corrected, Long end) {
    return end != null && end >= corrected;
  }
}
