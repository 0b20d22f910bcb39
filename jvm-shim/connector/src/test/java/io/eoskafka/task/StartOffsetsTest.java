package io.eoskafka.task;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.eoskafka.identity.Identity;
import io.eoskafka.identity.Stamp;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Which offsets of the group an attempt believes. */
class StartOffsetsTest {
  private static final TopicPartition PARTITION = new TopicPartition("t", 0);
  private static final String ID = "X8-6PwhyTpSiYAh-8y70Kg";
  private static final String OTHER_ID = "A8-6PwhyTpSiYAh-8y70Kg";
  private static final Identity OURS =
      Identity.of("g", "eoskafka", "file:/checkpoint/sources/0", false);
  private static final Identity FOREIGN =
      Identity.of("g", "eoskafka", "file:/other/sources/0", false);

  private static TaskScope scope(boolean skipsDeleted) {
    return new TaskScope(
        "token", 3, OURS, "run", 0, null, "eoskafka", 0, 0, 0, null, skipsDeleted, null, List.of());
  }

  /** Planned from 5. */
  private static SlotInput input(long end) {
    return new SlotInput(new SlotWork(3, List.of(new SlotRange("t", 0, 5, 5, end, ID)), null));
  }

  private static OffsetAndMetadata stamped(long offset, Identity identity, String topicId) {
    return new OffsetAndMetadata(
        offset,
        new Stamp(Stamp.Scope.TASK, identity.id(), topicId, Stamp.SAME_CLUSTER, 2).encode());
  }

  private static Map<TopicPartition, OffsetAndMetadata> start(
      boolean skipsDeleted, long end, boolean isStable, OffsetAndMetadata found) {
    return StartOffsets.of(
        scope(skipsDeleted),
        input(end),
        found == null ? Map.of() : Map.of(PARTITION, found),
        isStable);
  }

  @ParameterizedTest(name = "planned to {0}, found {1}, stable {2}, skips deleted {3}: {4}")
  @CsvSource({
    "9, 5, true, false, true",
    "9, 9, true, false, true",
    // What the last batch has committed may not be visible yet.
    "9, 4, false, false, true",
    // A stable offset before the plan was moved back by somebody.
    "9, 4, true, false, false",
    "9, 4, true, true, false",
    "9223372036854775807, 4, true, false, false",
    "9223372036854775807, 4, true, true, true",
  })
  void anOffsetOfTheQuerysOwnIsTheStartUnlessItWentBack(
      long end, long offset, boolean isStable, boolean skipsDeleted, boolean isBelieved) {
    OffsetAndMetadata found = stamped(offset, OURS, ID);
    if (isBelieved) {
      assertThat(start(skipsDeleted, end, isStable, found)).isEqualTo(Map.of(PARTITION, found));
    } else {
      assertThatThrownBy(() -> start(skipsDeleted, end, isStable, found))
          .hasMessageContaining("[EOSKAFKA_OFFSETS_CHANGED]")
          .hasMessageContaining("t-0");
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void anOffsetOfSomebodyElseIsNotBelieved(boolean isStable) {
    for (OffsetAndMetadata found :
        new OffsetAndMetadata[] {
          null,
          new OffsetAndMetadata(5),
          new OffsetAndMetadata(5, "a text of the application's"),
          stamped(5, FOREIGN, ID),
          stamped(5, OURS, OTHER_ID),
        }) {
      assertThatThrownBy(() -> start(true, 9, isStable, found))
          .hasMessageContaining("[EOSKAFKA_OFFSETS_CHANGED]");
    }
  }

  @Test
  void aDeletedPartitionCountsAsReadIfTheGroupHasNoOffsetOfIt() {
    SlotInput planned = input(9);
    planned.addGone(Set.of(PARTITION));
    assertThat(StartOffsets.of(scope(true), planned, Map.of(), true))
        .isEqualTo(Map.of(PARTITION, new OffsetAndMetadata(9)));
    SlotInput open = input(SlotRange.OPEN);
    open.addGone(Set.of(PARTITION));
    assertThat(StartOffsets.of(scope(true), open, Map.of(), true))
        .isEqualTo(Map.of(PARTITION, new OffsetAndMetadata(5)));
    OffsetAndMetadata foreign = stamped(5, FOREIGN, ID);
    assertThatThrownBy(
            () -> StartOffsets.of(scope(true), planned, Map.of(PARTITION, foreign), true))
        .hasMessageContaining("[EOSKAFKA_OFFSETS_CHANGED]");
  }
}
