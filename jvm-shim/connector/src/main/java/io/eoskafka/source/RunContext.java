package io.eoskafka.source;

import io.eoskafka.group.GroupInspector;
import io.eoskafka.group.GroupOffsets;
import io.eoskafka.group.Membership;

/**
 * What stays the same for a run of a source, once its start has prepared it.
 *
 * @param files of its checkpoint
 * @param sinkIsOurs whether the sink commits source offsets with its output; if not, Spark's log is
 *     authoritative
 * @param sinkCluster of the sink, as in a stamp
 * @param transactionalIdPrefix of its producers
 * @param offsets of its group
 * @param member its place in the group
 * @param release of this driver; null unless the group is shared
 * @param committer commits offsets outside transactions
 * @param stableFetch fetches offsets that no open transaction holds
 * @param runs knows whether the checkpoint has a later run; for shared groups
 * @param foreignBatches those in Spark's log that others have planned
 * @param epochs what former runs have decided
 */
record RunContext(
    CheckpointFiles files,
    boolean sinkIsOurs,
    String sinkCluster,
    String transactionalIdPrefix,
    GroupOffsets offsets,
    Membership member,
    GroupInspector.Release release,
    OffsetCommitter committer,
    StableFetch stableFetch,
    CheckpointRuns runs,
    ForeignBatches foreignBatches,
    DecidedEpochs epochs) {}
