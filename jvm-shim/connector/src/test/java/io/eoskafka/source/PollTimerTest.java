package io.eoskafka.source;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.List;
import net.jqwik.api.Example;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.LongRange;
import net.jqwik.api.constraints.Size;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** How long a reader waits. */
class PollTimerTest {
  private static final long MS = 1_000_000;

  private static PollTimer started() {
    PollTimer timer = new PollTimer();
    timer.restart();
    return timer;
  }

  @ParameterizedTest(name = "{0} ns left: a poll of {1} ms")
  @CsvSource({
    "1, 1",
    "999999, 1",
    "1000000, 2",
    "499999999, 500",
    "500000000, 500",
    "9223372036854775807, 500",
  })
  void aPollNeverTakesNoTimeAndNeverMuchMoreThanIsLeft(long leftNanos, long ms) {
    assertThat(PollTimer.nextPoll(leftNanos)).isEqualTo(Duration.ofMillis(ms));
  }

  @Example
  void looksAfterHalfASecondAndThenAfterTwiceAsLong() {
    PollTimer timer = started();
    timer.waited(500 * MS);
    assertThat(timer.isLookDue()).isFalse();
    timer.waited(100 * MS);
    assertThat(timer.isLookDue()).isTrue();
    timer.looked(200 * MS);
    timer.waited(800 * MS);
    assertThat(timer.isLookDue()).isFalse();
    timer.waited(MS);
    assertThat(timer.isLookDue()).isTrue();
  }

  @Example
  void aTimeoutIsOfOneWaitAlone() {
    PollTimer timer = started();
    timer.waited(999 * MS);
    assertThat(timer.leftMs(1_000)).isEqualTo(1);
    timer.looked(MS);
    assertThat(timer.leftMs(1_000)).isZero();
    timer.restart();
    assertThat(timer.leftMs(1_000)).isEqualTo(1_000);
    assertThat(timer.isLookDue()).isFalse();
  }

  /** However long brokers take to answer, looks leave as much time for records. */
  @Property
  void atLeastHalfOfTheTimeIsForTheRecords(
      @ForAll @Size(min = 1, max = 6) List<@LongRange(min = 1, max = 5_000) Long> looksMs) {
    PollTimer timer = started();
    long polled = 0;
    long looked = 0;
    for (long lookMs : looksMs) {
      while (!timer.isLookDue()) {
        timer.waited(100 * MS);
        polled += 100;
      }
      assertThat(polled).isGreaterThanOrEqualTo(looked);
      timer.looked(lookMs * MS);
      looked += lookMs;
    }
  }
}
