package io.eoskafka.source;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.identity.Identity;
import io.eoskafka.identity.Stamp;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;

/**
 * Where a partition continues, and what that means for the group. It sends no requests: {@link
 * StartingPoint} says which source is authoritative, and this class takes the offset from there.
 *
 * @param rule of this start
 * @param identity the query's
 * @param sinkCluster of the query's sink, as in a stamp
 * @param sinkIsOurs whether the sink commits source offsets with its output
 * @param dataLoss what happens where records are gone
 * @param optionIsExplicit whether {@code startingOffsets} names offsets, which must be in the log
 * @param lastIsDecided whether the last batch that Spark has planned is known to have taken effect
 * @param logIsOfOthers whether this connector's sink has no part in what Spark's log has, nor in
 *     this run: the group only follows the log then, and a lost offset means nothing
 */
record StartResolver(
    StartingPoint rule,
    Identity identity,
    String sinkCluster,
    boolean sinkIsOurs,
    DataLossPolicy dataLoss,
    boolean optionIsExplicit,
    boolean lastIsDecided,
    boolean logIsOfOthers) {

  static final String RECREATED = "the topic was deleted and created again";

  /**
   * A partition's start.
   *
   * @param offset the first offset to be read
   * @param toCommit whether the group does not have it yet
   * @param isRecreated whether the partition's topic was created again since it was read
   * @param isMovedByTask whether it is where a batch in task scope has ended
   * @param isRestart whether the sink is not ours, and Spark's log may have the end of a former
   *     topic, or of a log that was cut: see {@link RestartedPartitions}
   */
  record ResolvedStart(
      long offset,
      boolean toCommit,
      boolean isRecreated,
      boolean isMovedByTask,
      boolean isRestart) {}

  /**
   * Finds a partition's start.
   *
   * @throws EosKafkaException if it cannot be told, or if records are gone and the query is to fail
   */
  ResolvedStart resolve(PartitionFacts facts) {
    OffsetAndMetadata committed = facts.committed();
    Stamp stamp = facts.stamp();
    boolean isOfFormer = facts.isOfFormerTopic();
    boolean logSuffices = lastIsDecided || logIsOfOthers && facts.logged() != null;
    StartingPoint.Source source = rule.of(facts, logSuffices);
    long start = startFrom(source, facts);
    boolean isReturned =
        source == StartingPoint.Source.RESTARTED
            || rule.logIsAhead() && source == StartingPoint.Source.SPARK_LOG;
    long kept =
        isOfFormer && !isReturned
            ? dataLoss.skip(facts.partition(), start, RECREATED, facts.logStart())
            : dataLoss.keepWithinLog(facts.partition(), start, facts.logStart(), facts.logEnd());
    boolean isMovedByTask =
        kept == start
            && source == StartingPoint.Source.GROUP
            && stamp.scope() == Stamp.Scope.TASK
            && stamp.tookEffect();
    // What epoch scope has committed is not taken back: Spark's log has the batch's start.
    boolean isOfEpoch =
        stamp != null
            && stamp.scope() == Stamp.Scope.EPOCH
            && source != StartingPoint.Source.RECREATED;
    // The group may have another query's stamp: it was not shared before, and is now.
    boolean isKnown =
        isOfEpoch || source == StartingPoint.Source.GROUP && stamp.identity().equals(identity.id());
    boolean isHere = stamp == null || stamp.sinkCluster().equals(sinkCluster);
    // Records that a decided batch had read are gone: the group is past them, and stays there. A
    // log that ends before the group's own offset was cut: then records come that nobody has read.
    boolean isPast =
        isOfEpoch
            && !isOfFormer
            && source != StartingPoint.Source.GROUP
            && kept <= committed.offset();
    boolean toCommit =
        (!isKnown || kept != start || isOfFormer) && !isPast || sinkIsOurs && !isHere || isReturned;
    boolean isRecreated =
        source == StartingPoint.Source.RECREATED
            || isOfFormer && !isReturned
            || facts.isRecreatedSinceDecision();
    boolean isNewTopic = isRecreated || facts.isRecreatedSince() && facts.restart() == null;
    boolean isRestart = !sinkIsOurs && (kept < start || isNewTopic);
    return new ResolvedStart(kept, toCommit, isRecreated, isMovedByTask, isRestart);
  }

  private long startFrom(StartingPoint.Source source, PartitionFacts facts) {
    return switch (source) {
      case GROUP -> facts.committed().offset();
      case SPARK_LOG -> facts.logged();
      case INITIAL_FILE -> facts.initial();
      case DECISION -> facts.decidedStart();
      case RESTARTED -> facts.restart();
      case OPTION ->
          optionIsExplicit
              ? dataLoss.requireInLog(
                  facts.partition(), facts.byOption(), facts.logStart(), facts.logEnd())
              : Math.max(facts.byOption(), facts.logStart());
      // It began at 0: what came before it was found may be gone already.
      case NEW_PARTITION ->
          dataLoss.keepWithinLog(facts.partition(), 0, facts.logStart(), Long.MAX_VALUE);
      case RECREATED ->
          dataLoss.skip(
              facts.partition(),
              facts.logged() == null ? 0 : facts.logged(),
              RECREATED,
              facts.logStart());
    };
  }
}
