package io.eoskafka.wire;

import java.util.Map;
import org.apache.kafka.clients.Metadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.Uuid;

/**
 * The topic ids that a consumer fetches by. The consumer has no method for them, and continues with
 * any topic of the same name. So this class reads its private fields: asking a broker would cost a
 * request for each task.
 */
public final class FetchedTopics {
  private final Metadata metadata;

  public FetchedTopics(KafkaConsumer<?, ?> consumer) {
    metadata = (Metadata) PrivateField.read(PrivateField.read(consumer, "delegate"), "metadata");
  }

  /** By topic; a topic without an id in the consumer's present metadata has no entry. */
  public Map<String, Uuid> ids() {
    return metadata.topicIds();
  }
}
