package io.eoskafka.source;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SinkOptions;
import io.eoskafka.identity.Stamp;
import io.eoskafka.spark.RunningQuery;
import io.eoskafka.task.FenceLeases;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * Which queries may share a group. There the group's offsets alone are authoritative: whoever owns
 * a partition next has no log of what was read from it.
 */
final class SharedGroupRules {
  private SharedGroupRules() {}

  /**
   * Refuses a query that cannot share its group, before anything is written: a group that is shared
   * once stays shared.
   *
   * @param sinkIsOnSourceCluster whether the sink is on the source's cluster
   * @throws EosKafkaException {@code EOSKAFKA_SHARED_REFUSED}
   */
  static void require(
      RunningQuery query,
      Map<TopicPartition, OffsetAndMetadata> committed,
      boolean sinkIsOnSourceCluster) {
    if (!query.sinkIsTransactional()) {
      throw refused("its sink is not eoskafka, so the group does not hold the truth");
    }
    if (!sinkIsOnSourceCluster) {
      throw notForTasks("its source is on another cluster than its sink");
    }
    query
        .gathers()
        .ifPresent(
            operator -> {
              throw notForTasks("it keeps state or shuffles, " + operator);
            });
    if (query.readsOtherThan(EosKafkaMicroBatchStream.class)) {
      throw notForTasks("it reads another source, or one twice");
    }
    if (query.sinkOptions().transactionScope() == SinkOptions.TransactionScope.EPOCH) {
      throw notForTasks("transactionScope=epoch");
    }
    if (!FenceLeases.isInstalled()) {
      throw refused(
          "tasks cannot ask their driver for the group's generation without the plugin: set"
              + " spark.plugins=io.eoskafka.EosKafkaPlugin before the session starts, as"
              + " eoskafka.configure does");
    }
    committed.forEach(SharedGroupRules::requireTaskScope);
  }

  private static void requireTaskScope(TopicPartition partition, OffsetAndMetadata committed) {
    Stamp.Scope scope = Stamp.parse(committed.metadata()).orElseThrow().scope();
    if (scope != Stamp.Scope.TASK) {
      throw refused(
          "the offset of "
              + partition
              + " was not committed in task scope ("
              + committed.metadata()
              + "); run it with ownership=exclusive and transactionScope=task until each"
              + " partition has got a record");
    }
  }

  private static EosKafkaException notForTasks(String why) {
    return refused(
        "it is not one for task scope ("
            + why
            + "), and what one batch has read must not be split between drivers");
  }

  static EosKafkaException refused(String reason) {
    return EosKafkaException.of("EOSKAFKA_SHARED_REFUSED", Map.of("reason", reason));
  }
}
