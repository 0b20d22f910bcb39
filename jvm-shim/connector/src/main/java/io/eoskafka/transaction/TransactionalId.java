package io.eoskafka.transaction;

import io.eoskafka.identity.Identity;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Names of producers. A name is read whole from its end, where an identity's 22 characters and what
 * follows them are: another identity's names never match, whatever is before.
 *
 * <ul>
 *   <li>task scope: {@code <prefix>-<group>-<identity>-<slot>}, and in a shared group {@code
 *       <prefix>-<group>-<identity>-<driver>-<slot>};
 *   <li>epoch scope, of a query: {@code <prefix>-<query>-decisions} and {@code
 *       <prefix>-<query>-w<run>.<number>...}, of which only the run is read.
 * </ul>
 */
public final class TransactionalId {
  /** A number that fits a long: a name with a longer one is somebody else's. */
  private static final String RUN = "(\\d{1,18})";

  /** Not given back: a group that may be takes a stack frame for each number, of thousands. */
  private static final String NUMBERS = "(?:\\.\\d+)++";

  private TransactionalId() {}

  /**
   * @param producers the identity, and in a shared group the driver
   */
  public static String ofSlot(String prefix, String group, String producers, int slot) {
    return prefix + "-" + group + "-" + producers + "-" + slot;
  }

  /**
   * Whether a name belongs to an identity, with any prefix and any slot: an earlier run may have
   * had another prefix and more slots.
   */
  public static boolean isOf(String transactionalId, String producers) {
    return Pattern.matches("(?s).*-" + Pattern.quote(producers) + "-\\d+", transactionalId);
  }

  /** The same, for the broker's filter (RE2 syntax, matched whole). */
  static String brokerPattern(String producers) {
    return ".*-" + producers + "-[0-9]+";
  }

  /** The driver part of a name in a shared group, or empty where the name is none of its. */
  static Optional<String> driverOf(String transactionalId, String sharedId) {
    Matcher matcher =
        Pattern.compile(
                "(?s).*-" + Pattern.quote(sharedId) + "-(" + Identity.DIGEST_PATTERN + ")-\\d+")
            .matcher(transactionalId);
    return matcher.matches() ? Optional.of(matcher.group(1)) : Optional.empty();
  }

  /** All names in a shared group, for the broker's filter. */
  static String brokerPatternOfShared(String sharedId) {
    return ".*-" + sharedId + "-" + Identity.DIGEST_PATTERN + "-[0-9]+";
  }

  /** The producer that decides a query's epochs: the same in every run. */
  public static String ofDecisions(String prefix, String ownerId) {
    return prefix + "-" + ownerId + "-decisions";
  }

  /**
   * Of one writer in epoch scope. An attempt of another number than the first has a name of its own
   * for good, and the first one shares its name with the first attempts of other epochs only as
   * long as each of them has reported: whoever initialises a name that may be prepared aborts what
   * the driver may have decided.
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
   * The run that a query's writer belongs to, or empty if the name is not one of its writers: with
   * any prefix, since an earlier run may have had another one.
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
