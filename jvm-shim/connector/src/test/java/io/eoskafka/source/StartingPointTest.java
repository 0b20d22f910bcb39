package io.eoskafka.source;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatNoException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.identity.Identity;
import io.eoskafka.identity.Stamp;
import io.eoskafka.source.StartingPoint.Source;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** One line per row of the table of where the truth lies. */
class StartingPointTest {
  private static final TopicPartition PARTITION = new TopicPartition("t", 0);
  private static final Identity OURS =
      Identity.of("g", "eoskafka", "file:/checkpoint/sources/0", false);
  private static final Supplier<String> OWNER = () -> "driver-1 (client a at b)";
  private static final String TOPIC_ID = "X8-6PwhyTpSiYAh-8y70Kg";

  private static OffsetAndMetadata committed(Stamp.Scope scope, String identity, String cluster) {
    return new OffsetAndMetadata(7, new Stamp(scope, identity, TOPIC_ID, cluster, 3).encode());
  }

  private static OffsetAndMetadata committed(String scope) {
    return scope == null
        ? null
        : committed(Stamp.Scope.valueOf(scope), OURS.id(), Stamp.SAME_CLUSTER);
  }

  private static PartitionFacts facts(
      OffsetAndMetadata committed,
      Long sparkStart,
      Long initial,
      Long decidedStart,
      boolean isOfFormerTopic,
      boolean isRecreated,
      boolean wasFound) {
    String topicId = isOfFormerTopic ? "another id" : TOPIC_ID;
    String keptTopicId = isRecreated ? "a former id" : wasFound ? topicId : null;
    return new PartitionFacts(
        PARTITION,
        committed,
        topicId,
        keptTopicId,
        sparkStart,
        false,
        initial,
        decidedStart,
        null,
        0,
        100,
        null,
        false);
  }

  @ParameterizedTest(name = "{0} own={1} resolved={2} batches={3} spark={4} file={5} new={6}: {7}")
  @CsvSource({
    // Our identity, task scope: the group, whatever Spark's log says.
    "TASK, true, true, true, 5, 0, false, GROUP",
    "TASK, true, true, true, 9, 0, false, GROUP",
    "TASK, true, true, false, , 0, false, GROUP",
    "TASK, false, false, false, , , false, GROUP",
    "TASK, false, true, true, 5, 0, false, GROUP",
    // Our identity, source only: Spark's log where it has one.
    "SOURCE_ONLY, true, true, true, 5, 0, false, SPARK_LOG",
    "SOURCE_ONLY, true, true, false, , 0, false, INITIAL_FILE",
    // Its checkpoint was deleted.
    "SOURCE_ONLY, false, true, false, , , false, OPTION",
    // Our identity, epoch scope: the group, which Spark's log agrees with, or is beyond if records
    // that it had planned were gone.
    "EPOCH, true, true, true, 7, 0, false, GROUP",
    "EPOCH, true, true, true, 9, 0, false, GROUP",
    "EPOCH, true, true, false, , 0, false, GROUP",
    // No offset, and Spark's log of the built-in connector.
    ", false, true, true, 5, 0, false, SPARK_LOG",
    ", false, true, true, , 4, false, INITIAL_FILE",
    // Neither: startingOffsets once, and what a former start resolved.
    ", false, false, false, , , false, OPTION",
    ", false, true, false, , 4, false, INITIAL_FILE",
    ", true, true, false, , 4, false, INITIAL_FILE",
    // Partitions that came later.
    ", true, true, true, , , false, NEW_PARTITION",
    ", false, true, true, , , false, NEW_PARTITION",
    ", false, true, false, , , false, NEW_PARTITION",
    // Kafka deletes a group's offsets with their topic.
    ", true, true, true, 5, 0, true, RECREATED",
    ", true, true, false, , 0, true, RECREATED",
    // That it was deleted was told when Spark's log went on without it.
    ", true, true, true, , 0, true, NEW_PARTITION",
  })
  void theTruthLies(
      String scope,
      boolean hasOwnIdentity,
      boolean resolved,
      boolean sparkHasBatches,
      Long sparkStart,
      Long initial,
      boolean recreated,
      Source expected) {
    StartingPoint rule =
        new StartingPoint(
            OURS, Stamp.SAME_CLUSTER, hasOwnIdentity, resolved, sparkHasBatches, false);
    assertThat(
            rule.of(
                facts(committed(scope), sparkStart, initial, null, false, recreated, false), false))
        .isEqualTo(expected);
  }

