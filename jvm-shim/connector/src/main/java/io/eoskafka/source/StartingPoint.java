package io.eoskafka.source;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.identity.Identity;
import io.eoskafka.identity.Stamp;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * Which log is authoritative for one topic-partition at start: the group's offsets, Spark's log, or
 * none yet. A pure function of what was found, so that every row of the table is a test.
 *
 * @param identity ours
 * @param sinkCluster of the query's sink, as in a stamp; null where the sink is not ours
 * @param hasOwnIdentity whether the checkpoint held our identity before this run
 * @param resolved whether {@code startingOffsets} were resolved before: what they did not cover
 *     then came later
 * @param sparkHasBatches whether Spark has logged a batch
 * @param logIsAhead whether Spark's log was written by the built-in connector, or without our sink,
 *     since this one has committed anything: then it is authoritative, and the group knows nothing
 *     of it
 */
record StartingPoint(
    Identity identity,
    String sinkCluster,
    boolean hasOwnIdentity,
    boolean resolved,
    boolean sparkHasBatches,
    boolean logIsAhead) {

  /** Where the answer comes from. */
  enum Source {
    /** The group's offset. */
    GROUP,
    /** Spark's log: the built-in connector's, taken over, or our own without our sink. */
    SPARK_LOG,
    /** The initial offsets that a former start had written before it could commit them. */
    INITIAL_FILE,
    /** The decision on the batch that Spark is about to run again, for want of a logged start. */
    DECISION,
    /** {@code startingOffsets}. */
    OPTION,
    /** Earliest: a partition that came later. */
    NEW_PARTITION,
    /** What is left of a topic that was deleted, its offsets with it, and created again. */
    RECREATED,
    /** Where a former start has found that a partition without our sink continues. */
    RESTARTED
  }

  /** Whether nothing was resolved before, and {@code startingOffsets} say where to begin. */
  boolean isNew() {
    return !resolved && !sparkHasBatches;
  }

  /**
   * Refuses offsets that another owner has left, before the group is joined.
   *
   * @param committed the group's offset, or null
   * @param owner tells who is in the group now
   */
  void refuseForeign(
      TopicPartition partition, OffsetAndMetadata committed, Supplier<String> owner) {
    if (committed == null) {
      return;
    }
    switch (Stamp.kindOf(committed.metadata())) {
      case NONE -> throw foreign("EOSKAFKA_OFFSET_WITHOUT_STAMP", partition, committed, owner);
      case OLDER_PROTOCOL -> throw foreign("EOSKAFKA_OLDER_PROTOCOL", partition, committed, owner);
      case NEWER_PROTOCOL -> throw foreign("EOSKAFKA_NEWER_PROTOCOL", partition, committed, owner);
      case OURS -> {}
    }
    Stamp stamp = Stamp.parse(committed.metadata()).orElseThrow();
    if (!identity.isShared() && stamp.identity().equals(identity.sharedId())) {
      throw foreign("EOSKAFKA_GROUP_IS_SHARED", partition, committed, owner);
    }
    // A checkpoint that had its group for itself may share it from now on.
    if (!stamp.identity().equals(identity.id())
        && !stamp.identity().equals(identity.exclusiveId())) {
      throw foreign("EOSKAFKA_FOREIGN_STAMP", partition, committed, owner);
    }
    // Without a sink of ours, now or then, Spark's log is authoritative. A start (epoch -1) has
    // taken no effect; where a batch has, and the group was not told, the checkpoint knows the
    // cluster.
    if (sinkCluster != null && stamp.tookEffect() && !stamp.sinkCluster().equals(sinkCluster)) {
      throw EosKafkaException.of(
          "EOSKAFKA_SINK_MOVED",
          Map.of(
              "group", identity.group(),
              "partition", partition,
              "kept", name(stamp.sinkCluster()),
              "given", name(sinkCluster)));
    }
  }

  private EosKafkaException foreign(
      String condition,
      TopicPartition partition,
      OffsetAndMetadata committed,
      Supplier<String> owner) {
    return EosKafkaException.of(
        condition,
        Map.of(
            "group", identity.group(),
            "partition", partition,
            "offset", committed.offset(),
            "metadata", String.valueOf(committed.metadata()),
            "identity", identity.id(),
            "owner", owner.get()));
  }

  private static String name(String cluster) {
    return cluster.equals(Stamp.SAME_CLUSTER) ? "the source's cluster" : "cluster " + cluster;
  }

  /** For an authoritative log: what the group is beyond it has taken effect without it. */
  static void requireNotBehind(
      Identity identity, TopicPartition partition, long committed, long sparkStart) {
    if (committed > sparkStart) {
      throw EosKafkaException.of(
          "EOSKAFKA_LOG_BEHIND_GROUP",
          Map.of(
              "group",
              identity.group(),
              "partition",
              partition,
              "offset",
              committed,
              "logged",
              sparkStart));
    }
  }

  /**
   * Says where a partition's start comes from.
   *
   * @param facts with an offset of the group, if there is one, that is past {@link #refuseForeign}
   * @param logSuffices whether Spark's log is known to be as good as the group's offsets: the last
   *     batch that it has planned has taken effect, or our sink has no part in it
   */
  Source of(PartitionFacts facts, boolean logSuffices) {
    OffsetAndMetadata committed = facts.committed();
    Long sparkStart = facts.sparkStart();
    if (facts.restart() != null) {
      return Source.RESTARTED;
    }
    if (committed == null && !facts.isRecreatedSince() && facts.isUnresolved()) {
      // It was there when the group began, and no driver that had it has got to its start.
      return facts.initial() != null ? Source.INITIAL_FILE : Source.OPTION;
    }
    if (logIsAhead && facts.logged() != null) {
      requireSameTopic(facts);
      if (committed != null) {
        requireNotBehind(identity, facts.partition(), committed.offset(), facts.logged());
      }
      return Source.SPARK_LOG;
    }
    if (committed != null) {
      return byStamp(facts);
    }
    if (facts.isRecreatedSince()) {
      // What is not in Spark's log any more was missed before.
      return sparkHasBatches && sparkStart == null ? Source.NEW_PARTITION : Source.RECREATED;
    }
    return sparkHasBatches ? withoutOffset(facts, logSuffices) : withoutOffsetOrBatch(facts);
  }

  /**
   * For an authoritative log: if the topic was created again, the log may have an offset of either
   * topic. The built-in connector does not tell, and our source has read the new one only if the
   * checkpoint has its id.
   */
  private void requireSameTopic(PartitionFacts facts) {
    if (facts.isRecreatedSince() || facts.isOfFormerTopic()) {
      throw EosKafkaException.of(
          "EOSKAFKA_LOG_OF_FORMER_TOPIC",
          Map.of("partition", facts.partition(), "logged", facts.logged()));
    }
  }

  /** The group has an offset: the stamp's scope says which log it follows. */
  private Source byStamp(PartitionFacts facts) {
    OffsetAndMetadata committed = facts.committed();
    Long sparkStart = facts.sparkStart();
    Stamp stamp = facts.stamp();
    if (sinkCluster == null
        && sparkStart != null
        && stamp.tookEffect()
        && !facts.isOfFormerTopic()) {
      requireNotBehind(identity, facts.partition(), committed.offset(), sparkStart);
    }
    return switch (stamp.scope()) {
      case TASK -> {
        if (facts.decidedStart() != null && !facts.isOfFormerTopic() && !facts.isRecreatedSince()) {
          requireNotBehindDecision(facts.partition(), committed.offset(), facts.decidedStart());
        }
        yield Source.GROUP;
      }
      case SOURCE_ONLY -> {
        if (sparkStart == null && !sparkHasBatches) {
          // The group follows Spark's log, which is gone: the query begins anew.
          yield facts.initial() != null ? Source.INITIAL_FILE : Source.OPTION;
        }
        yield sparkStart != null ? Source.SPARK_LOG : Source.GROUP;
      }
      case EPOCH -> {
        if (facts.decidedStart() != null) {
          yield Source.DECISION;
        }
        if (sparkStart != null && sinkCluster == null) {
          yield Source.SPARK_LOG;
        }
        if (sparkStart != null && committed.offset() > sparkStart) {
          throw EosKafkaException.of(
              "EOSKAFKA_DECISION_OTHER_PLAN",
              Map.of("epoch", stamp.epoch(), "owner", "the checkpoint's log"));
        }
        // Before Spark's start where records that the last batch was to read were gone.
        yield Source.GROUP;
      }
    };
  }

  /**
   * A decided epoch that Spark runs again writes nothing, so records between the group's offset and
   * the epoch's start would be lost. The group has such an offset, with a stamp of task scope, if a
   * decision on another cluster has not been committed to the group yet: until then, someone may
   * move the offset. It may be beyond the epoch's start if records were deleted or the user sets
   * offsets; that skips nothing.
   */
  private void requireNotBehindDecision(
      TopicPartition partition, long committed, long decidedStart) {
    if (committed < decidedStart) {
      throw EosKafkaException.of(
          "EOSKAFKA_GROUP_BEHIND_DECISION",
          Map.of(
              "group",
              identity.group(),
              "partition",
              partition,
              "offset",
              committed,
              "start",
              decidedStart));
    }
  }

  /** The group has no offset, and Spark has logged no batch. */
  private Source withoutOffsetOrBatch(PartitionFacts facts) {
    if (hasOwnIdentity && facts.wasFound() && sinkCluster != null) {
      // Tasks may have committed all the same: Spark logs a batch of real-time mode at its end.
      throw gone(facts.partition(), null);
    }
    if (facts.initial() != null) {
      return Source.INITIAL_FILE;
    }
    return resolved ? Source.NEW_PARTITION : Source.OPTION;
  }

  /** The group has no offset, and Spark has logged batches. */
  private Source withoutOffset(PartitionFacts facts, boolean logSuffices) {
    Long sparkStart = facts.sparkStart();
    // Not chosen for a while, and without an offset since: Spark's log does not have it any more.
    boolean isForgotten = facts.wasFound() && sparkStart == null && sinkCluster != null;
    Long logged = sparkStart != null ? sparkStart : facts.initial();
    if (logged == null && !isForgotten) {
      return Source.NEW_PARTITION;
    }
    if (logSuffices && facts.decidedStart() != null) {
      return Source.DECISION;
    }
    if (isForgotten || hasOwnIdentity && !logSuffices) {
      throw gone(facts.partition(), logged);
    }
    return sparkStart != null ? Source.SPARK_LOG : Source.INITIAL_FILE;
  }

  private EosKafkaException gone(TopicPartition partition, Long start) {
    return EosKafkaException.of(
        "EOSKAFKA_OFFSETS_GONE",
        Map.of(
            "group",
            identity.group(),
            "partition",
            partition,
            "start",
            start == null ? "not known" : start));
  }
}
