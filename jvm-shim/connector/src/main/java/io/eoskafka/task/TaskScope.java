package io.eoskafka.task;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.identity.Fence;
import io.eoskafka.identity.Identity;
import io.eoskafka.identity.Stamp;
import java.io.Serializable;
import java.util.List;

/**
 * The driver's word that a batch runs in task scope, and all that a task needs for it. Readers and
 * writers of the batch carry the same one; a task whose two sides differ fails before it sends.
 *
 * @param token unique per batch and run
 * @param epoch the micro-batch
 * @param run of the source, unique: its driver's address for {@link FenceLeases}
 * @param plan in a shared group the number of the batch's plan, else 0
 * @param fence the driver's, from its last poll before the batch; in a shared group it may have
 *     another one when the task commits
 * @param commitIntervalMs how often a task commits what it has done so far; 0 for at its end alone
 * @param endAfterMs when a task stops to read, to commit in time; 0 for at its planned end alone
 * @param source client settings of the source, to read offsets with
 * @param skipsDeleted {@code failOnDataLoss=false}: what was deleted counts as read
 * @param sink client settings of the producers
 * @param registerTopics see {@link io.eoskafka.config.SinkOptions}
 */
public record TaskScope(
    String token,
    long epoch,
    Identity identity,
    String run,
    long plan,
    Fence fence,
    String transactionalIdPrefix,
    int transactionTimeoutMs,
    int commitIntervalMs,
    int endAfterMs,
    ClientSettings source,
    boolean skipsDeleted,
    ClientSettings sink,
    List<String> registerTopics)
    implements Serializable {

  /** What the offsets of a range are committed with. */
  Stamp stamp(SlotRange range) {
    return new Stamp(Stamp.Scope.TASK, identity.id(), range.topicId(), Stamp.SAME_CLUSTER, epoch);
  }
}