  /** The group is at 7. */
  @ParameterizedTest
  @CsvSource({
    "TASK, 7, SPARK_LOG",
    "TASK, 9, SPARK_LOG",
    "EPOCH, 9, SPARK_LOG",
    // Its offsets have expired meanwhile.
    ", 9, SPARK_LOG",
    // A partition that the log does not have.
    "TASK, , GROUP",
  })
  void aLogThatOthersHaveGoneOnWithSaysWhereToGoOn(String scope, Long sparkStart, Source expected) {
    StartingPoint rule = new StartingPoint(OURS, Stamp.SAME_CLUSTER, true, true, true, true);
    assertThat(rule.of(facts(committed(scope), sparkStart, 0L, null, false, false, false), false))
        .isEqualTo(expected);
  }

  @Test
  void butNotWhereTheGroupIsBeyondIt() {
    StartingPoint rule = new StartingPoint(OURS, Stamp.SAME_CLUSTER, true, true, true, true);
    assertThatThrownBy(
            () -> rule.of(facts(committed("TASK"), 6L, 0L, null, false, false, false), false))
        .hasMessageContaining("[EOSKAFKA_LOG_BEHIND_GROUP]");
  }

  @ParameterizedTest
  @CsvSource({
    "true, true",
    "true, false",
    "false, true",
  })
  void norWhereItMayBeOfAFormerTopic(boolean isOfFormerTopic, boolean isRecreated) {
    StartingPoint rule = new StartingPoint(OURS, Stamp.SAME_CLUSTER, true, true, true, true);
    OffsetAndMetadata committed = isOfFormerTopic ? committed("TASK") : null;
    PartitionFacts facts = facts(committed, 9L, 0L, null, isOfFormerTopic, isRecreated, false);
    assertThatThrownBy(() -> rule.of(facts, false))
        .hasMessageContaining("[EOSKAFKA_LOG_OF_FORMER_TOPIC]");
  }

  @ParameterizedTest
  @CsvSource({"5, 0", "5, ", ", 4"})
  void anOffsetThatIsGoneAlthoughOurLogHasBatchesStopsTheQuery(Long sparkStart, Long initial) {
    StartingPoint rule = new StartingPoint(OURS, Stamp.SAME_CLUSTER, true, true, true, false);
    assertThatThrownBy(
            () -> rule.of(facts(null, sparkStart, initial, null, false, false, false), false))
        .isInstanceOf(EosKafkaException.class)
        .hasMessageContaining("[EOSKAFKA_OFFSETS_GONE]")
        .hasMessageContaining("t-0")
        .hasMessageContaining("'g'");
  }

  @Test
  void aPartitionThatWasReadOnceAndHasNoOffsetAnyMoreIsNotANewOne() {
    for (Long initial : new Long[] {null, 4L}) {
      for (boolean lastIsDecided : new boolean[] {false, true}) {
        StartingPoint rule = new StartingPoint(OURS, Stamp.SAME_CLUSTER, true, true, true, false);
        assertThatThrownBy(
                () -> rule.of(facts(null, null, initial, null, false, false, true), lastIsDecided))
            .hasMessageContaining("[EOSKAFKA_OFFSETS_GONE]");
      }
    }
    StartingPoint withoutOurSink = new StartingPoint(OURS, null, true, true, true, false);
    assertThat(withoutOurSink.of(facts(null, null, null, null, false, false, true), false))
        .isEqualTo(Source.NEW_PARTITION);
  }

  @Test
  void anOffsetThatIsGoneBeforeSparkHasLoggedABatchStopsTheQuery() {
    for (Long initial : new Long[] {null, 4L}) {
      StartingPoint rule = new StartingPoint(OURS, Stamp.SAME_CLUSTER, true, true, false, false);
      assertThatThrownBy(() -> rule.of(facts(null, null, initial, null, false, false, true), false))
          .hasMessageContaining("[EOSKAFKA_OFFSETS_GONE]");
    }
    // Another sink's output is as far as Spark's log.
    StartingPoint withoutOurSink = new StartingPoint(OURS, null, true, true, false, false);
    assertThat(withoutOurSink.of(facts(null, null, 4L, null, false, false, true), false))
        .isEqualTo(Source.INITIAL_FILE);
  }

