package io.eoskafka.task;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.LongRange;
import net.jqwik.api.constraints.Size;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What an attempt commits, and what it reports to its driver. */
class AttemptOffsetsTest {
  private static final TopicPartition PARTITION = new TopicPartition("t", 0);

  private static SlotWork upTo(long end) {
    return new SlotWork(3, List.of(new SlotRange("t", 0, 5, 5, end, "id")), null);
  }

  private static AttemptOffsets begun(long start) {
    AttemptOffsets offsets = new AttemptOffsets();
    offsets.begin(Map.of(PARTITION, new OffsetAndMetadata(start)));
    return offsets;
  }

  private static Map<TopicPartition, OffsetAndMetadata> at(long offset) {
    return Map.of(PARTITION, new OffsetAndMetadata(offset, Optional.of(7), ""));
  }

  private static Map<TopicPartition, OffsetAndMetadata> toCommit(
      AttemptOffsets offsets, SlotInput input) {
    return offsets.toCommit(List.of(input), true, range -> "stamp of " + range.topicId());
  }

  private static long reached(AttemptOffsets offsets, SlotInput input) {
    return offsets.reached(input, input.work().ranges().get(0));
  }

  /** Otherwise the next attempt would begin there without asking the group. */
  @Test
  void ofAPartitionThatWasDeletedTheGroupHasNothing() {
    SlotInput input = new SlotInput(upTo(9));
    assertThat(begun(9).known(Map.of(), List.of(input))).containsOnlyKeys(PARTITION);
    input.addGone(Set.of(PARTITION));
    assertThat(begun(9).known(at(5), List.of(input))).isEmpty();
  }

  @Test
  void aRangeIsAtItsEndIfTheGroupSaysSo() {
    SlotInput input = new SlotInput(upTo(9));
    assertThat(begun(8).atTheirEnds(input)).isEmpty();
    assertThat(begun(9).atTheirEnds(input)).isEqualTo(Map.of(PARTITION, 9L));
    assertThat(begun(Long.MAX_VALUE - 1).atTheirEnds(new SlotInput(upTo(SlotRange.OPEN))))
        .isEmpty();
    // Its topic was deleted: the group does not have it at all.
    input.addGone(Set.of(PARTITION));
    assertThat(begun(9).atTheirEnds(input)).isEmpty();
  }

  @Test
  void anOffsetIsCommittedWithItsLeaderEpochAndItsStamp() {
    SlotInput input = new SlotInput(upTo(9));
    input.handedOut(at(8), Set.of());
    assertThat(toCommit(begun(5), input))
        .isEqualTo(Map.of(PARTITION, new OffsetAndMetadata(8, Optional.of(7), "stamp of id")));
  }

  @ParameterizedTest(name = "planned to {0}, begun at {1}, out up to {2}: commits {3}, reports {4}")
  @CsvSource({
    "9, 5, 9, true, 9",
    "9, 5, 7, true, 7",
    "9, 5, 5, false, 5",
    // An earlier attempt is further than what this one has read.
    "9, 8, 7, false, 8",
    // No planned end: a log that was truncated takes the group back.
    "9223372036854775807, 5, 7, true, 7",
    "9223372036854775807, 5, 5, false, 5",
    "9223372036854775807, 8, 7, true, 7",
  })
  void commitsWhatIsOutAndNotYetCommitted(
      long end, long start, long out, boolean commits, long reported) {
    AttemptOffsets offsets = begun(start);
    SlotInput input = new SlotInput(upTo(end));
    input.end(at(out), Set.of(), false);
    assertThat(toCommit(offsets, input).containsKey(PARTITION)).isEqualTo(commits);
    assertThat(reached(offsets, input)).isEqualTo(reported);
  }

  @Test
  void anOffsetGoesBackOnlyWhereALogMayHaveBeenTruncated() {
    AttemptOffsets offsets = begun(8);
    SlotInput input = new SlotInput(upTo(SlotRange.OPEN));
    input.end(at(7), Set.of(), false);
    assertThat(toCommit(offsets, input)).containsKey(PARTITION);
    assertThatThrownBy(() -> offsets.toCommit(List.of(input), false, range -> ""))
        .hasMessageContaining("t-0 up to offset 7, although the group was at 8");
    AttemptOffsets further = begun(5);
    further.committed(at(8));
    assertThatThrownBy(() -> further.toCommit(List.of(input), false, range -> ""))
        .hasMessageContaining("t-0 up to offset 7, although the group was at 8");
  }

