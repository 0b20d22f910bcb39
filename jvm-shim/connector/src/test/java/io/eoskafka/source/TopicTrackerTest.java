package io.eoskafka.source;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.eoskafka.identity.Identity;
import io.eoskafka.identity.Stamp;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
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

  /** The last answer is given again and again. */
  private final Deque<String> answers = new ArrayDeque<>();

  /** What all brokers agree on; as the other one. */
  private final Deque<Map<String, String>> agreed = new ArrayDeque<>();

  private final TopicTracker tracker =
      new TopicTracker(
          this::answer,
          topics -> agreed.size() > 1 ? agreed.remove() : agreed.element(),
          new DataLossPolicy(false),
          Duration.ofMillis(1),
          Duration.ofSeconds(1));

  private boolean isThere = true;

  private Map<TopicPartition, String> answer() {
    if (!isThere) {
      return Map.of(new TopicPartition("other", 0), "of the other topic");
    }
    return Map.of(PARTITION, answers.size() > 1 ? answers.remove() : answers.element());
  }

  private static Map<TopicPartition, OffsetAndMetadata> stamped(
      TopicPartition partition, String topicId) {
    String query = Identity.of("g", "eoskafka", "file:/checkpoint/sources/0", false).id();
    Stamp stamp = new Stamp(Stamp.Scope.TASK, query, topicId, Stamp.SAME_CLUSTER, 3);
    return Map.of(partition, new OffsetAndMetadata(7, stamp.encode()));
  }

  @ParameterizedTest(name = "a broker has {0}, the stamp {1}, replaced is {2}: {3}")
  @CsvSource({
    "new, new, '', true",
    // Nobody has planned the new topic yet.
    "new, old, old, true",
    "new, new, old, true",
    // Which one is newer cannot be told.
    "old, new, '', false",
    "new, old, '', false",
  })
  void anOffsetOfAnotherTopicIsTheOlderOneOnlyIfThatTopicIsKnownToBeReplaced(
      String asked, String stamp, String replaced, boolean isTrusted) {
    tracker.update(Map.of(PARTITION, idOf(asked)));
    tracker.addFormer(replaced.isEmpty() ? Set.of() : Set.of(idOf(replaced)));
    assertThat(tracker.agreesWith(stamped(PARTITION, idOf(stamp)))).isEqualTo(isTrusted);
  }

  @Test
  void aStartAsksAgainIfABrokerContradictsTheCheckpoint() {
    answers.addAll(List.of(OLD, NEW));
    Map<TopicPartition, String> kept = Map.of(PARTITION, NEW);
    assertThat(tracker.discover(Set.of(PARTITION), kept)).isEqualTo(kept);
  }

  @Test
  void aBrokerThatIsBehindAtAStartDoesNotMakeTheTrueIdAFormerOne() {
    CheckpointFiles files = new CheckpointFiles(checkpoint + "/sources/0", new Configuration());
    files.writeTopicIds(Map.of(PARTITION, NEW));
    answers.addAll(List.of(OLD, OLD, NEW));
    agreed.add(Map.of());
    tracker.update(tracker.discover(Set.of(PARTITION), files.readTopicIds()));
    assertThat(tracker.agreesWith(stamped(PARTITION, NEW))).isTrue();
    tracker.keep(files.readTopicIds(), Set.of(PARTITION), Map.of(), files);
    assertThat(files.readTopicIds()).isEqualTo(Map.of(PARTITION, NEW));
    assertThat(files.readFormerTopicIds()).isEmpty();
  }

  @Test
  void norDoesOneThatAnswersTwiceWhileTheQueryRuns() {
    CheckpointFiles files = new CheckpointFiles(checkpoint + "/sources/0", new Configuration());
    tracker.update(Map.of(PARTITION, NEW));
    answers.addAll(List.of(OLD, OLD, NEW));
    // One that is up to date contradicts it.
    agreed.add(Map.of());
    tracker.update(tracker.discover(Set.of(PARTITION)));
    assertThat(tracker.id(PARTITION)).isEqualTo(NEW);
    assertThat(tracker.agreesWith(stamped(PARTITION, NEW))).isTrue();
    tracker.keep(Map.of(PARTITION, NEW), Set.of(PARTITION), Map.of(), files);
    assertThat(files.readFormerTopicIds()).isEmpty();
  }

  @Test
  void allBrokersMustHaveMeantTheIdThatWasFound() {
    tracker.update(Map.of(PARTITION, NEW));
    answers.addAll(List.of(OLD, OLD, NEW));
    agreed.add(Map.of("t", NEW));
    assertThat(tracker.discover(Set.of(PARTITION))).isEqualTo(Map.of(PARTITION, NEW));
  }

  @Test
  void aTopicWasCreatedAgainOnceAllBrokersNameItsNewId() {
    tracker.update(Map.of(PARTITION, OLD));
    answers.add(NEW);
    agreed.addAll(List.of(Map.of(), Map.of("t", NEW)));
    tracker.update(tracker.discover(Set.of(PARTITION)));
    assertThat(tracker.id(PARTITION)).isEqualTo(NEW);
    assertThat(agreed).hasSize(1);
    assertThat(tracker.agreesWith(stamped(PARTITION, OLD))).isTrue();
  }

  @Test
  void soItWasIfThatIsFoundAtAStart() {
    answers.add(NEW);
    agreed.add(Map.of("t", NEW));
    tracker.update(tracker.discover(Set.of(PARTITION), Map.of(PARTITION, OLD)));
    assertThat(tracker.agreesWith(stamped(PARTITION, OLD))).isTrue();
  }

  @Test
  void whatTheCheckpointHasOfAPartitionThatWasAwayAtTheStartIsNotForgotten() {
    answers.add(OLD);
    agreed.add(Map.of());
    TopicPartition other = new TopicPartition("other", 0);
    Map<TopicPartition, String> kept = Map.of(PARTITION, NEW, other, "of the other topic");
    isThere = false;
    tracker.update(tracker.discover(Set.of(), kept));
    isThere = true;
    assertThatThrownBy(() -> tracker.discover(Set.of()))
        .hasMessageContaining("[EOSKAFKA_TOPIC_ID_UNCLEAR]");
  }

  @Test
  void anIdThatNotEveryBrokerNamesIsNotWaitedForForever() {
    tracker.update(Map.of(PARTITION, NEW));
    answers.add(OLD);
    agreed.add(Map.of());
    assertThatThrownBy(() -> tracker.discover(Set.of(PARTITION)))
        .hasMessageContaining("[EOSKAFKA_TOPIC_ID_UNCLEAR]")
        .hasMessageContaining("not every broker");
  }

  /** All that are connected may be one, which is cut off from those that know better. */
  @Test
  void anIdThatWasReplacedIsNotTakenAgainThoughAllBrokersNameIt() {
    tracker.addFormer(Set.of(OLD));
    tracker.update(Map.of(PARTITION, NEW));
    answers.add(OLD);
    agreed.add(Map.of("t", OLD));
    assertThatThrownBy(() -> tracker.discover(Set.of(PARTITION)))
        .hasMessageContaining("[EOSKAFKA_TOPIC_ID_UNCLEAR]");
  }

  @Test
  void aTopicThatWasAwayForAWhileIsKnownToBeReplaced() {
    tracker.update(Map.of(PARTITION, OLD));
    tracker.update(Map.of());
    tracker.update(Map.of(PARTITION, NEW));
    assertThat(tracker.agreesWith(stamped(PARTITION, OLD))).isTrue();
  }

  private static String idOf(String name) {
    return name.equals("new") ? NEW : OLD;
  }

  @Test
  void anOffsetWithoutAStampSaysNothing() {
    tracker.update(Map.of(PARTITION, NEW));
    assertThat(tracker.agreesWith(Map.of(PARTITION, new OffsetAndMetadata(7)))).isTrue();
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
    tracker.keep(Map.of(OF_ANOTHER, NEW), Set.of(OF_ANOTHER), stamped(OF_ANOTHER, OLD), files);
    assertThat(files.readFormerTopicIds()).isEmpty();
    // When it gets the partition, it asks which of the two topics is the newer one.
    assertThat(tracker.agreesWith(stamped(OF_ANOTHER, OLD))).isFalse();
  }
}
