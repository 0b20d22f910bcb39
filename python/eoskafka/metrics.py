"""What running queries report, for Prometheus, for code, and live in a terminal.

`export` serves it to Prometheus (`conf/prometheus-alerts.yml` and `conf/grafana-dashboard.json` go
with it), `live` shows it. Both listen to Spark's progress reports: they cost nothing per record,
and prove nothing (`eoskafka verify` does).
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter as Numbers
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from eoskafka import _connect
from eoskafka.errors import ConfigurationError

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from rich.console import Console
    from rich.table import Table

_OF_SINK = {
    "transactionsCommitted": "transactions_committed",
    "transactionsAborted": "transactions_aborted",
    "fencedAttempts": "fenced_attempts",
}


_LAST_REPORTS_MS = 5_000
_LOOK_S = 0.1
_HEADINGS = ("state", "batch", "rows/s", "behind", "commit", "txns", "aborted", "fenced")


@dataclass
class Query:
    """A query's numbers.

    Attributes:
        name: as the user gave it, else its id.
        is_active: whether it runs.
        failure: the condition of the error that ended it, or an empty text.
        batch: number of the last batch with a report.
        rows_per_second: that it has processed in that batch.
        input_rows_per_second: that arrived before it.
        behind: by source, the most offsets by which a partition is behind.
        durations_s: of the last batch with rows, by Spark's names of its parts, in seconds.
        commit_latency_s: of the last batch with rows, in seconds; None before.
        epoch_time_left_s: how much later the last batch in epoch scope could have been decided, in
            seconds; None if there was none.
        scope: of the last batch with rows: `task` or `epoch`; an empty text with another sink.
        totals: since it was first seen: `rows`, `batches`, `transactions_committed`,
            `transactions_aborted`, `fenced_attempts`.
        waits_s: by run and source, how long it has waited for offsets that others held open.
        reported_s: when its last report was made, in seconds since 1970.
    """

    name: str
    is_active: bool = True
    failure: str = ""
    batch: int = -1
    rows_per_second: float = 0.0
    input_rows_per_second: float = 0.0
    behind: dict[str, float] = field(default_factory=dict)
    durations_s: dict[str, float] = field(default_factory=dict)
    commit_latency_s: float | None = None
    epoch_time_left_s: float | None = None
    scope: str = ""
    totals: Numbers[str] = field(default_factory=Numbers)
    waits_s: dict[tuple[str, int], float] = field(default_factory=dict)
    reported_s: float = 0.0


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
            query.reported_s = _seconds(event.timestamp)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """A query has ended."""
        with self._lock:
            query = self._queries.get(str(event.id))
            if query is None:
                return
            query.is_active = False
            query.rows_per_second = query.input_rows_per_second = 0.0
            if event.exception:
                query.failure = event.errorClassOnException or _condition(event.exception)

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
        query.reported_s = _seconds(progress.timestamp)
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
        for theirs, ours in _OF_SINK.items():
            query.totals[ours] += int(metrics.get(theirs, 0))
        query.scope = metrics.get("transactionScope", "")
        if "commitLatencyMs" in metrics:
            query.commit_latency_s = float(metrics["commitLatencyMs"]) / 1_000
        if "epochTimeLeftMs" in metrics:
            query.epoch_time_left_s = float(metrics["epochTimeLeftMs"]) / 1_000


def _seconds(timestamp: str) -> float:
    """Since 1970, of one of Spark's timestamps, which are in UTC."""
    return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp()


def _condition(exception: str) -> str:
    """Of an error that Spark wraps in others without a condition of their own."""
    named = re.search(r"\[([A-Z][A-Z0-9_.]+)\]", exception)
    return named.group(1) if named else "unknown"


def _finite(value: float) -> float:
    """Spark has infinite and undefined rates for what took no time."""
    return value if value == value and abs(value) != float("inf") else 0.0


class Exporter:
    """Serves a session's numbers to Prometheus until it is closed."""

    def __init__(self, spark: SparkSession, board: Board, port: int, address: str) -> None:
        try:
            from prometheus_client import CollectorRegistry, start_http_server
        except ImportError as error:
            raise ConfigurationError(
                "prometheus_client is not installed, and the export needs it: pip install "
                "'eoskafka[metrics]'"
            ) from error
        registry = CollectorRegistry()
        registry.register(_Collector(board))
        try:
            self._server, self._thread = start_http_server(port, address, registry)
        except OSError as error:
            raise ConfigurationError(f"{address}:{port} cannot be served: {error}") from error
        self.port: int = self._server.server_port
        self._spark, self._board = spark, board
        spark.streams.addListener(board)

    def close(self) -> None:
        """Stop serving and listening."""
        self._spark.streams.removeListener(self._board)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Exporter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def export(spark: SparkSession, port: int = 9095, address: str = "127.0.0.1") -> Exporter:
    """Serve the numbers of a session's queries on `http://address:port/metrics`.

    Args:
        spark: whose queries, those that start from now on and those that run.
        port: 0 for any free one; the exporter says which.
        address: to listen on. By default only this machine can connect. Neither a log-in nor TLS
            protects the endpoint, so give another address only in a network that you trust.

    Raises:
        ConfigurationError: prometheus_client is missing, or the port is taken.
    """
    return Exporter(spark, Board(), port, address)


