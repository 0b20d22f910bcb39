package io.eoskafka.identity;

import java.io.Serializable;

/**
 * What the group coordinator checks before it takes offsets (KIP-447). It is the driver's;
 * executors commit with it and are refused once another driver owns the group.
 *
 * @param generation never negative: the broker takes a negative one as "no fence wanted"
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
