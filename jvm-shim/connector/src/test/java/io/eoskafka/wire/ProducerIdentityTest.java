package io.eoskafka.wire;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.junit.jupiter.api.Test;

/** What this kafka-clients keeps inside. */
class ProducerIdentityTest {
  @Test
  void aProducerThatWasNotInitialisedHasNone() {
    KafkaProducer<byte[], byte[]> producer =
        new KafkaProducer<>(
            Map.of("bootstrap.servers", "localhost:1", "transactional.id", "id"),
            new ByteArraySerializer(),
            new ByteArraySerializer());
    try {
      assertThat(ProducerIdentity.of(producer)).isEqualTo(new ProducerIdentity(-1, (short) -1));
      assertThat(OffsetsCoordinator.of(producer)).isNull();
    } finally {
      producer.close(Duration.ZERO);
    }
  }
}
