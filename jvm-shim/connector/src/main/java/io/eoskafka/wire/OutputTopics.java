package io.eoskafka.wire;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.config.SinkOptions;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.List;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The topics that a query writes to, as far as the sink's options name them; looked up at
 * intervals.
 */
public final class OutputTopics {
  private static final Logger LOG = LoggerFactory.getLogger(OutputTopics.class);
  private static final long ASK_AGAIN_NANOS = Duration.ofMinutes(1).toNanos();

  /** Short, because the answer is only a hint. */
  private static final int PATIENCE_MS = 2_000;

  private final Admin admin;
  private List<String> topics = List.of();
  private int partitions;
  private long askedNanos;

  public OutputTopics(Admin admin) {
    this.admin = admin;
  }

  /**
   * The settings of a sink's producers, which depend on how many partitions they write to. If that
   * number cannot be determined, these are the settings for an unknown number: if something is
   * wrong with a topic, its producer reports a better error.
   */
  public ClientSettings settings(SinkOptions sink) {
    List<String> wanted = sink.topic() == null ? sink.registerTopics() : List.of(sink.topic());
    if (wanted.isEmpty() || sink.client().given(ProducerConfig.BATCH_SIZE_CONFIG) != null) {
      return sink.client();
    }
    if (!wanted.equals(topics) || System.nanoTime() - askedNanos > ASK_AGAIN_NANOS) {
      partitions = count(wanted, sink.client());
      topics = wanted;
      askedNanos = System.nanoTime();
    }
    return sink.client().forPartitions(partitions);
  }

  private int count(List<String> wanted, ClientSettings client) {
    try {
      DescribeTopicsOptions soon = new DescribeTopicsOptions().timeoutMs(PATIENCE_MS);
      return TopicIds.present(admin, wanted, client, soon).size();
    } catch (UncheckedIOException e) {
      throw e; // The query is being stopped.
    } catch (RuntimeException e) {
      LOG.info("The partitions of {} could not be found out: {}", wanted, e.toString());
      return 0;
    }
  }
}
