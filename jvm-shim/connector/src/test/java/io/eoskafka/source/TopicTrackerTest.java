package io.eoskafka.source;

import static org.assertj.core.api.Assertions.assertThat;

import io.eoskafka.identity.Identity;
import io.eoskafka.identity.Stamp;
import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Which of two ids of a topic is the newer one. */
class TopicTrackerTest {
  private static final TopicPartition PARTITION = new TopicPartition("t", 0);
  private static final TopicPartition OF_ANOTHER = new TopicPartition("t", 1);
  private static final String OLD = "A8-6PwhyTpSiYAh-8y70Kg";
  private static final String NEW = "X8-6PwhyTpSiYAh-8y70Kg";

  @TempDir Path checkpoint;

  private final TopicTracker tracker = new TopicTracker(null, new DataLossPolicy(false));

  private static Map<TopicPartition, OffsetAndMetadata> stamped(
      TopicPartition partition, String topicId) {
    String query = Identity.of("g", "eoskafka", "file:/checkpoint/sources/0", false).id();
    Stamp stamp = new Stamp(Stamp.Scope.TASK, query, topicId, Stamp.SAME_CLUSTER, 3);
    return Map.of(partition, new OffsetAndMetadata(7, stamp.encode()));
  }

  @ParameterizedTest(name = "a broker has {0}, the stamp {1}, the checkpoint {2}: {3}")
  @CsvSource({
    "new, new, new, true",
    // Nobody has planned the new topic yet.
    "new, old, old, true",
    // The checkpoint was not written any more; or another driver has planned the new topic.
    "new, new, old, true",
    "old, new, old, false",
    // Which one is newer cannot be told.
    "old, new, '', false",
    "new, old, '', false",
  })
  void aStampSaysWhichTopicWasPlannedLast(
      String asked, String stamp, String kept, boolean isTrusted) {
    tracker.update(Map.of(PARTITION, idOf(asked)));
    Map<TopicPartition, String> inCheckpoint =
        kept.isEmpty() ? Map.of() : Map.of(PARTITION, idOf(kept));
    assertThat(tracker.agreesWith(stamped(PARTITION, idOf(stamp)), inCheckpoint))
        .isEqualTo(isTrusted);
  }

  private static String idOf(String name) {
    return name.equals("new") ? NEW : OLD;
  }

  @Test
  void anOffsetWithoutAStampSaysNothing() {
    tracker.update(Map.of(PARTITION, NEW));
    assertThat(tracker.agreesWith(Map.of(PARTITION, new OffsetAndMetadata(7)), Map.of())).isTrue();
  }

  @Test
  void anIdThatWasLeftIsKeptInTheCheckpoint() {
    CheckpointFiles files = new CheckpointFiles(checkpoint + "/sources/0", new Configuration());
    tracker.update(Map.of(PARTITION, NEW));
    tracker.keep(Map.of(PARTITION, OLD), Set.of(PARTITION), Map.of(), files);
    assertThat(files.readTopicIds()).isEqualTo(Map.of(PARTITION, NEW));
    assertThat(files.readFormerTopicIds()).isEqualTo(Set.of(OLD));
  }

  @Test
  void ofAPartitionOfAnotherDriverTheCheckpointKeepsWhatThatOneHasPlanned() {
    CheckpointFiles files = new CheckpointFiles(checkpoint + "/sources/0", new Configuration());
    tracker.update(Map.of(PARTITION, NEW, OF_ANOTHER, NEW));
    tracker.keep(Map.of(), Set.of(PARTITION, OF_ANOTHER), stamped(OF_ANOTHER, OLD), files);
    assertThat(files.readTopicIds()).isEqualTo(Map.of(PARTITION, NEW, OF_ANOTHER, OLD));
    // It goes on with the new topic when it gets the partition.
    tracker.keep(Map.of(OF_ANOTHER, NEW), Set.of(OF_ANOTHER), stamped(OF_ANOTHER, OLD), files);
    assertThat(files.readFormerTopicIds()).isEmpty();
    assertThat(tracker.agreesWith(stamped(OF_ANOTHER, OLD), files.readTopicIds())).isTrue();
  }
}
