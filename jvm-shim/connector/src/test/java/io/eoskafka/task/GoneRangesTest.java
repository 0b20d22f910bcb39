package io.eoskafka.task;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.MetadataResponseData;
import org.apache.kafka.common.message.MetadataResponseData.MetadataResponsePartition;
import org.apache.kafka.common.message.MetadataResponseData.MetadataResponseTopic;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.requests.MetadataResponse;
import org.junit.jupiter.api.Test;

/** Which ranges are still there, as all connected brokers know it. */
class GoneRangesTest {
  private static final Uuid PLANNED = Uuid.randomUuid();
  private static final List<SlotRange> RANGES =
      List.of(
          new SlotRange("t", 0, 5, 5, 9, PLANNED.toString()),
          new SlotRange("t", 1, 5, 5, 9, PLANNED.toString()));

  private static MetadataResponse answer(Uuid id, int partitions) {
    MetadataResponseTopic topic = new MetadataResponseTopic().setName("t").setTopicId(id);
    for (int number = 0; number < partitions; number++) {
      topic.partitions().add(new MetadataResponsePartition().setPartitionIndex(number));
    }
    MetadataResponseData data = new MetadataResponseData();
    data.topics().add(topic);
    return new MetadataResponse(data, ApiKeys.METADATA.latestVersion());
  }

  private static Set<TopicPartition> known(MetadataResponse... answers) {
    return GoneRanges.known(List.of(answers), RANGES);
  }

  @Test
  void aPartitionThatOneConnectedBrokerKnowsIsNotGone() {
    MetadataResponse behind = answer(PLANNED, 1);
    TopicPartition first = new TopicPartition("t", 0);
    assertThat(known(behind)).isEqualTo(Set.of(first));
    assertThat(known(behind, answer(PLANNED, 2)))
        .isEqualTo(Set.of(first, new TopicPartition("t", 1)));
  }

  @Test
  void aTopicOfThatNameWithAnotherIdIsNotThePlannedOne() {
    assertThat(known(answer(Uuid.randomUuid(), 2))).isEmpty();
    assertThat(known(answer(Uuid.ZERO_UUID, 0))).isEmpty();
  }
}
