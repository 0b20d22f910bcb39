package io.eoskafka.source;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.eoskafka.task.CommitSchedule;
import io.eoskafka.task.SlotRange;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.LogTruncationException;
import org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What a slot's consumer hands out, with Kafka's own stand-in for a consumer. */
class SlotConsumerTest {
  private static final TopicPartition ONE = new TopicPartition("t", 0);
  private static final TopicPartition OTHER = new TopicPartition("t", 1);
  private static final Uuid ID = new Uuid(1, 2);

  private final MockConsumer<byte[], byte[]> kafka = new MockConsumer<>("none");
  private final Map<String, Uuid> topicIds = new HashMap<>(Map.of("t", ID));
  private final SlotConsumer consumer = new SlotConsumer(kafka, () -> topicIds);

  @AfterEach
  void closeResting() {
    SlotConsumer.closeResting();
  }

  private static ReadRequest request(
      boolean failOnDataLoss, Map<TopicPartition, Long> starts, long end) {
    return request(failOnDataLoss, starts, end, false);
  }

  private static ReadRequest request(
      boolean failOnDataLoss, Map<TopicPartition, Long> starts, long end, boolean inOrder) {
    Map<TopicPartition, OffsetAndMetadata> from = new HashMap<>();
    List<SlotRange> ranges = new ArrayList<>();
    starts.forEach(
        (partition, start) -> {
          from.put(partition, new OffsetAndMetadata(start));
          ranges.add(
              new SlotRange(
                  partition.topic(), partition.partition(), start, start, end, ID.toString()));
        });
    return new ReadRequest(
        "run-0",
        0,
        null,
        "g",
        new DataLossPolicy(failOnDataLoss),
        60_000,
        from,
        ranges,
        false,
        inOrder);
  }

  /** The next poll finds these. */
  private void arrive(TopicPartition partition, long... offsets) {
    kafka.schedulePollTask(
        () -> {
          for (long offset : offsets) {
            kafka.addRecord(
                new ConsumerRecord<>(
                    partition.topic(), partition.partition(), offset, null, new byte[0]));
          }
        });
  }

  /** All that comes until every range is drained. */
  private static List<String> drain(SlotConsumer from) {
    List<String> records = new ArrayList<>();
    for (ConsumerRecord<byte[], byte[]> record = from.next(null, CommitSchedule.NEVER);
        record != null;
        record = from.next(null, CommitSchedule.NEVER)) {
      records.add(record.partition() + "@" + record.offset());
    }
    assertThat(from.isDrained()).isTrue();
    return records;
  }

  private static long reached(SlotConsumer of, TopicPartition partition) {
    return of.reached().get(partition).offset();
  }

