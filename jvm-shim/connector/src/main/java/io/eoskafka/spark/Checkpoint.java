package io.eoskafka.spark;

import io.eoskafka.config.EosKafkaException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * What a query's checkpoint says about its batches, read from Spark's own files; also for programs
 * that run outside of Spark.
 *
 * @param location of the checkpoint
 */
public record Checkpoint(String location, Configuration hadoop) {

  /** The folder itself, which has this connector's files beside Spark's folders. */
  public CheckpointFolder folder() {
    return new CheckpointFolder(location, hadoop);
  }

  /** The last batch that Spark has planned, by its offset log. */
  public OptionalLong lastPlanned() {
    return log("offsets").lastBatch();
  }

  /**
   * The last batch that Spark does not run again. Spark looks only at the last numbers of its two
   * logs: the last planned batch is done if it is also the last one in the commit log, and every
   * batch before it counts as done, whatever files are missing.
   */
  public OptionalLong lastDone() {
    // Read first: a driver that is still running may plan and log batches between the two reads.
    OptionalLong logged = lastLogged();
    OptionalLong planned = lastPlanned();
    if (planned.isEmpty() || planned.equals(logged)) {
      return planned;
    }
    return planned.getAsLong() == 0
        ? OptionalLong.empty()
        : OptionalLong.of(planned.getAsLong() - 1);
  }

  /** The last batch that Spark has logged as done, whether or not its plan exists. */
  public OptionalLong lastLogged() {
    return log("commits").lastBatch();
  }

  /** The oldest batch whose plan Spark has kept; it purges those before it. */
  public OptionalLong firstPlanKept() {
    return log("offsets").firstBatch();
  }

  /**
   * What Spark has planned for a batch, with time and watermark: the text of its offset file, or
   * empty if the file does not exist or was purged.
   */
  public Optional<String> plan(long batch) {
    return log("offsets").read(Long.toString(batch));
  }

  /**
   * The error for a running batch that Spark's log does not have: a restart would run another batch
   * under its number.
   *
   * @param problem what is wrong with the log's file
   */
  public EosKafkaException notLogged(long batch, String problem) {
    return EosKafkaException.of(
        "EOSKAFKA_BATCH_NOT_LOGGED",
        Map.of(
            "batch", batch,
            "file", log("offsets").nameOf(Long.toString(batch)),
            "problem", problem));
  }

  /**
   * Ensures that the user has not named another folder, or an incomplete copy.
   *
   * @throws EosKafkaException {@code EOSKAFKA_NOT_A_CHECKPOINT} if Spark has planned no batch here
   */
  public void requireSparks() {
    boolean isNamed = folder().hasFile("metadata");
    if (!isNamed || lastPlanned().isEmpty()) {
      throw EosKafkaException.of(
          "EOSKAFKA_NOT_A_CHECKPOINT",
          Map.of(
              "location",
              location,
              "missing",
              isNamed ? "file in offsets" : "file named metadata"));
    }
  }

  /** The names of the connector's files that match a pattern. */
  public List<String> files(String pattern) {
    return folder().names(pattern);
  }

  private CheckpointFolder log(String name) {
    return new CheckpointFolder(new Path(location, name).toString(), hadoop);
  }
}
