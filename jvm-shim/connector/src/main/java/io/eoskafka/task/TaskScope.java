package io.eoskafka.task;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.identity.Fence;
import io.eoskafka.identity.Identity;
import io.eoskafka.identity.Stamp;
import java.io.Serializable;
import java.util.List;

/**
 * Tells a task that its batch runs in task scope, with everything that it needs for this. The
 * readers and writers of the batch carry the same one; if they differ in a task, it fails before it
 * sends.
 *
 * @param token unique per batch and run
 * @param epoch the micro-batch
 * @param run of the source, unique: {@link FenceLeases} finds the driver by it
 * @param plan in a shared group the number of the batch's plan, else 0
 * @param fence the driver's fence, from its last poll before the batch; in a shared group the
 *     driver may have another one when the task commits
 * @param commitIntervalMs how often a task commits what it has done so far; 0 if only at its end
 * @param endAfterMs when a task stops reading, to commit in time; 0 if only at its planned end
 * @param source client settings of the source, to read offsets with
 * @param skipsDeleted {@code failOnDataLoss=false}: deleted partitions count as read
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

  /** The stamp with which the offsets of a range are committed. */
  Stamp stamp(SlotRange range) {
    return new Stamp(Stamp.Scope.TASK, identity.id(), range.topicId(), Stamp.SAME_CLUSTER, epoch);
  }
}
