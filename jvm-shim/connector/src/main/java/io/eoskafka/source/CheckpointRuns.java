package io.eoskafka.source;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.group.GroupInspector;
import io.eoskafka.identity.Fence;
import io.eoskafka.identity.Identity;
import java.util.Map;
import java.util.Optional;

/**
 * Notices that a later run has started on the same checkpoint, or on a copy, in a shared group
 * whose members have no instance ids.
 *
 * <p>Such a member is not fenced if it was away for longer than its session, and it would end the
 * transactions of the later run.
 */
final class CheckpointRuns {
  private final String run;
  private final CheckpointFiles files;
  private final Identity identity;

  /** The group's generation at the last check. */
  private int checkedGeneration = -1;

  /**
   * @param run unique per run of the source
   */
  CheckpointRuns(String run, CheckpointFiles files, Identity identity) {
    this.run = run;
    this.files = files;
    this.identity = identity;
  }

  /**
   * To be called after each poll of the membership. The first call claims the checkpoint.
   *
   * @param wasAway whether partitions were lost without having been given up
   * @throws EosKafkaException {@code EOSKAFKA_FENCED_BY_DRIVER}
   */
  void requireLast(Fence fence, boolean wasAway, GroupInspector members) {
    if (fence.generation() == checkedGeneration) {
      return;
    }
    boolean isFirst = checkedGeneration < 0;
    checkedGeneration = fence.generation();
    if (isFirst) {
      files.writeRun(run);
      return;
    }
    boolean isLast = files.readRun().equals(Optional.of(run));
    if (isLast && !wasAway) {
      return;
    }
    Optional<String> other = members.otherRun(fence, identity);
    if (!isLast || other.isPresent()) {
      throw EosKafkaException.of(
          "EOSKAFKA_FENCED_BY_DRIVER",
          Map.of(
              "group", identity.group(),
              "instance", "none",
              "owner", other.orElse("a later run with the checkpoint " + files.checkpoint())));
    }
  }
}
