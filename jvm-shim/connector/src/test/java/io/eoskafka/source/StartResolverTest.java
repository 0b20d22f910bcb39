package io.eoskafka.source;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.identity.Identity;
import io.eoskafka.identity.Stamp;
import io.eoskafka.source.StartResolver.ResolvedStart;
import net.jqwik.api.Example;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.LongRange;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What a start reads first, and what it tells the group. */
class StartResolverTest {
  private static final TopicPartition PARTITION = new TopicPartition("t", 0);
  private static final Identity OURS =
      Identity.of("g", "eoskafka", "file:/checkpoint/sources/0", false);
  private static final String ID = "X8-6PwhyTpSiYAh-8y70Kg";
  private static final String FORMER_ID = "A8-6PwhyTpSiYAh-8y70Kg";

  /** Of a query that has run before; its log has the offsets 2 to 20. */
  private static StartResolver resolver(boolean failOnDataLoss) {
    return new StartResolver(
        new StartingPoint(OURS, Stamp.SAME_CLUSTER, true, true, true, false),
        OURS,
        Stamp.SAME_CLUSTER,
        true,
        new DataLossPolicy(failOnDataLoss),
        false,
        false,
        false);
  }

  private static OffsetAndMetadata committed(
      long offset, Stamp.Scope scope, String identity, String topicId, long epoch) {
    return new OffsetAndMetadata(
        offset, new Stamp(scope, identity, topicId, Stamp.SAME_CLUSTER, epoch).encode());
  }

  private static PartitionFacts facts(OffsetAndMetadata committed, String keptId, Long logged) {
    return facts(committed, keptId, logged, 2, 20);
  }

  private static PartitionFacts facts(
      OffsetAndMetadata committed, String keptId, Long logged, long logStart, long logEnd) {
    return new PartitionFacts(
        PARTITION,
        committed,
        ID,
        keptId,
        logged,
        logged == null,
        null,
        null,
        null,
        logStart,
        logEnd,
        null,
        false);
  }

  @ParameterizedTest(name = "{0} at {1}, epoch {2}: starts at {3}, commits {4}, by task {5}")
  @CsvSource({
    // What tasks have committed is the start, and the group has it.
    "TASK, 7, 3, 7, false, true",
    // So it has a start that no batch has moved.
    "TASK, 7, -1, 7, false, false",
    // The log has lost what the group is to read next: the group is told.
    "TASK, 1, 3, 2, true, false",
    "TASK, 25, 3, 20, true, false",
    // So it is with an epoch's offset.
    "EPOCH, 7, 3, 7, false, false",
    "EPOCH, 25, 3, 20, true, false",
    "EPOCH, 1, 3, 2, true, false",
  })
  void anOffsetOfTheQuerysOwn(
      Stamp.Scope scope,
      long offset,
      long epoch,
      long start,
      boolean toCommit,
      boolean isMovedByTask) {
    PartitionFacts facts = facts(committed(offset, scope, OURS.id(), ID, epoch), ID, null);
    assertThat(resolver(false).resolve(facts))
        .isEqualTo(new ResolvedStart(start, toCommit, false, isMovedByTask, false));
  }

  @ParameterizedTest
  @CsvSource({"TASK, 1, the log now starts at 2", "TASK, 25, the log now ends at 20"})
  void recordsThatAreGoneStopTheQueryByDefault(Stamp.Scope scope, long offset, String why) {
    PartitionFacts facts = facts(committed(offset, scope, OURS.id(), ID, 3), ID, null);
    assertThatThrownBy(() -> resolver(true).resolve(facts))
        .isInstanceOf(EosKafkaException.class)
        .hasMessageContaining("[EOSKAFKA_DATA_LOSS]")
        .hasMessageContaining(why);
  }

  @Example
  void anOffsetOfAFormerTopicIsReplacedByTheFirstOneOfTheNewTopic() {
    PartitionFacts facts =
        facts(committed(7, Stamp.Scope.TASK, OURS.id(), FORMER_ID, 3), FORMER_ID, null);
    assertThat(resolver(false).resolve(facts))
        .isEqualTo(new ResolvedStart(2, true, true, false, false));
    assertThatThrownBy(() -> resolver(true).resolve(facts))
        .hasMessageContaining(StartResolver.RECREATED);
  }

  @Example
  void aTopicThatWasCreatedAgainWithoutOffsetsBeginsAtItsFirstRecord() {
    assertThat(resolver(false).resolve(facts(null, FORMER_ID, 7L)))
        .isEqualTo(new ResolvedStart(2, true, true, false, false));
  }

  @Example
  void theExclusiveOffsetOfAQueryThatSharesItsGroupFromNowOnGetsItsNewStamp() {
    Identity shared = new Identity(OURS.group(), OURS.instanceId(), OURS.checkpointId(), true);
    StartResolver resolver =
        new StartResolver(
            new StartingPoint(shared, Stamp.SAME_CLUSTER, true, true, true, false),
            shared,
            Stamp.SAME_CLUSTER,
            true,
            new DataLossPolicy(true),
            false,
            false,
            false);
    PartitionFacts facts =
        facts(committed(7, Stamp.Scope.TASK, OURS.exclusiveId(), ID, 3), ID, null);
    assertThat(resolver.resolve(facts)).isEqualTo(new ResolvedStart(7, true, false, true, false));
  }