  @Test
  void aDecidedEpochThatRunsAgainStartsWhereItDid() {
    StartingPoint rule = new StartingPoint(OURS, Stamp.SAME_CLUSTER, true, true, true, false);
    for (Long sparkStart : new Long[] {null, 3L}) {
      assertThat(rule.of(facts(committed("EPOCH"), sparkStart, 0L, 3L, false, false, false), true))
          .isEqualTo(Source.DECISION);
    }
  }

  /** The group is at 7. The epoch was decided on another cluster, and the group was not told. */
  @ParameterizedTest(name = "decided from {0}, of a former topic={1}: {2}")
  @CsvSource({
    "7, false, GROUP",
    // Records were gone, or a user has said that this much is in the output.
    "5, false, GROUP",
    // What the epoch reads before its own start is written by nobody.
    "9, false, EOSKAFKA_GROUP_BEHIND_DECISION",
    // The epoch reads nothing of a topic that was created again.
    "9, true, GROUP",
  })
  void aDecidedEpochThatRunsAgainReadsNothingBeforeItsStart(
      long decidedStart, boolean isOfFormerTopic, String expected) {
    StartingPoint rule = new StartingPoint(OURS, "sinks", true, true, true, false);
    ThrowingCallable found =
        () ->
            assertThat(
                    rule.of(
                        facts(
                            committed(Stamp.Scope.TASK, OURS.id(), "sinks"),
                            null,
                            decidedStart,
                            decidedStart,
                            isOfFormerTopic,
                            false,
                            true),
                        true))
                .hasToString(expected);
    if (expected.equals("GROUP")) {
      assertThatCode(found).doesNotThrowAnyException();
    } else {
      assertThatThrownBy(found)
          .hasMessageContaining("[" + expected + "]")
          .hasMessageContaining("is at offset 7 of t-0")
          .hasMessageContaining("began at offset 9");
    }
  }

  @Test
  void anEpochThatSparksLogDoesNotKnowStopsTheQuery() {
    StartingPoint rule = new StartingPoint(OURS, Stamp.SAME_CLUSTER, true, true, true, false);
    assertThatThrownBy(
            () -> rule.of(facts(committed("EPOCH"), 5L, 0L, null, false, false, false), false))
        .hasMessageContaining("[EOSKAFKA_DECISION_OTHER_PLAN]");
  }

  @ParameterizedTest
  @ValueSource(strings = {"TASK", "EPOCH"})
  void withoutOurSinkAGroupBeyondSparksLogStopsTheQuery(String scope) {
    StartingPoint rule = new StartingPoint(OURS, null, true, true, true, false);
    assertThatThrownBy(
            () -> rule.of(facts(committed(scope), 5L, 0L, null, false, false, false), false))
        .hasMessageContaining("[EOSKAFKA_LOG_BEHIND_GROUP]");
    assertThatNoException()
        .isThrownBy(
            () -> rule.of(facts(committed(scope), 7L, 0L, null, false, false, false), false));
    assertThatNoException()
        .isThrownBy(
            () -> rule.of(facts(committed(scope), 5L, 0L, null, true, false, false), false));
  }

  @Test
  void offsetsThatAreGoneBehindADecisionAreInSparksLog() {
    StartingPoint rule = new StartingPoint(OURS, Stamp.SAME_CLUSTER, true, true, true, false);
    assertThat(rule.of(facts(null, 5L, 0L, null, false, false, false), true))
        .isEqualTo(Source.SPARK_LOG);
    assertThat(rule.of(facts(null, 5L, 0L, 3L, false, false, false), true))
        .isEqualTo(Source.DECISION);
  }

  @Test
  void aTopicThatWasCreatedAgainIsNoLostOffset() {
    StartingPoint rule = new StartingPoint(OURS, Stamp.SAME_CLUSTER, true, true, true, false);
    assertThat(rule.of(facts(null, 5L, 0L, null, false, true, false), false))
        .isEqualTo(Source.RECREATED);
  }

  @Test
  void theStartOfANewTopicIsNotBehindADecisionOnTheFormerOne() {
    StartingPoint rule = new StartingPoint(OURS, Stamp.SAME_CLUSTER, true, true, true, false);
    assertThat(rule.of(facts(committed("TASK"), 5L, 0L, 9L, false, true, false), false))
        .isEqualTo(Source.GROUP);
    assertThatThrownBy(
            () -> rule.of(facts(committed("TASK"), 5L, 0L, 9L, false, false, true), false))
        .hasMessageContaining("[EOSKAFKA_GROUP_BEHIND_DECISION]");
  }

