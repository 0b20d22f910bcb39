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
   * What the driver owns.
   *
   * @param fence what the group coordinator checks now
   * @param terms the partitions, each with a number that is another one whenever it was owned by
   *     somebody else in between, or may have been
   * @param ownershipLosses another number whenever partitions were lost without having been given
   *     up: then producers of this driver may hold offsets that are no longer its own
   */
  record Ownership(Fence fence, Map<TopicPartition, Long> terms, long ownershipLosses) {}

  /**
   * Thrown where partitions have gone to another driver before their offsets could be committed.
   */
  final class MovedException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    MovedException(Throwable cause) {
      super(cause);
    }
  }

  /**
   * Refuses a group that somebody of another kind is in, before joining: a join would disturb him.
   *
   * @throws EosKafkaException {@code EOSKAFKA_FOREIGN_MEMBER}
   */
  void refuseForeignMembers();

  /**
   * Joins, or finishes a join that is due.
   *
   * @param known all partitions of the source; not empty the first time
   * @throws EosKafkaException {@code EOSKAFKA_FENCED_BY_DRIVER} if another driver has taken this
   *     one's place, {@code EOSKAFKA_FOREIGN_MEMBER} if the group has a member that must not be
   *     there
   */
  Ownership poll(Set<TopicPartition> known);

  /**
   * Fails if another driver has taken this one's place. To be called before Spark logs a batch:
   * where two drivers write one log, Spark's own error names neither.
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
   * Commits offsets outside a transaction, fenced. No copy of them comes after what this driver or
   * its tasks commit next.
   *
   * @param since the terms in which they were found
   * @throws EosKafkaException {@code EOSKAFKA_FENCED_BY_DRIVER}, {@code EOSKAFKA_COMMIT_UNANSWERED}
   * @throws MovedException if one of the partitions did not stay owned; nothing is lost
   */
  void commit(Map<TopicPartition, OffsetAndMetadata> offsets, Map<TopicPartition, Long> since);

  /**
   * The same for a query whose sink is not ours. Spark's log is authoritative there, so a late copy
   * does no harm, and a commit without an answer may be repeated.
   */
  void commitAsLogged(
      Map<TopicPartition, OffsetAndMetadata> offsets, Map<TopicPartition, Long> since);

  /**
   * The stable offsets, as the coordinator says at which this driver has joined. To let a driver
   * join it needs other brokers, which a former coordinator that is cut off from them does not
   * have.
   *
   * @return partitions with no offset are absent
   * @throws org.apache.kafka.common.errors.TimeoutException if one is not stable soon
   */
  Map<TopicPartition, OffsetAndMetadata> committed(Set<TopicPartition> partitions);

  /** Leaves the group, so that others need not wait for the end of the session. */
  @Override
  void close();
}
