package io.eoskafka.spark;

import io.eoskafka.config.EosKafkaException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * What a query's checkpoint says of its batches, read from Spark's own files: also for programs
 * that run beside Spark.
 *
 * @param location of the checkpoint
 */
public record Checkpoint(String location, Configuration hadoop) {

  /** The folder itself, where this connector's files are beside Spark's folders. */
  public CheckpointFolder folder() {
    return new CheckpointFolder(location, hadoop);
  }

  /** The last batch that Spark has planned, by its offset log. */
  public OptionalLong lastPlanned() {
    return log("offsets").lastBatch();
  }

  /**
   * The last batch that Spark does not run again. It looks at the last numbers of its two logs
   * only: the last batch that it has planned is done if it is the last one in the log of done
   * batches too, and every batch before it is done, whatever files are missing.
   */
  public OptionalLong lastDone() {
    // First: a driver that still runs may plan and log batches between the two looks.
    OptionalLong logged = lastLogged();
    OptionalLong planned = lastPlanned();
    if (planned.isEmpty() || planned.equals(logged)) {
      return planned;
    }
    return planned.getAsLong() == 0
        ? OptionalLong.empty()
        : OptionalLong.of(planned.getAsLong() - 1);
  }

  /** The last batch that Spark has logged as done, whether or not its plan is there. */
  public OptionalLong lastLogged() {
    return log("commits").lastBatch();
  }

  /** The oldest batch whose plan Spark has kept; it purges those before it. */
  public OptionalLong firstPlanKept() {
    return log("offsets").firstBatch();
  }

  /**
   * What Spark has planned for a batch, with time and watermark: the text of its offset file, or
   * empty if there is none or it was purged.
   */
  public Optional<String> plan(long batch) {
    return log("offsets").read(Long.toString(batch));
  }

  /**
   * A batch runs, and Spark's log does not say so: a restart would run another one under its
   * number.
   *
   * @param problem what the log's file is
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
   * Makes sure that a user has not named another folder, or a copy that lacks files.
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
