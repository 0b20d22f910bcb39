package io.eoskafka.source;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.Map;
import java.util.SortedSet;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

class SlotSharesTest {
  private static SortedSet<TopicPartition> partitions(int... numbers) {
    SortedSet<TopicPartition> sorted = new TreeSet<>(PartitionOffsets.ORDER);
    IntStream.of(numbers).forEach(number -> sorted.add(new TopicPartition("t", number)));
    return sorted;
  }

  private static List<Integer> slots(Map<TopicPartition, Integer> shares) {
    return List.copyOf(shares.values());
  }

  @Test
  void partitionsGoRoundTheSlotsInTheirOrder() {
    assertThat(slots(new SlotShares(false).of(partitions(0, 1, 2, 3, 4), 2, false)))
        .containsExactly(0, 1, 0, 1, 0);
  }

  @Test
  void anEpochThatRunsAgainHasTheSameSharesWhateverCameBefore() {
    SlotShares shares = new SlotShares(false);
    shares.of(partitions(1, 3), 2, false);
    assertThat(shares.of(partitions(0, 1, 2, 3), 2, false))
        .isEqualTo(new SlotShares(false).of(partitions(0, 1, 2, 3), 2, false));
  }

  @Test
  void aPartitionKeepsItsSlotWhileOthersComeAndGo() {
    SlotShares shares = new SlotShares(true);
    shares.of(partitions(0, 1, 2, 3), 2, false);
    assertThat(slots(shares.of(partitions(1, 2, 3), 2, false))).containsExactly(1, 0, 1);
    assertThat(slots(shares.of(partitions(0, 1, 2, 3), 2, false))).containsExactly(0, 1, 0, 1);
  }

  @Test
  void noSlotHasMoreThanItsShareEvenWhereThatMovesAPartition() {
    SlotShares shares = new SlotShares(true);
    shares.of(partitions(0, 1, 2, 3, 4, 5), 2, false);
    // Of slot 0's three partitions all stay, of slot 1's none: one has to move.
    Map<Integer, Long> load =
        shares.of(partitions(0, 2, 4), 2, false).values().stream()
            .collect(Collectors.groupingBy(Function.identity(), Collectors.counting()));
    assertThat(load).containsEntry(0, 2L).containsEntry(1, 1L);
  }

  @Test
  void aSlotThatIsThereNoMoreGivesItsPartitionsAway() {
    SlotShares shares = new SlotShares(true);
    shares.of(partitions(0, 1, 2), 3, false);
    assertThat(slots(shares.of(partitions(0, 1, 2), 2, false))).containsExactly(0, 1, 0);
  }

  @Test
  void whatALateAttemptMayTakeUpStaysInItsSlot() {
    SlotShares shares = new SlotShares(false);
    Map<TopicPartition, Integer> before = shares.of(partitions(1, 2, 3), 3, false);
    Map<TopicPartition, Integer> after = shares.of(partitions(0, 1, 2, 3), 3, true);
    assertThat(after).containsAllEntriesOf(before);
    shares.of(partitions(0, 2), 3, true);
    assertThat(shares.of(partitions(0, 1, 2, 3), 3, true)).isEqualTo(after);
  }
}
