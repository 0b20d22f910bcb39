package io.eoskafka.decision;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SinkOptions;
import io.eoskafka.spark.RunningQuery;
import java.util.Map;

/** Sources that cannot return the same records again. In task scope every source is ours. */
final class ReplayableSources {
  private ReplayableSources() {}

  /**
   * @throws EosKafkaException {@code EOSKAFKA_SOURCE_NOT_REPLAYABLE}
   */
  static void require(RunningQuery query, SinkOptions options) {
    if (options.allowsNonReplayableSources()) {
      return;
    }
    query
        .nonReplayableSource()
        .ifPresent(
            source -> {
              throw EosKafkaException.of(
                  "EOSKAFKA_SOURCE_NOT_REPLAYABLE",
                  Map.of("source", source, "option", SinkOptions.ALLOW_NON_REPLAYABLE));
            });
  }
}
