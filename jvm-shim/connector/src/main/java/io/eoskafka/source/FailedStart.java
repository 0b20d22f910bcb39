package io.eoskafka.source;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.config.EosKafkaException;
import io.eoskafka.decision.DecisionOwners;
import io.eoskafka.decision.EpochSessions;
import io.eoskafka.spark.RunningQuery;
import java.util.Set;
import java.util.function.Consumer;

/** What a source still does for its query when its start has failed. */
final class FailedStart {

  /** Refusals of a checkpoint or group that another query may be running with. */
  private static final Set<String> OF_OTHERS =
      Set.of("EOSKAFKA_FOREIGN_STAMP", "EOSKAFKA_FULL_REFRESH", "EOSKAFKA_GROUP_CHANGED");

  private FailedStart() {}

  /**
   * Whatever is wrong with the source: what was decided is committed while its transactions are
   * open. One cluster that cannot be reached does not hold up what was decided on another one.
   *
   * @param wrong why the start has failed; gets what fails here as suppressed exceptions
   * @param source the settings of the source's clients
   */
  static void settleDecided(RuntimeException wrong, ClientSettings source) {
    if (isOfOthers(wrong)) {
      return;
    }
    settle(wrong, query -> DecisionOwners.of(query).settle(source));
    settle(
        wrong,
        query -> {
          if (query.sinkIsTransactional()) {
            EpochSessions.ifUsed(query, false);
          }
        });
  }

  /**
   * As {@link #settleDecided}, while Spark makes the query's plan: only the plan has the sink's
   * options, so a sink on another cluster is left out.
   */
  static void settleWithoutPlan(RuntimeException wrong, ClientSettings source) {
    if (!isOfOthers(wrong)) {
      settle(wrong, query -> DecisionOwners.of(query).settleWithSink(source));
    }
  }

  private static boolean isOfOthers(RuntimeException wrong) {
    return wrong instanceof EosKafkaException ours && OF_OTHERS.contains(ours.condition());
  }

  private static void settle(RuntimeException wrong, Consumer<RunningQuery> writes) {
    try {
      writes.accept(RunningQuery.ofThisThread());
    } catch (RuntimeException e) {
      wrong.addSuppressed(e);
    }
  }
}