  @ParameterizedTest
  @CsvSource({"9, 9, true", "9, 10, true", "9, 8, false"})
  void aRangeIsCommittedIfTheGroupIsAtItsEnd(long end, long start, boolean isCommitted) {
    assertThat(begun(start).isCommitted(upTo(end))).isEqualTo(isCommitted);
    assertThat(begun(start).isCommitted(upTo(SlotRange.OPEN))).isFalse();
  }

  @Test
  void aRangeThatWasNotReadIsReportedAsDoneIfItHasAnEnd() {
    SlotInput input = new SlotInput(upTo(9));
    input.endUnread();
    assertThat(toCommit(begun(9), input)).isEmpty();
    assertThat(reached(begun(9), input)).isEqualTo(9);
    assertThat(reached(begun(12), input)).isEqualTo(12);
    SlotInput open = new SlotInput(upTo(SlotRange.OPEN));
    open.endUnread();
    assertThat(reached(begun(6), open)).isEqualTo(6);
  }

  @Test
  void nothingIsCommittedOfADeletedPartition() {
    SlotInput input = new SlotInput(upTo(9));
    input.end(at(9), Set.of(PARTITION), false);
    assertThat(toCommit(begun(5), input)).isEmpty();
    assertThat(reached(begun(5), input)).isEqualTo(9);
  }

  @Test
  void theProducerKnowsWhatTheGroupHas() {
    TopicPartition other = new TopicPartition("t", 1);
    AttemptOffsets offsets = begun(5);
    OffsetAndMetadata ofOther = new OffsetAndMetadata(3, Optional.of(6), "");
    Map<TopicPartition, OffsetAndMetadata> before =
        Map.of(PARTITION, new OffsetAndMetadata(5), other, ofOther);
    assertThat(offsets.known(before, List.of())).isEqualTo(before);
    offsets.committed(at(9));
    assertThat(offsets.known(before, List.of()))
        .isEqualTo(Map.of(PARTITION, at(9).get(PARTITION), other, ofOther));
  }

  @Test
  void aBatchThatFollowsBeginsWithTheLeaderEpochThatWasCommitted() {
    AttemptOffsets offsets = begun(2);
    offsets.committed(at(5));
    AttemptOffsets next = new AttemptOffsets();
    next.beginAfter(offsets.known(Map.of(), List.of()), upTo(9));
    assertThat(next.starts(upTo(9))).isEqualTo(at(5));
  }

  /**
   * However often a task commits on the way, the offsets that it commits never go back, nothing is
   * committed twice, and what it reports is what the group has.
   */
  @Property
  void whatIsReportedIsCommitted(
      @ForAll @LongRange(max = 10) long start,
      @ForAll @Size(max = 8) List<@LongRange(max = 5) Long> steps,
      @ForAll boolean isOpen) {
    AttemptOffsets offsets = begun(start);
    SlotInput input = new SlotInput(upTo(isOpen ? SlotRange.OPEN : 100));
    Map<TopicPartition, Long> group = new HashMap<>(Map.of(PARTITION, start));
    long out = start;
    for (long step : steps) {
      out += step;
      input.handedOut(at(out), Set.of());
      Map<TopicPartition, OffsetAndMetadata> commit = toCommit(offsets, input);
      commit.forEach(
          (partition, offset) ->
              assertThat(offset.offset()).isGreaterThan(group.put(partition, offset.offset())));
      offsets.committed(commit);
      assertThat(toCommit(offsets, input)).isEmpty();
      assertThat(reached(offsets, input)).isEqualTo(group.get(PARTITION)).isEqualTo(out);
      assertThat(offsets.known(Map.of(), List.of()).get(PARTITION).offset())
          .isEqualTo(group.get(PARTITION));
    }
  }
}