  @Example
  void aPartitionOfASharedGroupWhoseStartNobodyHasCommittedBeginsWhereTheOptionsSay() {
    PartitionFacts unresolved =
        new PartitionFacts(PARTITION, null, ID, ID, null, true, null, null, 9L, 2, 20, null, true);
    assertThat(resolver(true).resolve(unresolved))
        .isEqualTo(new ResolvedStart(9, true, false, false, false));
    PartitionFacts withFile =
        new PartitionFacts(PARTITION, null, ID, ID, null, true, 5L, null, 9L, 2, 20, null, true);
    assertThat(resolver(true).resolve(withFile))
        .isEqualTo(new ResolvedStart(5, true, false, false, false));
  }

  /** The checkpoint has run before; its group has no offset any more. */
  private static StartResolver withoutOurSink(boolean logIsOfOthers) {
    return withoutOurSink(logIsOfOthers, true);
  }

  private static StartResolver withoutOurSink(boolean logIsOfOthers, boolean failOnDataLoss) {
    return new StartResolver(
        new StartingPoint(OURS, null, true, true, true, false),
        OURS,
        Stamp.SAME_CLUSTER,
        false,
        new DataLossPolicy(failOnDataLoss),
        false,
        false,
        logIsOfOthers);
  }

  @Example
  void withoutOurSinkAnOffsetThatIsGoneIsInSparksLog() {
    assertThat(withoutOurSink(true).resolve(facts(null, ID, 7L)))
        .isEqualTo(new ResolvedStart(7, true, false, false, false));
  }

  @ParameterizedTest(name = "{0} in Spark's log, topic {1}: from {2}, restarted: {3}")
  @CsvSource({
    // The new topic's first record, which is 2.
    "7, A8-6PwhyTpSiYAh-8y70Kg, 2, true",
    "1, A8-6PwhyTpSiYAh-8y70Kg, 2, true",
    // An open batch may have more of the former one.
    "2, A8-6PwhyTpSiYAh-8y70Kg, 2, true",
    // A log that was cut ends at 20.
    "25, X8-6PwhyTpSiYAh-8y70Kg, 20, true",
    // Where records have expired, a batch skips them.
    "1, X8-6PwhyTpSiYAh-8y70Kg, 2, false",
    "7, X8-6PwhyTpSiYAh-8y70Kg, 7, false",
  })
  void withoutOurSinkAPartitionIsRestartedIfSparksLogHasAFormerEnd(
      long logged, String keptId, long start, boolean isRestart) {
    ResolvedStart found = withoutOurSink(true, false).resolve(facts(null, keptId, logged));
    assertThat(found.offset()).isEqualTo(start);
    assertThat(found.isRestart()).isEqualTo(isRestart);
    assertThat(resolver(false).resolve(facts(null, FORMER_ID, 7L)).isRestart()).isFalse();
  }

  @ParameterizedTest(name = "restarted at {0}: from {1}, again: {2}")
  @CsvSource({"7, 7, false", "0, 2, false", "25, 20, true"})
  void aRestartedPartitionContinuesWhereAFormerStartHasFoundIt(
      long restart, long start, boolean isAgain) {
    PartitionFacts facts =
        new PartitionFacts(
            PARTITION, null, ID, FORMER_ID, 9L, false, null, null, null, 2, 20, restart, false);
    ResolvedStart found = withoutOurSink(true, false).resolve(facts);
    assertThat(found).isEqualTo(new ResolvedStart(start, true, false, false, isAgain));
    // The group goes by it if the sink is ours now.
    assertThat(resolver(false).resolve(facts))
        .isEqualTo(new ResolvedStart(start, true, false, false, false));
  }

  @Example
  void withoutOurSinkAnOffsetThatIsGoneStopsTheQueryIfOurSinkHasRunTheLastBatch() {
    assertThatThrownBy(() -> withoutOurSink(false).resolve(facts(null, ID, 7L)))
        .hasMessageContaining("[EOSKAFKA_OFFSETS_GONE]");
  }

  @Example
  void withoutOurSinkAPartitionThatSparksLogHasNotGotAnyMoreDoesNotBeginAgain() {
    PartitionFacts forgotten =
        new PartitionFacts(
            PARTITION, null, ID, ID, null, false, 4L, null, null, 2, 20, null, false);
    assertThatThrownBy(() -> withoutOurSink(true).resolve(forgotten))
        .hasMessageContaining("[EOSKAFKA_OFFSETS_GONE]");
  }

  /** With {@code failOnDataLoss=false} a query always finds a start that the log has. */
  @Property
  void aStartIsWithinTheLog(
      @ForAll @LongRange(max = 30) long offset,
      @ForAll Stamp.Scope scope,
      @ForAll boolean isOfFormer,
      @ForAll @LongRange(max = 20) long logStart,
      @ForAll @LongRange(max = 10) long length) {
    OffsetAndMetadata committed =
        committed(offset, scope, OURS.id(), isOfFormer ? FORMER_ID : ID, 3);
    PartitionFacts facts = facts(committed, ID, offset, logStart, logStart + length);
    assertThat(resolver(false).resolve(facts).offset()).isBetween(logStart, logStart + length);
  }

  /** By default it is the group's own offset, or there is an error. */
  @Property
  void noRecordIsSkippedByDefault(
      @ForAll @LongRange(max = 30) long offset,
      @ForAll @LongRange(max = 20) long logStart,
      @ForAll @LongRange(max = 10) long length) {
    OffsetAndMetadata committed = committed(offset, Stamp.Scope.TASK, OURS.id(), ID, 3);
    PartitionFacts facts = facts(committed, ID, offset, logStart, logStart + length);
    if (offset < logStart || offset > logStart + length) {
      assertThatThrownBy(() -> resolver(true).resolve(facts))
          .hasMessageContaining("[EOSKAFKA_DATA_LOSS]");
    } else {
      assertThat(resolver(true).resolve(facts).offset()).isEqualTo(offset);
    }
  }
}
