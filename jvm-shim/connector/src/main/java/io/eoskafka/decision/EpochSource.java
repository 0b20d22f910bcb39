package io.eoskafka.decision;

import io.eoskafka.transaction.Transactions;

/** A source of ours, as an epoch's decision sees it. */
public interface EpochSource {
  /** The part of its identity that transactional ids and decisions have. */
  String producersId();

  /** What the epoch reads of it. */
  Decision.Input input();

  /**
   * Adds its offsets, stamped and fenced, to the decision's transaction, if both are on one
   * cluster.
   */
  void addOffsets(Transactions decision, long epoch);

  /** The epoch is decided, and all of it committed. */
  void epochCommitted(long epoch);
}
