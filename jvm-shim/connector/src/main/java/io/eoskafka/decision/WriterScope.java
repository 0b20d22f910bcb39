package io.eoskafka.decision;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.transaction.TransactionalId;
import java.io.Serializable;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * What the writers of one epoch need to know.
 *
 * @param series of transactional ids within the run
 * @param formerPresence by writer, the key of its presence record of the last epoch, where that is
 *     in the partition of its next one: it removes it with its own transaction
 * @param writing the numbers of the writers whose rows are to be written, or null for all; the
 *     others only count and digest theirs, since they are there already
 * @param registerTopics see {@link io.eoskafka.config.SinkOptions}
 */
public record WriterScope(
    String ownerId,
    String transactionalIdPrefix,
    long run,
    IdSeries series,
    long epoch,
    ClientSettings sink,
    int transactionTimeoutMs,
    String decisionTopic,
    List<Integer> presencePartitions,
    Map<Integer, String> formerPresence,
    Set<Integer> writing,
    List<String> registerTopics)
    implements Serializable {

  public boolean isWriting(int writer) {
    return writing == null || writing.contains(writer);
  }

  public String transactionalId(int writer, int stageAttempt, int attempt) {
    return TransactionalId.ofWriter(
        transactionalIdPrefix,
        ownerId,
        run,
        series.of(writer),
        epoch,
        writer,
        stageAttempt,
        attempt);
  }

  /** Spread over the partitions that may hold markers. */
  public int presencePartition(int writer) {
    return presencePartition(writer, presencePartitions);
  }

  static int presencePartition(int writer, List<Integer> partitions) {
    return partitions.get(writer % partitions.size());
  }

  public String presenceKey(String transactionalId) {
    return DecisionLog.presenceKey(ownerId, epoch, transactionalId);
  }
}
