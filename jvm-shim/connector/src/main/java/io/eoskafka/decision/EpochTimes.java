package io.eoskafka.decision;

import io.eoskafka.config.EosKafkaException;
import java.util.Map;
import java.util.OptionalInt;

/**
 * The times of a session's epochs, in milliseconds.
 *
 * @param transactionTimeoutMs of writers' transactions
 * @param timeoutCheckMs how often brokers look for transactions that have timed out
 * @param recoveryReserveMs what is left of the transactions' timeout after the last moment for a
 *     decision, for a restart
 */
record EpochTimes(int transactionTimeoutMs, long timeoutCheckMs, int recoveryReserveMs) {

  /**
   * Of a decision's transaction, unless the writers' own is short. Until it has ended, nobody who
   * starts the query can know whether it was decided.
   */
  private static final int DECISION_TIMEOUT_MS = 10_000;

  /** Of the writers' timeout a restart has a third, unless the user says otherwise. */
  private static final int RECOVERY_SHARE = 3;

  /**
   * The longest timeout that the brokers allow, unless the user wants less: see {@link
   * #undecidedForMs}.
   *
   * @param wanted of writers' transactions, by the user
   * @param reserve for a restart, by the user
   * @param max empty if the brokers do not tell; then they refuse what is too long
   * @throws EosKafkaException {@code EOSKAFKA_TRANSACTION_TIMEOUT_TOO_LONG}, {@code
   *     EOSKAFKA_TRANSACTION_TIMEOUT_TOO_SHORT}, {@code EOSKAFKA_OPTION_INVALID} if nothing is left
   *     beside the reserve
   */
  static EpochTimes choose(
      OptionalInt wanted, OptionalInt reserve, OptionalInt max, long timeoutCheckMs) {
    int chosen = wanted.orElse(max.orElse(BrokerSettings.UNTOLD_TIMEOUT_MS));
    if (chosen > max.orElse(Integer.MAX_VALUE)) {
      throw EosKafkaException.of(
          "EOSKAFKA_TRANSACTION_TIMEOUT_TOO_LONG",
          Map.of("timeout", chosen, "maximum", max.getAsInt() + " ms"));
    }
    long least = 4 * timeoutCheckMs;
    if (chosen < least) {
      throw EosKafkaException.of(
          "EOSKAFKA_TRANSACTION_TIMEOUT_TOO_SHORT", Map.of("timeout", chosen, "minimum", least));
    }
    EpochTimes times =
        new EpochTimes(chosen, timeoutCheckMs, reserve.orElse(chosen / RECOVERY_SHARE));
    if (times.undecidedForMs() <= 0) {
      throw EosKafkaException.of(
          "EOSKAFKA_OPTION_INVALID",
          Map.of(
              "option",
              "recoveryReserveMs",
              "value",
              times.recoveryReserveMs(),
              "expected",
              "less than "
                  + (times.undecidedForMs() + times.recoveryReserveMs())
                  + ", because the transactions time out after "
                  + chosen
                  + " ms"));
    }
    return times;
  }

  /**
   * How long an epoch may take, from before its first task to its decision: so that the decision
   * can time out, be noticed, and still be rolled forward by a driver that has to be started again.
   */
  long undecidedForMs() {
    return transactionTimeoutMs - decisionTimeoutMs() - timeoutCheckMs - recoveryReserveMs;
  }

  int decisionTimeoutMs() {
    return Math.min(DECISION_TIMEOUT_MS, transactionTimeoutMs / 4);
  }
}
