package io.eoskafka.source;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.eoskafka.task.CommitSchedule;
import io.eoskafka.task.SlotRange;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What becomes of a batch whose topic is deleted and created again while it is read. */
class ReplacedTopicTest {
  private static final TopicPartition PARTITION = new TopicPartition("t", 0);
  private static final Uuid PLANNED = new Uuid(1, 2);
  private static final Uuid LATER = new Uuid(3, 4);

  private final MockConsumer<byte[], byte[]> client = new MockConsumer<>("earliest");
  private Uuid fetched = PLANNED;
  private final SlotConsumer slot = new SlotConsumer(client, () -> Map.of("t", fetched));

  @BeforeEach
  void beginABatchOfEightRecords() {
    client.updateBeginningOffsets(Map.of(PARTITION, 0L));
    slot.begin(
        new ReadRequest(
            "slot",
            0,
            null,
            "g",
            new DataLossPolicy(false),
            60_000,
            Map.of(PARTITION, new OffsetAndMetadata(2)),
            List.of(new SlotRange("t", 0, 2, 2, 10, PLANNED.toString())),
            false,
            false));
  }

  private long nextOffset() {
    return slot.next(null, CommitSchedule.NEVER).offset();
  }

  @Test
  void aDeletedTopicWhoseSuccessorHasGivenRecordsFailsTheAttempt() {
    fetched = LATER;
    client.addRecord(new ConsumerRecord<>("t", 0, 2, null, new byte[0]));
    assertThat(nextOffset()).isEqualTo(2);
    slot.skipGone(PARTITION);
    assertThat(slot.isDrained()).isTrue();
    assertThatThrownBy(slot::requireSameTopics).hasMessageContaining("[EOSKAFKA_TOPIC_REPLACED]");
  }

  @Test
  void aDeletedTopicThatHasGivenNothingIsSkippedAlsoIfItHasASuccessor() {
    slot.skipGone(PARTITION);
    fetched = LATER;
    slot.requireSameTopics();
    assertThat(slot.gone()).containsExactly(PARTITION);
  }

  @Test
  void recordsOfADeletedTopicStandIfItHasNoSuccessor() {
    client.addRecord(new ConsumerRecord<>("t", 0, 2, null, new byte[0]));
    assertThat(nextOffset()).isEqualTo(2);
    slot.skipGone(PARTITION);
    slot.requireSameTopics();
    assertThat(slot.gone()).containsExactly(PARTITION);
  }
}
