package io.eoskafka.spark;

import java.util.Collections;
import java.util.Map;
import java.util.Optional;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.StreamingQueryListener;

/**
 * The queries of this JVM that have a {@code foreachBatch} function, including ended ones, which
 * Spark forgets: a thread that a function has started may write after the query has ended.
 */
public final class FunctionQueries {
  /**
   * The location of the checkpoint, by the query's own copy of its session; a copy has one query.
   */
  private static final Map<SparkSession, String> BY_SESSION =
      Collections.synchronizedMap(new WeakHashMap<>());

  /** The same by the query's id. */
  private static final Map<String, String> BY_ID = new ConcurrentHashMap<>();

  private FunctionQueries() {}

  /**
   * Registers a query before its function runs, even if the query itself does not use this
   * connector.
   */
  public static SparkListener listener() {
    return new SparkListener() {
      @Override
      public void onOtherEvent(SparkListenerEvent event) {
        if (event instanceof StreamingQueryListener.QueryStartedEvent) {
          SparkSession.getDefaultSession().foreach(FunctionQueries::noteAll);
        }
      }
    };
  }

  private static Void noteAll(SparkSession of) {
    RunningQuery.active(of).forEach(query -> note(query, StreamRun.sessionOf(query)));
    return null;
  }

  /**
   * @param session the query's own copy, or null if it is not known yet
   */
  static void note(StreamRun query, SparkSession session) {
    if (!BatchRows.isForFunction(query)) {
      return;
    }
    String checkpoint = query.resolvedCheckpointRoot();
    BY_ID.put(query.id().toString(), checkpoint);
    if (session != null) {
      BY_SESSION.put(session, checkpoint);
    }
  }

  /**
   * The checkpoint of the query whose session this is, or whose thread has created the caller's
   * thread, or empty.
   *
   * @param inheritedId the id of a query among the thread's local properties, or null
   */
  static Optional<String> checkpointOf(SparkSession session, String inheritedId) {
    return Optional.ofNullable(BY_SESSION.get(session))
        .or(() -> Optional.ofNullable(inheritedId).map(BY_ID::get));
  }
}
