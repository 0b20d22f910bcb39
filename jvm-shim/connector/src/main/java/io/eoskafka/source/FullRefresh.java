package io.eoskafka.source;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.identity.Identity;
import io.eoskafka.identity.Stamp;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * A full refresh of a declarative pipeline. Spark numbers the checkpoints of a flow, {@code
 * <storage>/_checkpoints/<target>/<flow>/<number>}, and a full refresh begins the next one: a new
 * query, which finds the offsets of the former one in its group.
 */
final class FullRefresh {
  private static final String CHECKPOINTS = "_checkpoints";

  /** So many former checkpoints are looked at: a plain query's folder may have a date's name. */
  private static final int MOST_FORMER = 20;

  private static final Pattern NUMBER = Pattern.compile("\\d{1,9}");

  private FullRefresh() {}

  /**
   * @param sourcePath the source's folder in the checkpoint
   * @param identity ours
   * @param committed the group's offset
   * @throws EosKafkaException {@code EOSKAFKA_FULL_REFRESH} if a former checkpoint of this flow has
   *     committed it
   */
  static void refuse(
      String sourcePath,
      Configuration hadoop,
      Identity identity,
      TopicPartition partition,
      OffsetAndMetadata committed) {
    Optional<Stamp> stamp = Stamp.parse(committed.metadata());
    if (stamp.isEmpty() || stamp.get().identity().equals(identity.id())) {
      return;
    }
    former(new Path(sourcePath), hadoop, stamp.get().identity())
        .ifPresent(
            former -> {
              throw EosKafkaException.of(
                  "EOSKAFKA_FULL_REFRESH",
                  Map.of(
                      "checkpoint", new Path(sourcePath).getParent().getParent(),
                      "former", former,
                      "group", identity.group(),
                      "partition", partition,
                      "offset", committed.offset()));
            });
  }

  /** The former checkpoint of this flow whose source has this identity. */
  private static Optional<Path> former(Path source, Configuration hadoop, String identity) {
    Path checkpoint = source.getParent().getParent();
    Path flow = checkpoint.getParent();
    if (!NUMBER.matcher(checkpoint.getName()).matches() || !isInPipeline(flow)) {
      return Optional.empty();
    }
    int last = Integer.parseInt(checkpoint.getName()) - 1;
    for (int number = last; number >= Math.max(0, last - MOST_FORMER); number--) {
      Path before = new Path(flow, Integer.toString(number));
      Path sameSource = new Path(new Path(before, source.getParent().getName()), source.getName());
      Optional<Identity> owner = new CheckpointFiles(sameSource.toString(), hadoop).readIdentity();
      if (owner.isPresent() && owner.get().id().equals(identity)) {
        return Optional.of(before);
      }
    }
    return Optional.empty();
  }

  private static boolean isInPipeline(Path folder) {
    for (Path each = folder; each != null; each = each.getParent()) {
      if (each.getName().equals(CHECKPOINTS)) {
        return true;
      }
    }
    return false;
  }
}
