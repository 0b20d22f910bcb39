package io.eoskafka.decision;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.OptionalInt;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** How long an epoch may take. The brokers look for timeouts every second. */
class EpochTimesTest {
  private static final long CHECK_MS = 1_000;
  private static final int MAX_MS = 900_000;

  private static OptionalInt optional(Integer value) {
    return value == null ? OptionalInt.empty() : OptionalInt.of(value);
  }

  private static EpochTimes choose(Integer wanted, Integer reserve, Integer max) {
    return EpochTimes.choose(optional(wanted), optional(reserve), optional(max), CHECK_MS);
  }

  @ParameterizedTest
  @CsvSource({
    // wanted, reserve, the brokers' maximum; timeout, reserve, decision's timeout, undecided
    ",,900000,900000,300000,10000,589000",
    "60000,,900000,60000,20000,10000,29000",
    "60000,5000,900000,60000,5000,10000,44000",
    // A quarter of a short timeout is the decision's.
    "12000,,900000,12000,4000,3000,4000",
    "60000,0,,60000,0,10000,49000",
  })
  void theReserveAndTheDecisionAreTakenOffTheTimeout(
      Integer wanted,
      Integer reserve,
      Integer max,
      int timeout,
      int reserved,
      int decision,
      long undecided) {
    EpochTimes times = choose(wanted, reserve, max);
    assertThat(times.transactionTimeoutMs()).isEqualTo(timeout);
    assertThat(times.recoveryReserveMs()).isEqualTo(reserved);
    assertThat(times.decisionTimeoutMs()).isEqualTo(decision);
    assertThat(times.undecidedForMs()).isEqualTo(undecided);
  }

  @ParameterizedTest
  @CsvSource({
    "900001,,900000,EOSKAFKA_TRANSACTION_TIMEOUT_TOO_LONG",
    "3999,,900000,EOSKAFKA_TRANSACTION_TIMEOUT_TOO_SHORT",
    "60000,49000,900000,EOSKAFKA_OPTION_INVALID",
  })
  void timesThatLeaveNothingForAnEpochAreRefused(
      Integer wanted, Integer reserve, Integer max, String condition) {
    assertThatThrownBy(() -> choose(wanted, reserve, max))
        .hasMessageContaining("[" + condition + "]");
  }

  @Test
  void aReserveThatIsTooLongIsAnsweredWithTheLongestThatIsNot() {
    assertThatThrownBy(() -> choose(60_000, 50_000, MAX_MS))
        .hasMessageContaining("less than 49000");
    assertThat(choose(60_000, 48_999, MAX_MS).undecidedForMs()).isPositive();
  }

  /** A decision that is sent at the last moment, and times out, leaves the whole reserve. */
  @Property
  void afterTheLatestDecisionTheReserveIsLeft(
      @ForAll @IntRange(min = 4_000, max = MAX_MS) int wanted) {
    EpochTimes times = choose(wanted, null, MAX_MS);
    assertThat(times.undecidedForMs() + times.decisionTimeoutMs() + CHECK_MS)
        .isEqualTo(wanted - times.recoveryReserveMs());
    assertThat(times.recoveryReserveMs()).isEqualTo(wanted / 3);
    assertThat(times.undecidedForMs()).isPositive();
  }
}
