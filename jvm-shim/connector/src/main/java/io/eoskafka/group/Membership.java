package io.eoskafka.group;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.identity.Fence;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** The driver's place in its group. Called on the query's thread. */
public interface Membership extends AutoCloseable {

  /**
   * The partitions that the driver owns.
   *
   * @param fence what the group coordinator checks at present
   * @param terms the partitions, each with a number that changes whenever another member has, or
   *     may have, owned the partition in between
   * @param ownershipLosses a number that changes whenever partitions were lost without having been
   *     given up: then producers of this driver may hold offsets that it no longer owns
   */
  record Ownership(Fence fence, Map<TopicPartition, Long> terms, long ownershipLosses) {}

  /** Thrown if partitions have moved to another driver before their offsets could be committed. */
  final class MovedException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    MovedException(Throwable cause) {
      super(cause);
    }
  }

  /**
   * Refuses a group with a member of another kind, before joining: a join would disturb that
   * member.
   *
   * @throws EosKafkaException {@code EOSKAFKA_FOREIGN_MEMBER}
   */
  void refuseForeignMembers();

  /**
   * Joins the group, or completes a pending join.
   *
   * @param known all partitions of the source; not empty the first time
   * @throws EosKafkaException {@code EOSKAFKA_FENCED_BY_DRIVER} if another driver has taken this
   *     one's place, {@code EOSKAFKA_FOREIGN_MEMBER} if the group has a member that it must not
   *     have
   */
  Ownership poll(Set<TopicPartition> known);

  /**
   * Fails if another driver has taken this one's place. To be called before Spark logs a batch: if
   * two drivers write the same log, Spark's own error names neither.
   *
   * @throws EosKafkaException {@code EOSKAFKA_FENCED_BY_DRIVER}
   */
  void requireOwnership();

  /**
   * Whether another driver has this one's place now.
   *
   * @param now who is in the group
   */
  boolean isTakenOver(GroupInspector now);

  /**
   * Commits offsets outside a transaction, with the fence. No late copy of them can overwrite what
   * this driver or its tasks commit next.
   *
   * @param since the terms in which they were found
   * @throws EosKafkaException {@code EOSKAFKA_FENCED_BY_DRIVER}, {@code EOSKAFKA_COMMIT_UNANSWERED}
   * @throws MovedException if the driver has lost one of the partitions; no data is lost
   */
  void commit(Map<TopicPartition, OffsetAndMetadata> offsets, Map<TopicPartition, Long> since);

  /**
   * The same for a query with another sink. Spark's log is authoritative there, so a late copy does
   * no harm, and a commit without an answer may be retried.
   */
  void commitAsLogged(
      Map<TopicPartition, OffsetAndMetadata> offsets, Map<TopicPartition, Long> since);

  /**
   * The stable offsets, from the coordinator at which this driver has joined. A coordinator needs
   * other brokers to let a driver join, so it cannot be a former one that is cut off from them.
   *
   * @return partitions with no offset are absent
   * @throws org.apache.kafka.common.errors.TimeoutException if one is not stable soon
   */
  Map<TopicPartition, OffsetAndMetadata> committed(Set<TopicPartition> partitions);

  /** Leaves the group, so that other members need not wait until the session expires. */
  @Override
  void close();
}
