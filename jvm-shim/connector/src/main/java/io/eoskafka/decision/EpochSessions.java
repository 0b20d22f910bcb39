package io.eoskafka.decision;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SinkOptions;
import io.eoskafka.spark.RunningQuery;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;

/** The sessions of the queries that run in this driver, by run and owner. */
public final class EpochSessions {
  private record Key(UUID runId, String ownerId) {}

  /** Each is used by one write at a time, and closed by another thread. */
  private static final Map<Key, EpochSession> SESSIONS = new ConcurrentHashMap<>();

  private EpochSessions() {}

  /**
   * An owner's session in a run of its query; opened, and what is open settled, at its first use.
   */
  static EpochSession of(EpochOwner owner, RunningQuery query, SinkOptions options) {
    Key key = new Key(query.runId(), owner.id());
    EpochSession session = SESSIONS.get(key);
    if (session != null && !session.hasTarget(options)) {
      // It would write with the settings that it was opened with.
      throw EosKafkaException.of("EOSKAFKA_SINK_CHANGED", Map.of("owner", owner.name()));
    }
    if (session == null) {
      session = EpochSession.open(owner, options);
      SESSIONS.put(key, session);
      query.whenItEnds(
          () -> Optional.ofNullable(SESSIONS.remove(key)).ifPresent(EpochSession::close));
    }
    return session;
  }

  /**
   * Closes those of queries that have ended, without waiting for Spark to tell of it.
   *
   * @param runs that have not: their threads use them
   */
  public static void closeAllBut(Set<UUID> runs) {
    for (Key key : List.copyOf(SESSIONS.keySet())) {
      if (!runs.contains(key.runId())) {
        Optional.ofNullable(SESSIONS.remove(key)).ifPresent(EpochSession::close);
      }
    }
  }

  /**
   * As {@link #of}, if the query may have been in epoch scope before.
   *
   * @param offsetsSaySo whether offsets of its sources have a stamp of epoch scope
   */
  public static Optional<EpochSession> ifUsed(RunningQuery query, boolean offsetsSaySo) {
    EpochOwner owner = EpochOwner.ofSink(query);
    return offsetsSaySo || owner.kept().isPresent()
        ? Optional.of(of(owner, query, query.sinkOptions()))
        : Optional.empty();
  }

  /**
   * The session of a query's sink if it has been opened: by a source of ours at its start, where
   * the query was in epoch scope before, or by an epoch.
   */
  public static Optional<EpochSession> running(RunningQuery query) {
    return Optional.ofNullable(SESSIONS.get(new Key(query.runId(), EpochOwner.ofSink(query).id())));
  }
}