class _Collector:
    """prometheus_client asks it whenever Prometheus asks."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        queries = self._board.queries()

        def gauge(name: str, text: str, *labels: str) -> Any:
            return GaugeMetricFamily(f"eoskafka_{name}", text, labels=["query", *labels])

        def counter(name: str, text: str) -> Any:
            return CounterMetricFamily(f"eoskafka_{name}", text, labels=["query"])

        active = gauge("query_active", "1 while the query runs.")
        failed = gauge("query_failed", "1 if an error has ended it, by its condition.", "condition")
        batch = gauge("batch_id", "Number of the last batch with a report.")
        rate = gauge("rows_per_second", "Rows that the last batch has processed a second.")
        arrived = gauge("input_rows_per_second", "Rows that arrived a second before it.")
        behind = gauge("offsets_behind", "Of the partition that is most behind.", "source")
        duration = gauge("batch_duration_seconds", "Parts of the last batch with rows.", "part")
        latency = gauge("commit_latency_seconds", "Of the last batch with rows.")
        left = gauge("epoch_time_left_seconds", "Until the last epoch would have been given up.")
        reported = gauge("last_report_timestamp_seconds", "When the last report was made.")
        wait = counter("stable_offset_wait_seconds", "Waits for offsets that others held open.")
        totals = {
            "rows": counter("rows", "Input rows."),
            "batches": counter("batches", "Batches with rows."),
            "transactions_committed": counter("transactions_committed", "Transactions committed."),
            "transactions_aborted": counter("transactions_aborted", "Of attempts that failed."),
            "fenced_attempts": counter("fenced_attempts", "Attempts whose producer was fenced."),
        }
        for query in queries:
            name = query.name
            active.add_metric([name], query.is_active)
            if query.failure:
                failed.add_metric([name, query.failure], 1)
            batch.add_metric([name], query.batch)
            rate.add_metric([name], query.rows_per_second)
            arrived.add_metric([name], query.input_rows_per_second)
            for source, offsets in query.behind.items():
                behind.add_metric([name, source], offsets)
            for part, seconds in query.durations_s.items():
                duration.add_metric([name, part], seconds)
            if query.commit_latency_s is not None:
                latency.add_metric([name], query.commit_latency_s)
            if query.epoch_time_left_s is not None:
                left.add_metric([name], query.epoch_time_left_s)
            if query.reported_s:
                reported.add_metric([name], query.reported_s)
            wait.add_metric([name], sum(query.waits_s.values()))
            for what, family in totals.items():
                family.add_metric([name], query.totals[what])
        yield from (active, failed, batch, rate, arrived, behind, duration, latency, left)
        yield from (reported, wait)
        yield from totals.values()


@contextmanager
def live(spark: SparkSession, console: Console | None = None) -> Iterator[Board]:
    """Show the queries of a session in the terminal while the `with` block runs.

    Args:
        spark: whose queries.
        console: of rich; standard error by default.

    Returns:
        the numbers that are shown.
    """
    from rich.console import Console as Terminal
    from rich.live import Live

    board = Board()
    spark.streams.addListener(board)
    try:
        with Live(
            get_renderable=lambda: table(board.queries()),
            console=console or Terminal(stderr=True),
            refresh_per_second=2,
        ):
            try:
                yield board
            finally:
                _hear_the_rest(spark, board)
    finally:
        spark.streams.removeListener(board)


def _hear_the_rest(spark: SparkSession, board: Board) -> None:
    """Reports come later than what they tell of: the last of them are to be shown too."""
    if _connect.is_session(spark):
        # The report that a query has ended is its last one.
        deadline = time.monotonic() + _LAST_REPORTS_MS / 1_000
        running = {query.name or str(query.id) for query in spark.streams.active}
        while time.monotonic() < deadline and any(
            query.is_active and query.name not in running for query in board.queries()
        ):
            time.sleep(_LOOK_S)
        return
    bus = spark.sparkContext._jsc.sc().listenerBus()
    # Fails only if the bus is stopped, which has told everything.
    with suppress(Exception):
        bus.waitUntilEmpty(_LAST_REPORTS_MS)


def table(queries: list[Query]) -> Table:
    """A row for each query, and below them why those that have failed did."""
    from rich.table import Table

    failures = [f"{query.name}: {query.failure}" for query in queries if query.failure]
    shown = Table(
        box=None,
        pad_edge=False,
        caption="\n".join(failures) or None,
        caption_justify="left",
        caption_style="red",
    )
    # A long name goes on in the next line; numbers stay whole.
    shown.add_column("query", overflow="fold")
    for heading in _HEADINGS:
        shown.add_column(heading, justify="right", no_wrap=True)
    for query in queries:
        latency = query.commit_latency_s
        shown.add_row(
            query.name,
            "failed" if query.failure else "runs" if query.is_active else "ended",
            f"{query.batch:,}" if query.batch >= 0 else "-",
            f"{query.rows_per_second:,.0f}",
            f"{max(query.behind.values()):,.0f}" if query.behind else "-",
            f"{latency * 1_000:,.0f} ms" if latency is not None else "-",
            f"{query.totals['transactions_committed']:,}",
            f"{query.totals['transactions_aborted']:,}",
            f"{query.totals['fenced_attempts']:,}",
        )
    return shown
