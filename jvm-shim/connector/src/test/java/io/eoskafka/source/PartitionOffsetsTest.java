package io.eoskafka.source;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.eoskafka.config.EosKafkaException;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class PartitionOffsetsTest {
  private static final String JSON = "{\"a\":{\"0\":12,\"1\":7,\"10\":3},\"b-c.d_e\":{\"0\":-1}}";
  private static final Map<TopicPartition, Long> OFFSETS =
      Map.of(
          new TopicPartition("a", 0), 12L,
          new TopicPartition("a", 1), 7L,
          new TopicPartition("a", 10), 3L,
          new TopicPartition("b-c.d_e", 0), -1L);

  @Test
  void theTextIsTheBuiltInConnectorsAndInOrder() {
    assertThat(PartitionOffsets.of(OFFSETS).json()).isEqualTo(JSON);
    assertThat(PartitionOffsets.parse(JSON, "f").offsets()).isEqualTo(OFFSETS);
    assertThat(PartitionOffsets.of(Map.of()).json()).isEqualTo("{}");
  }

  @Test
  void theTextThatWasReadIsKept() {
    String spaced = " " + JSON.replace(",", ", ");
    assertThat(PartitionOffsets.parse(spaced, "f").json()).isEqualTo(spaced);
  }

  @Test
  void offsetsBeyondAnIntegerAreKept() {
    assertThat(PartitionOffsets.parse("{\"t\":{\"0\":9223372036854775807}}", "f").offsets())
        .containsValue(Long.MAX_VALUE);
  }

  @Test
  void anOptionMayNameAllOfATopicAndACheckpointMayNot() {
    String json = "{\"a\":\"earliest\",\"b-c.d_e\":{\"0\":5},\"later\":\"Latest\"}";
    assertThat(PartitionOffsets.parseOption("o", json, OFFSETS.keySet()))
        .isEqualTo(
            Map.of(
                new TopicPartition("a", 0), -2L,
                new TopicPartition("a", 1), -2L,
                new TopicPartition("a", 10), -2L,
                new TopicPartition("b-c.d_e", 0), 5L));
    assertThatThrownBy(() -> PartitionOffsets.parse(json, "f"))
        .isInstanceOf(EosKafkaException.class)
        .hasMessageContaining("EOSKAFKA_CHECKPOINT_UNREADABLE");
  }

  @Test
  void theSameNumbersInAnotherTextAreAnotherOffsetForSpark() {
    PartitionOffsets offsets = PartitionOffsets.of(OFFSETS);
    PartitionOffsets once = offsets.respelled(offsets.json());
    PartitionOffsets twice = offsets.respelled(once.json());
    assertThat(once).isNotEqualTo(offsets);
    assertThat(twice).isNotEqualTo(once);
    assertThat(twice).isEqualTo(offsets);
    assertThat(PartitionOffsets.parse(once.json(), "f").offsets()).isEqualTo(OFFSETS);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        "null",
        "7",
        "[]",
        "earliest",
        "{\"t\":7}",
        "{\"t\":[7]}",
        "{\"t\":{\"0\":\"7\"}}",
        "{\"t\":{\"0\":7.5}}",
        "{\"t\":{\"0\":null}}",
        "{\"t\":{\"0\":true}}",
        "{\"t\":{\"zero\":7}}",
        "{\"t\":{\"-1\":7}}",
        "{\"t\":{\"0\":7}} {}",
        "{\"t\":{\"0\":7}}]",
        "{\"t\":{\"0\":9223372036854775808}}",
        "{\"t\":{\"0\":7}",
      })
  void anythingElseIsRefusedWithItsText(String json) {
    assertThatThrownBy(() -> PartitionOffsets.parseOption("o", json, null))
        .isInstanceOf(EosKafkaException.class)
        .hasMessageContaining("[EOSKAFKA_BAD_OFFSET_JSON]")
        .hasMessageContaining(json);
  }
}
