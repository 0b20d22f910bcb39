package io.eoskafka.source;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

/** Logs whose leader says again and again that they have not grown. */
class StalledLogsTest {
  private static final TopicPartition GROWS = new TopicPartition("t", 0);
  private static final TopicPartition STALLS = new TopicPartition("t", 1);

  private final AtomicLong now = new AtomicLong();
  private final Map<TopicPartition, Long> known = new HashMap<>(Map.of(GROWS, 1L, STALLS, 5L));
  private final Map<TopicPartition, Long> newest = new HashMap<>();
  private final List<Set<TopicPartition>> asked = new ArrayList<>();
  private final StalledLogs logs =
      new StalledLogs(
          partitions -> new HashMap<>(known),
          stalled -> {
            asked.add(stalled);
            return newest;
          },
          now::get);

  private Map<TopicPartition, Long> after(long seconds) {
    now.addAndGet(Duration.ofSeconds(seconds).toNanos());
    return logs.ends(known.keySet());
  }

  @Test
  void theNewestLeadersAreAskedOnlyAboutLogsThatHaveNotGrownForAWhile() {
    after(31);
    known.put(GROWS, 2L);
    assertThat(after(29)).isEqualTo(known);
    assertThat(asked).isEmpty();
    newest.put(STALLS, 9L);
    assertThat(after(2)).isEqualTo(Map.of(GROWS, 2L, STALLS, 9L));
    assertThat(asked).containsExactly(Set.of(STALLS));
    // The batch is planned by a second look. The former leader still says what it did.
    assertThat(after(0)).isEqualTo(Map.of(GROWS, 2L, STALLS, 9L));
    known.put(STALLS, 10L);
    assertThat(after(0)).isEqualTo(known);
    known.put(STALLS, 9L);
    assertThat(after(0)).isEqualTo(known);
  }

  /** The log was cut, or its topic was created again. */
  @Test
  void anEndThatTheyHaveNamedIsGivenUpOnceTheyNameAnother() {
    after(31);
    newest.put(STALLS, 9L);
    assertThat(after(31)).containsEntry(STALLS, 9L);
    newest.put(STALLS, 7L);
    assertThat(after(31)).containsEntry(STALLS, 7L);
    assertThat(after(0)).containsEntry(STALLS, 7L);
    newest.put(STALLS, 5L);
    assertThat(after(31)).isEqualTo(known);
    assertThat(after(0)).isEqualTo(known);
  }

  @Test
  void anEndThatTheyNameIsTakenOnlyIfItIsFurther() {
    after(31);
    newest.put(STALLS, 3L);
    assertThat(after(31)).isEqualTo(known);
  }

  @Test
  void withoutTheirAnswerTheLogsEndWhereTheyDid() {
    after(31);
    assertThat(after(31)).isEqualTo(known);
    assertThat(asked).hasSize(1);
  }
}