  @Test
  void readsEachRangeToItsEndAndKeepsTheRestForTheNextBatch() {
    consumer.begin(request(true, Map.of(ONE, 0L, OTHER, 5L), 7));
    kafka.updateBeginningOffsets(Map.of(ONE, 0L, OTHER, 0L));
    arrive(ONE, 0, 1, 6, 7, 8);
    arrive(OTHER, 5, 6);
    assertThat(drain(consumer)).containsExactlyInAnyOrder("0@0", "0@1", "0@6", "1@5", "1@6");
    assertThat(reached(consumer, ONE)).isEqualTo(7);
    assertThat(reached(consumer, OTHER)).isEqualTo(7);
    consumer.release(true);

    SlotConsumer next = SlotConsumer.open(request(true, Map.of(ONE, 7L, OTHER, 7L), 9));
    assertThat(next).isSameAs(consumer);
    arrive(OTHER, 7, 8);
    assertThat(drain(next)).containsExactlyInAnyOrder("0@7", "0@8", "1@7", "1@8");
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void inOrderTheRangesComeOneAfterTheOtherWhicheverIsFetchedFirst(boolean otherFirst) {
    Map<TopicPartition, Long> starts = new LinkedHashMap<>();
    starts.put(ONE, 0L);
    starts.put(OTHER, 0L);
    consumer.begin(request(true, starts, 3, true));
    kafka.updateBeginningOffsets(Map.of(ONE, 0L, OTHER, 0L));
    arrive(otherFirst ? OTHER : ONE, 0, 1);
    arrive(otherFirst ? ONE : OTHER, 0, 1);
    arrive(OTHER, 2);
    arrive(ONE, 2);
    assertThat(drain(consumer)).containsExactly("0@0", "0@1", "0@2", "1@0", "1@1", "1@2");
  }

  @Test
  void inOrderWhatIsKeptOfALaterRangeWaitsForTheFirstOne() {
    Map<TopicPartition, Long> starts = new LinkedHashMap<>();
    starts.put(ONE, 0L);
    starts.put(OTHER, 0L);
    consumer.begin(request(true, starts, 1));
    kafka.updateBeginningOffsets(Map.of(ONE, 0L, OTHER, 0L));
    arrive(OTHER, 0, 1);
    arrive(ONE, 0);
    assertThat(drain(consumer)).containsExactlyInAnyOrder("0@0", "1@0");
    consumer.release(true);
    starts.put(ONE, 1L);
    starts.put(OTHER, 1L);
    SlotConsumer next = SlotConsumer.open(request(true, starts, 2, true));
    arrive(ONE, 1);
    assertThat(drain(next)).containsExactly("0@1", "1@1");
  }

  @Test
  void whatIsLeftWhenTimeIsOverIsReadNextTime() {
    consumer.begin(request(true, Map.of(ONE, 0L), 9));
    kafka.updateBeginningOffsets(Map.of(ONE, 0L));
    arrive(ONE, 0, 1, 2);
    assertThat(consumer.next(null, CommitSchedule.NEVER).offset()).isZero();
    assertThat(consumer.isDrained()).isFalse();
    assertThat(reached(consumer, ONE)).isEqualTo(1);
    consumer.release(true);

    SlotConsumer next = SlotConsumer.open(request(true, Map.of(ONE, 1L), 3));
    assertThat(next).isSameAs(consumer);
    assertThat(drain(next)).containsExactly("0@1", "0@2");
  }

  @Test
  void nothingIsWaitedForWhenTimeIsOver() {
    consumer.begin(request(true, Map.of(ONE, 0L), 9));
    assertThat(consumer.next(null, System.nanoTime())).isNull();
    assertThat(consumer.isDrained()).isFalse();
  }

  @Test
  void recordsThatAreGoneAreSkippedOrFailTheBatch() {
    kafka.updateBeginningOffsets(Map.of(ONE, 4L));
    consumer.begin(request(false, Map.of(ONE, 0L), 6));
    arrive(ONE, 4, 5);
    assertThat(drain(consumer)).containsExactly("0@4", "0@5");
    assertThat(consumer.losses()).isEqualTo(1);
    assertThat(consumer.outOfRange()).isEqualTo(1);

    SlotConsumer strict = new SlotConsumer(kafka, () -> topicIds);
    strict.begin(request(true, Map.of(ONE, 0L), 6));
    arrive(ONE, 6);
    assertThatThrownBy(() -> strict.next(null, CommitSchedule.NEVER))
        .hasMessageContaining("[EOSKAFKA_DATA_LOSS_WHILE_READING]");
  }

  /**
   * The first two records of the second of two ranges in order are fetched, and a request for what
   * follows finds that the log has lost it; then the first range's record comes.
   *
   * @param end of both ranges
   */
  private void beginInOrderWithALossAheadOfTheSecondRange(boolean failOnDataLoss, long end) {
    Map<TopicPartition, Long> starts = new LinkedHashMap<>();
    starts.put(ONE, end - 1);
    starts.put(OTHER, 0L);
    kafka.updateBeginningOffsets(Map.of(ONE, 0L, OTHER, 0L));
    consumer.begin(request(failOnDataLoss, starts, end, true));
    arrive(OTHER, 0, 1);
    kafka.schedulePollTask(
        () -> {
          assertThat(kafka.paused()).contains(OTHER);
          kafka.updateBeginningOffsets(Map.of(OTHER, 4L));
          kafka.setPollException(new OffsetOutOfRangeException(Map.of(OTHER, 2L)));
        });
    arrive(ONE, end - 1);
  }

  @Test
  void whatWasFetchedOfALaterRangeIsHandedOutAlthoughWhatFollowsIsGone() {
    beginInOrderWithALossAheadOfTheSecondRange(false, 6);
    arrive(OTHER, 4, 5);
    assertThat(drain(consumer)).containsExactly("0@5", "1@0", "1@1", "1@4", "1@5");
    assertThat(reached(consumer, OTHER)).isEqualTo(6);
    assertThat(consumer.losses()).isEqualTo(1);
  }

  @Test
  void theLossBeginsWhereNothingWasFetched() {
    beginInOrderWithALossAheadOfTheSecondRange(true, 6);
    assertThatThrownBy(() -> drain(consumer))
        .hasMessageContaining("[EOSKAFKA_DATA_LOSS_WHILE_READING]")
        .hasMessageContaining("t-1 up to offset 6, but records from offset 2 on were deleted");
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aLossBeyondABatchIsOfTheNextOne(boolean failOnDataLoss) {
    beginInOrderWithALossAheadOfTheSecondRange(failOnDataLoss, 1);
    assertThat(drain(consumer)).containsExactly("0@0", "1@0");
    assertThat(consumer.losses()).isZero();
    consumer.release(true);

    SlotConsumer next = SlotConsumer.open(request(failOnDataLoss, Map.of(OTHER, 1L), 5));
    assertThat(next).isSameAs(consumer);
    arrive(OTHER, 4);
    if (failOnDataLoss) {
      assertThatThrownBy(() -> drain(next))
          .hasMessageContaining("[EOSKAFKA_DATA_LOSS_WHILE_READING]");
    } else {
      assertThat(drain(next)).containsExactly("1@1", "1@4");
      assertThat(next.losses()).isEqualTo(1);
    }
  }

  /** One partition is read to its end and fetched ahead; then its log turns out to be cut. */
  private void beginWithACut(boolean failOnDataLoss, long cutTo) {
    kafka.updateBeginningOffsets(Map.of(ONE, 0L, OTHER, 0L));
    consumer.begin(request(failOnDataLoss, Map.of(ONE, 0L, OTHER, 5L), 7));
    arrive(OTHER, 5, 6, 7, 8);
    kafka.schedulePollTask(
        () ->
            kafka.setPollException(
                new LogTruncationException(
                    Map.of(OTHER, 9L), Map.of(OTHER, new OffsetAndMetadata(cutTo)))));
    arrive(ONE, 0, 6);
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aLogThatWasCutBelowWhatWasHandedOutFailsTheAttemptAlsoIfItIsReadNoMore(
      boolean failOnDataLoss) {
    beginWithACut(failOnDataLoss, 6);
    assertThatThrownBy(() -> drain(consumer))
        .hasMessageContaining("[EOSKAFKA_LOG_TRUNCATED]")
        .hasMessageContaining("t-1");
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void whatWasFetchedAheadOfALogThatWasCutIsFetchedAgain(boolean failOnDataLoss) {
    beginWithACut(failOnDataLoss, 7);
    assertThat(drain(consumer)).containsExactly("1@5", "1@6", "0@0", "0@6");
    assertThat(reached(consumer, OTHER)).isEqualTo(7);
    assertThat(consumer.losses()).isZero();
    consumer.release(true);

    SlotConsumer next = SlotConsumer.open(request(failOnDataLoss, Map.of(OTHER, 7L), 9));
    assertThat(next).isSameAs(consumer);
    assertThat(kafka.position(OTHER)).isEqualTo(7);
    arrive(OTHER, 7, 8);
    assertThat(drain(next)).containsExactly("1@7", "1@8");
  }

  @Test
  void aLogStartOfAnotherTopicFailsTheBatchAlthoughThePlannedOneIsReadThen() {
    kafka.updateBeginningOffsets(Map.of(ONE, 4L));
    consumer.begin(request(false, Map.of(ONE, 0L), 6));
    topicIds.put("t", new Uuid(3, 4));
    arrive(ONE, 4, 5);
    kafka.schedulePollTask(() -> topicIds.put("t", ID));
    assertThat(drain(consumer)).containsExactly("0@4", "0@5");
    assertThatThrownBy(consumer::requireSameTopics)
        .hasMessageContaining("[EOSKAFKA_TOPIC_REPLACED]");
  }

  @Test
  void aTopicThatWasReplacedFailsTheBatchOnceItHasGivenRecords() {
    kafka.updateBeginningOffsets(Map.of(ONE, 0L));
    consumer.begin(request(false, Map.of(ONE, 0L), 2));
    arrive(ONE, 0, 1);
    assertThat(drain(consumer)).hasSize(2);
    consumer.requireSameTopics();
    topicIds.put("t", new Uuid(3, 4));
    assertThatThrownBy(consumer::requireSameTopics)
        .hasMessageContaining("[EOSKAFKA_TOPIC_REPLACED]");
  }
}
