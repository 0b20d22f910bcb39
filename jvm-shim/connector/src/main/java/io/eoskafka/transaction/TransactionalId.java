package io.eoskafka.transaction;

import io.eoskafka.identity.Identity;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The transactional ids of producers. An id is matched as a whole, and it ends with an identity's
 * 22 characters and what follows them: ids of another identity never match, whatever the prefix is.
 *
 * <ul>
 *   <li>task scope: {@code <prefix>-<group>-<identity>-<slot>}, and in a shared group {@code
 *       <prefix>-<group>-<identity>-<driver>-<slot>};
 *   <li>epoch scope, of a query: {@code <prefix>-<query>-decisions} and {@code
 *       <prefix>-<query>-w<run>.<number>...}, of which only the run is read.
 * </ul>
 */
public final class TransactionalId {
  /** A number that fits a long: an id with a longer one belongs to someone else. */
  private static final String RUN = "(\\d{1,18})";

  /**
   * Possessive: if it could backtrack, it would need a stack frame for each of thousands of
   * numbers.
   */
  private static final String NUMBERS = "(?:\\.\\d+)++";

  private TransactionalId() {}

  /**
   * @param producers the identity, and in a shared group the driver
   */
  public static String ofSlot(String prefix, String group, String producers, int slot) {
    return prefix + "-" + group + "-" + producers + "-" + slot;
  }

  /**
   * Whether an id belongs to an identity, with any prefix and any slot: an earlier run may have had
   * another prefix and more slots.
   */
  public static boolean isOf(String transactionalId, String producers) {
    return Pattern.matches("(?s).*-" + Pattern.quote(producers) + "-\\d+", transactionalId);
  }

  /** The same, for the broker's filter (RE2 syntax, matched whole). */
  static String brokerPattern(String producers) {
    return ".*-" + producers + "-[0-9]+";
  }

  /**
   * The driver part of an id in a shared group, or empty if the id does not belong to that group.
   */
  static Optional<String> driverOf(String transactionalId, String sharedId) {
    Matcher matcher =
        Pattern.compile(
                "(?s).*-" + Pattern.quote(sharedId) + "-(" + Identity.DIGEST_PATTERN + ")-\\d+")
            .matcher(transactionalId);
    return matcher.matches() ? Optional.of(matcher.group(1)) : Optional.empty();
  }

  /** All ids of a shared group, for the broker's filter. */
  static String brokerPatternOfShared(String sharedId) {
    return ".*-" + sharedId + "-" + Identity.DIGEST_PATTERN + "-[0-9]+";
  }

  /** The producer that decides a query's epochs: the same in every run. */
  public static String ofDecisions(String prefix, String ownerId) {
    return prefix + "-" + ownerId + "-decisions";
  }

  /**
   * The id of one writer in epoch scope. Each attempt after the first has an id that is never
   * reused. The first attempt shares its id with the first attempts of other epochs only as long as
   * each of them has reported: to initialise an id whose transaction may be prepared would abort a
   * transaction that the driver may have decided.
   *
   * @param series a number that the driver changes when a first attempt has not reported
   */
  public static String ofWriter(
      String prefix,
      String ownerId,
      long run,
      long series,
      long epoch,
      int writer,
      int stageAttempt,
      int attempt) {
    String first = prefix + "-" + ownerId + "-w" + run + "." + series + "." + writer;
    return stageAttempt == 0 && attempt == 0
        ? first
        : first + "." + epoch + "." + stageAttempt + "." + attempt;
  }

  /**
   * The run that a query's writer belongs to, or empty if the id is not that of one of its writers.
   * Any prefix matches, because an earlier run may have had another one.
   */
  static OptionalLong runOfWriter(String transactionalId, String ownerId) {
    return runOf("(?s).*-" + Pattern.quote(ownerId) + "-w" + RUN + NUMBERS, transactionalId);
  }

  /**
   * The same for one writer and one prefix.
   *
   * @param writer its number
   */
  public static OptionalLong runOfWriter(
      String transactionalId, String prefix, String ownerId, int writer) {
    return runOf(
        Pattern.quote(prefix + "-" + ownerId + "-w")
            + RUN
            + "\\.\\d+\\."
            + writer
            + "(?:\\.\\d+\\.\\d+\\.\\d+)?",
        transactionalId);
  }

  private static OptionalLong runOf(String form, String transactionalId) {
    Matcher matcher = Pattern.compile(form).matcher(transactionalId);
    return matcher.matches()
        ? OptionalLong.of(Long.parseLong(matcher.group(1)))
        : OptionalLong.empty();
  }

  /** A query's writers, for the broker's filter. */
  static String brokerPatternOfWriters(String ownerId) {
    return ".*-" + ownerId + "-w[0-9.]+";
  }
}
