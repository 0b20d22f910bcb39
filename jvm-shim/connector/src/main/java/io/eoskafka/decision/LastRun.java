package io.eoskafka.decision;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.spark.Checkpoint;
import java.util.Map;
import java.util.Optional;

/** Which run has started last on a checkpoint, by a file in it. */
record LastRun(Checkpoint checkpoint, String run) {
  private static final String FILE = "eoskafka-last-run";

  /** This run has started. */
  void claim() {
    // Deleted before it is written: some file systems silently keep the former file.
    checkpoint.folder().delete(FILE);
    checkpoint.folder().write(FILE, run);
  }

  /**
   * Requires that no later run has started. A driver that was paused before another one started is
   * fenced only as the owners that it had opened by then.
   *
   * @throws EosKafkaException {@code EOSKAFKA_CHECKPOINT_TAKEN}
   */
  void require(long batch) {
    Optional<String> last = checkpoint.folder().read(FILE);
    if (!last.equals(Optional.of(run))) {
      throw EosKafkaException.of(
          "EOSKAFKA_CHECKPOINT_TAKEN",
          Map.of(
              "batch",
              batch,
              "checkpoint",
              checkpoint.location(),
              "run",
              run,
              "other",
              last.orElse("none")));
    }
  }
}
