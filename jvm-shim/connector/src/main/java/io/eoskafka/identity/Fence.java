package io.eoskafka.identity;

import java.io.Serializable;

/**
 * What the group coordinator checks before it accepts offsets (KIP-447). It belongs to the driver.
 * Executors commit with it, and are refused once another driver owns the group.
 *
 * @param generation never negative: the broker checks no fence if it is negative
 * @param instanceId null for a dynamic member
 */
public record Fence(String group, int generation, String memberId, String instanceId)
    implements Serializable {

  public Fence {
    if (generation < 0 || memberId == null || memberId.isEmpty()) {
      throw new IllegalArgumentException("no fence without a joined member: " + generation);
    }
  }
}
