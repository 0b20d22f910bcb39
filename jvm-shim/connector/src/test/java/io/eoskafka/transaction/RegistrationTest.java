package io.eoskafka.transaction;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

class RegistrationTest {
  private static final Registration REGISTRATION =
      new Registration(Map.of("payments", Registration.all(2), "decisions", Set.of(3)), "g");

  private static ProducerRecord<byte[], byte[]> record(String topic, Integer partition) {
    return new ProducerRecord<>(topic, partition, null, new byte[0]);
  }

  @Test
  void recordsForWhatIsRegisteredPass() {
    assertThatCode(
            () -> {
              REGISTRATION.check(record("payments", null));
              REGISTRATION.check(record("payments", 1));
              REGISTRATION.check(record("decisions", 3));
              REGISTRATION.check("g");
            })
        .doesNotThrowAnyException();
  }

  @Test
  void aRecordElsewhereIsRefused() {
    for (ProducerRecord<byte[], byte[]> elsewhere :
        new ProducerRecord[] {
          record("refunds", null), record("payments", 2), record("decisions", 1)
        }) {
      assertThatThrownBy(() -> REGISTRATION.check(elsewhere))
          .hasMessageContaining("[EOSKAFKA_TOPIC_NOT_REGISTERED]")
          .hasMessageContaining(elsewhere.topic())
          .hasMessageContaining("UNKNOWN_TOPIC_OR_PARTITION");
    }
  }

  @Test
  void offsetsOfAnotherGroupAreRefused() {
    assertThatThrownBy(() -> REGISTRATION.check("h"))
        .hasMessageContaining("[EOSKAFKA_GROUP_NOT_REGISTERED]")
        .hasMessageContaining("INVALID_GROUP_ID");
    assertThatThrownBy(() -> new Registration(Map.of(), null).check("g"))
        .hasMessageContaining("[EOSKAFKA_GROUP_NOT_REGISTERED]");
  }

  @Test
  void everyPartitionOfItIsRegistered() {
    assertThat(REGISTRATION.topicPartitions())
        .containsExactlyInAnyOrder(
            new TopicPartition("payments", 0),
            new TopicPartition("payments", 1),
            new TopicPartition("decisions", 3));
  }
}
