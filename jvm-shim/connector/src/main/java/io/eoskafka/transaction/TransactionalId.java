package io.eoskafka.transaction;

import java.util.regex.Pattern;

/**
 * Names of producers in task scope: {@code <prefix>-<group>-<identity>-<slot>}. The identity has 22
 * characters and the slot is a number, so a name is read whole from its end: another identity's
 * names never match, whatever its group is called.
 */
public final class TransactionalId {
  private TransactionalId() {}

  public static String ofSlot(String prefix, String group, String identityId, int slot) {
    return prefix + "-" + group + "-" + identityId + "-" + slot;
  }

  /**
   * Whether a name belongs to an identity, with any prefix and any slot: an earlier run may have
   * had another prefix and more slots.
   */
  static boolean isOf(String transactionalId, String identityId) {
    return Pattern.matches("(?s).*-" + Pattern.quote(identityId) + "-\\d+", transactionalId);
  }

  /** The same, for the broker's filter (RE2 syntax, matched whole). */
  static String brokerPattern(String identityId) {
    return ".*-" + identityId + "-[0-9]+";
  }
}