  @Test
  void norIfOthersHaveLoggedABatchWithoutPartitions() {
    StartingPoint rule = new StartingPoint(OURS, Stamp.SAME_CLUSTER, true, true, true, true);
    PartitionFacts facts =
        new PartitionFacts(
            PARTITION,
            null,
            TOPIC_ID,
            "a former id",
            null,
            true,
            4L,
            null,
            null,
            0,
            100,
            null,
            false);
    assertThat(rule.of(facts, false)).isEqualTo(Source.RECREATED);
  }

  @Test
  void anOffsetOfNobodyOrOfOursIsNotRefused() {
    StartingPoint rule = new StartingPoint(OURS, Stamp.SAME_CLUSTER, true, true, true, false);
    assertThatCode(
            () -> {
              rule.refuseForeign(PARTITION, null, OWNER);
              rule.refuseForeign(PARTITION, committed("TASK"), OWNER);
              rule.refuseForeign(PARTITION, committed("SOURCE_ONLY"), OWNER);
              rule.refuseForeign(PARTITION, committed("EPOCH"), OWNER);
            })
        .doesNotThrowAnyException();
  }

  @Test
  void anOffsetOfAnotherOwnerIsRefused() {
    String other = Identity.of("g", "eoskafka", "file:/other/sources/0", false).id();
    refuses("EOSKAFKA_OFFSET_WITHOUT_STAMP", new OffsetAndMetadata(7));
    refuses("EOSKAFKA_OFFSET_WITHOUT_STAMP", new OffsetAndMetadata(7, "by hand"));
    refuses("EOSKAFKA_OLDER_PROTOCOL", new OffsetAndMetadata(7, "eoskafka:0:t:x"));
    refuses("EOSKAFKA_NEWER_PROTOCOL", new OffsetAndMetadata(7, "eoskafka:2:t:x"));
    refuses("EOSKAFKA_FOREIGN_STAMP", committed(Stamp.Scope.TASK, other, Stamp.SAME_CLUSTER));
    refuses("EOSKAFKA_FOREIGN_STAMP", committed(Stamp.Scope.EPOCH, other, Stamp.SAME_CLUSTER));
    refuses("EOSKAFKA_SINK_MOVED", committed(Stamp.Scope.TASK, OURS.id(), "another-cluster"));
    refuses("EOSKAFKA_SINK_MOVED", committed(Stamp.Scope.EPOCH, OURS.id(), "another-cluster"));
  }

  @Test
  void theSinksClusterIsTheStamps() {
    StartingPoint rule = new StartingPoint(OURS, "sinks", true, true, true, false);
    assertThatCode(
            () -> {
              rule.refuseForeign(
                  PARTITION, committed(Stamp.Scope.EPOCH, OURS.id(), "sinks"), OWNER);
              rule.refuseForeign(PARTITION, committed("SOURCE_ONLY"), OWNER);
              // A start that was committed before anything took effect.
              Stamp start = new Stamp(Stamp.Scope.TASK, OURS.id(), TOPIC_ID, "former", -1);
              rule.refuseForeign(PARTITION, new OffsetAndMetadata(7, start.encode()), OWNER);
              new StartingPoint(OURS, null, true, true, true, false)
                  .refuseForeign(
                      PARTITION, committed(Stamp.Scope.EPOCH, OURS.id(), "sinks"), OWNER);
            })
        .doesNotThrowAnyException();
    assertThatThrownBy(() -> rule.refuseForeign(PARTITION, committed("EPOCH"), OWNER))
        .hasMessageContaining("[EOSKAFKA_SINK_MOVED]")
        .hasMessageContaining("was written to the source's cluster")
        .hasMessageContaining("now on cluster sinks");
  }

  private static void refuses(String condition, OffsetAndMetadata offset) {
    StartingPoint rule = new StartingPoint(OURS, Stamp.SAME_CLUSTER, true, true, true, false);
    assertThatThrownBy(() -> rule.refuseForeign(PARTITION, offset, OWNER))
        .isInstanceOf(EosKafkaException.class)
        .hasMessageContaining("[" + condition + "]")
        .hasMessageContaining("t-0");
  }
}
