package io.eoskafka.wire;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SinkOptions;
import java.util.Collection;
import java.util.List;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.KafkaException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The topics that a sink writes to, as far as its options say. */
public final class OutputTopics {
  private static final Logger LOG = LoggerFactory.getLogger(OutputTopics.class);

  private OutputTopics() {}

  /**
   * The settings of a sink's producers, which depend on how many partitions they write to. Where
   * that cannot be found out, those for an unknown number: whatever is wrong with a topic, its
   * producer says it better.
   */
  public static ClientSettings settings(SinkOptions sink, Admin admin) {
    Collection<String> topics =
        sink.topic() == null ? sink.registerTopics() : List.of(sink.topic());
    int partitions = 0;
    try {
      partitions = TopicIds.present(admin, topics, sink.client()).size();
    } catch (EosKafkaException | KafkaException e) {
      LOG.info("The partitions of {} could not be found out: {}", topics, e.toString());
    }
    return sink.client().forPartitions(partitions);
  }
}
