package io.eoskafka.wire;

import java.util.Map;
import org.apache.kafka.clients.Metadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.Uuid;

/**
 * The topic ids that a consumer fetches by. It has no call for them, and goes on under the same
 * name with whatever has that name, so this looks into it: to ask a broker would cost a request for
 * each task.
 */
public final class FetchedTopics {
  private final Metadata metadata;

  public FetchedTopics(KafkaConsumer<?, ?> consumer) {
    metadata = (Metadata) PrivateField.read(PrivateField.read(consumer, "delegate"), "metadata");
  }

  /** By topic; without an entry where its metadata has none now. */
  public Map<String, Uuid> ids() {
    return metadata.topicIds();
  }
}
