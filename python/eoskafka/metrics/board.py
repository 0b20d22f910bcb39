"""`Board` listens to the reports of a session's queries."""

from __future__ import annotations

import re
import threading
import time
from contextlib import suppress
from datetime import datetime
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from eoskafka import _connect
from eoskafka.failures import message_in
from eoskafka.reports.model import Query

_LAST_REPORTS_MS = 5_000
_LOOK_S = 0.1

OF_SINK = {
    "transactionsCommitted": "transactions_committed",
    "transactionsAborted": "transactions_aborted",
    "fencedAttempts": "fenced_attempts",
}


class Board(StreamingQueryListener):
    """The numbers of all queries of a session, as their last reports have them.

    Reports of a batch come once; one that is run again after a restart counts again.
    """

    def __init__(self) -> None:
        self._queries: dict[str, Query] = {}
        self._lock = threading.Lock()

    def queries(self) -> list[Query]:
        """All that were seen, by name."""
        with self._lock:
            return sorted(self._queries.values(), key=lambda query: query.name)

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 (Spark's names)
        """A query has started, or started again."""
        with self._lock:
            # With a new checkpoint a query has another id under its former name.
            former = [id_ for id_, each in self._queries.items() if each.name == event.name]
            for id_ in former:
                if id_ != str(event.id):
                    del self._queries[id_]
            query = self._query(event.id, event.name)
            query.is_active, query.failure = True, ""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """A batch has ended, or a query waits for records."""
        with self._lock:
            self._take(event.progress)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """A query waits for records: Spark reports this instead of a batch, every ten seconds."""
        with self._lock:
            query = self._query(event.id, None)
            query.is_active = True
            query.rows_per_second = query.input_rows_per_second = 0.0
            query.reported_s = seconds(event.timestamp)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """A query has ended."""
        with self._lock:
            query = self._queries.get(str(event.id))
            if query is None:
                return
            query.is_active = False
            query.rows_per_second = query.input_rows_per_second = 0.0
            if event.exception:
                # Spark has a condition of its own for what a column of `schemas` raises.
                own = message_in(event.exception)
                query.failure = (
                    own[0] if own else event.errorClassOnException or _condition(event.exception)
                )

    def _query(self, id_: object, name: str | None) -> Query:
        query = self._queries.setdefault(str(id_), Query(str(id_)))
        query.name = name or query.name
        return query

    def _take(self, progress: Any) -> None:
        query = self._query(progress.id, progress.name)
        query.is_active = True
        query.batch = progress.batchId
        query.rows_per_second = _finite(progress.processedRowsPerSecond)
        query.input_rows_per_second = _finite(progress.inputRowsPerSecond)
        query.reported_s = seconds(progress.timestamp)
        for number, source in enumerate(progress.sources):
            metrics = source.metrics or {}
            if "maxOffsetsBehindLatest" in metrics:
                query.behind[f"{number}: {source.description}"] = float(
                    metrics["maxOffsetsBehindLatest"]
                )
            if "stableOffsetWaitMs" in metrics:
                # Added up within a run, and from zero in the next one.
                wait = float(metrics["stableOffsetWaitMs"]) / 1_000
                query.waits_s[str(progress.runId), number] = wait
        if progress.numInputRows == 0:
            return
        query.durations_s = {part: ms / 1_000 for part, ms in progress.durationMs.items()}
        query.totals["rows"] += progress.numInputRows
        query.totals["batches"] += 1
        metrics = progress.sink.metrics or {}
        for theirs, ours in OF_SINK.items():
            query.totals[ours] += int(metrics.get(theirs, 0))
        query.scope = metrics.get("transactionScope", "")
        if "commitLatencyMs" in metrics:
            query.commit_latency_s = float(metrics["commitLatencyMs"]) / 1_000
        if "epochTimeLeftMs" in metrics:
            query.epoch_time_left_s = float(metrics["epochTimeLeftMs"]) / 1_000


def hear_the_rest(spark: SparkSession, board: Board) -> None:
    """Wait for reports that are under way: they arrive later than the events that they describe."""
    # Fails if there is nothing to wait for: Spark has stopped, or its JVM is gone.
    with suppress(Exception):
        if _connect.is_session(spark):
            _wait_for_ends(spark, board)
        else:
            spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(_LAST_REPORTS_MS)


def _wait_for_ends(spark: SparkSession, board: Board) -> None:
    """Wait until every ended query was reported as ended, which is its last report."""
    deadline = time.monotonic() + _LAST_REPORTS_MS / 1_000
    running = {query.name or str(query.id) for query in spark.streams.active}
    while time.monotonic() < deadline and any(
        query.is_active and query.name not in running for query in board.queries()
    ):
        time.sleep(_LOOK_S)


def seconds(timestamp: str) -> float:
    """Since 1970, of one of Spark's timestamps, which are in UTC."""
    return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp()


def _condition(exception: str) -> str:
    """The condition of an error that Spark wraps in others which have no condition."""
    named = re.search(r"\[([A-Z][A-Z0-9_.]+)\]", exception)
    return named.group(1) if named else "unknown"


def _finite(value: float) -> float:
    """Spark has infinite and undefined rates for what took no time."""
    return value if value == value and abs(value) != float("inf") else 0.0
