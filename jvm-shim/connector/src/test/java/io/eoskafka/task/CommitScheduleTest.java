package io.eoskafka.task;

import static org.assertj.core.api.Assertions.assertThat;

import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.LongRange;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** When a task commits on the way, and when it stops to read. */
class CommitScheduleTest {
  private static final long MS = 1_000_000;

  @Test
  void aTaskWithoutAnIntervalCommitsAtItsEndAlone() {
    CommitSchedule schedule = new CommitSchedule(7, 0, 0);
    assertThat(schedule.dueNanos()).isEqualTo(CommitSchedule.NEVER);
    assertThat(schedule.endNanos()).isEqualTo(CommitSchedule.NEVER);
  }

  @Test
  void bothTimesCountFromTheBeginningOfTheAttempt() {
    CommitSchedule schedule = new CommitSchedule(7, 100, 3_000);
    assertThat(schedule.dueNanos()).isEqualTo(7 + 100 * MS);
    assertThat(schedule.endNanos()).isEqualTo(7 + 3_000 * MS);
    schedule.committed(200 * MS, 210 * MS);
    assertThat(schedule.endNanos()).isEqualTo(7 + 3_000 * MS);
  }

  @ParameterizedTest(name = "a commit from {0} to {1} ms: the next one at {2} ms")
  @CsvSource({
    "100, 110, 200",
    "100, 150, 200",
    // More than half of the interval is over.
    "100, 151, 202",
    "100, 500, 900",
  })
  void asMuchTimeIsForRecordsAsForCommits(long began, long now, long due) {
    CommitSchedule schedule = new CommitSchedule(0, 100, 0);
    schedule.committed(began * MS, now * MS);
    assertThat(schedule.dueNanos()).isEqualTo(due * MS);
  }

  /** The clock may have any value, also one that overflows. */
  @Property
  void theNextCommitIsDueNoSoonerThanTheLastOneHasTaken(
      @ForAll long began,
      @ForAll @LongRange(max = 10_000) long tookMs,
      @ForAll @IntRange(min = 1, max = 10_000) int intervalMs) {
    CommitSchedule schedule = new CommitSchedule(0, intervalMs, 0);
    long now = began + tookMs * MS;
    schedule.committed(began, now);
    assertThat(schedule.dueNanos() - now).isGreaterThanOrEqualTo(tookMs * MS);
    assertThat(schedule.dueNanos() - began).isEqualTo(Math.max(intervalMs * MS, 2 * tookMs * MS));
  }
}
