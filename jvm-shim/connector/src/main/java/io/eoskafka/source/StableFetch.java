package io.eoskafka.source;

import io.eoskafka.group.GroupOffsets;
import io.eoskafka.group.Membership;
import io.eoskafka.identity.Identity;
import io.eoskafka.transaction.DepartedDrivers;
import io.eoskafka.transaction.OpenTransactions;
import java.time.Duration;
import java.util.Collection;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;

/**
 * Fetches offsets that no open transaction holds, and aborts what former runs have left open, which
 * would hold them until its timeout.
 *
 * <p>What it returns comes from the coordinator at which the driver has joined. The admin client
 * may ask a former coordinator that is cut off from the other brokers and still answers.
 */
final class StableFetch {
  /** One try; between tries transactions are aborted again. */
  private static final Duration TRY = Duration.ofSeconds(2);

  /** A broker that restarts may hold up transaction markers for this long. */
  private static final Duration TIMEOUT = Duration.ofSeconds(60);

  private final GroupOffsets offsets;
  private final Membership member;
  private final OpenTransactions transactions;
  private final Identity identity;

  /** Null unless the group is shared. */
  private final DepartedDrivers gone;

  private long waitMs;

  StableFetch(
      GroupOffsets offsets,
      Membership member,
      OpenTransactions transactions,
      Identity identity,
      DepartedDrivers gone) {
    this.offsets = offsets;
    this.member = member;
    this.transactions = transactions;
    this.identity = identity;
    this.gone = gone;
  }

  /**
   * @param own whether this driver's own producers may hold offsets that it does not know of
   */
  Map<TopicPartition, OffsetAndMetadata> fetch(Collection<TopicPartition> partitions, boolean own) {
    long deadline = System.nanoTime() + TIMEOUT.toNanos();
    while (true) {
      if (own) {
        // In a shared group also of the time when the checkpoint had its group for itself.
        Stream.of(identity.producersId(), identity.exclusiveId())
            .distinct()
            .forEach(transactions::end);
      }
      if (gone != null) {
        gone.endOpen();
      }
      if (partitions.isEmpty()) {
        return Map.of();
      }
      long began = System.nanoTime();
      try {
        offsets.stable(partitions, TRY);
        return member.committed(Set.copyOf(partitions));
      } catch (TimeoutException e) {
        if (System.nanoTime() > deadline) {
          throw GroupOffsets.stillUnstable(identity.group(), TIMEOUT, e);
        }
      } finally {
        waitMs += (System.nanoTime() - began) / 1_000_000;
      }
    }
  }

  /** How long this driver has waited in all for stable offsets, in milliseconds. */
  long waitMs() {
    return waitMs;
  }
}
