"""What is exported of queries' reports, and that dashboard and alerts ask for nothing else."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from eoskafka.cli import app
from eoskafka.errors import ConfigurationError, UnreachableError
from eoskafka.metrics import Board, Exporter, export, instrument
from eoskafka.metrics.board import _condition
from eoskafka.metrics.prometheus import Collector
from eoskafka.reports import endpoint
from eoskafka.reports.table import HEADINGS, table
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint, Sum
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry, generate_latest
from rich.console import Console

CONF = Path(__file__).parent.parent.parent / "conf"


def progress(rows: int, run: str = "run-1", batch: int = 3, wait: str = "250") -> SimpleNamespace:
    source = {"maxOffsetsBehindLatest": "17", "stableOffsetWaitMs": wait}
    sink = {
        "transactionScope": "task",
        "transactionsCommitted": "2",
        "transactionsAborted": "1",
        "fencedAttempts": "1",
        "commitLatencyMs": "42",
        "epochTimeLeftMs": "1500",
    }
    report = SimpleNamespace(
        id="id-1",
        runId=run,
        name="payments",
        batchId=batch,
        numInputRows=rows,
        processedRowsPerSecond=float("inf"),
        inputRowsPerSecond=100.0,
        timestamp="2026-01-01T00:00:00.000Z",
        durationMs={"addBatch": 120, "triggerExecution": 200},
        sources=[SimpleNamespace(description="eoskafka[payments]", metrics=source)],
        sink=SimpleNamespace(metrics=sink if rows else {}),
    )
    return SimpleNamespace(progress=report)


def started(name: str | None = "payments") -> SimpleNamespace:
    return SimpleNamespace(id="id-1", name=name)


def ended(condition: str | None = None, text: str = "text") -> SimpleNamespace:
    return SimpleNamespace(id="id-1", exception=condition and text, errorClassOnException=condition)


class Session:
    """What a session is to metrics: it keeps their listeners."""

    def __init__(self) -> None:
        self.listeners: list[Any] = []
        self.streams = SimpleNamespace(
            addListener=self.listeners.append, removeListener=self.listeners.remove
        )

    def report(self, rows: int) -> None:
        for listener in self.listeners:
            listener.onQueryProgress(progress(rows))

    def fail(self) -> None:
        for listener in self.listeners:
            listener.onQueryTerminated(ended("EOSKAFKA_COMMIT_GAP"))


@pytest.fixture
def session() -> Session:
    return Session()


@pytest.fixture
def exporter(session: Session) -> Iterator[Exporter]:
    with export(session, port=0) as found:  # type: ignore[arg-type]
        yield found
    assert not session.listeners


def test_only_this_machine_may_ask_unless_an_address_is_given(exporter: Exporter) -> None:
    assert exporter._server.server_address[0] == "127.0.0.1"


PROGRAM = """
from tests.unit.test_metrics import Session, export
session = Session()
exporter = export(session, port=0, linger_s=60)
session.report(10)
if {fails}:
    session.fail()
print(exporter.port, flush=True)
raise SystemExit("the query has failed")
"""


@contextmanager
def program(fails: bool) -> Iterator[subprocess.Popen[str]]:
    """One that exports what a query reports, and ends at once."""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", PROGRAM.format(fails=fails)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "tests")])}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_failure_can_still_be_seen_when_the_program_has_ended() -> None:
    with program(fails=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        port = process.stdout.readline().strip()
        # What Python prints last, before it waits for the exporter.
        while "the query has failed" not in process.stderr.readline():
            assert process.poll() is None
        (query,) = endpoint.read(f"127.0.0.1:{port}")
        assert query.failure == "EOSKAFKA_COMMIT_GAP"


def test_without_a_failure_the_program_ends_at_once() -> None:
    with program(fails=False) as process:
        out, err = process.communicate(timeout=30)
    assert out.strip().isdecimal()
    assert err.splitlines()[-1] == "the query has failed"


@pytest.fixture
def board() -> Board:
    found = Board()
    found.onQueryStarted(started())
    return found


def exported(board: Board) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(Collector(board))
    lines = generate_latest(registry).decode().splitlines()
    pairs = [line.rpartition(" ") for line in lines if not line.startswith("#")]
    return {name: float(value) for name, _, value in pairs}


def test_reports_are_added_up_over_runs(board: Board) -> None:
    board.onQueryProgress(progress(10))
    board.onQueryProgress(progress(0, wait="300"))
    board.onQueryTerminated(ended())
    board.onQueryStarted(started())
    board.onQueryProgress(progress(5, run="run-2", batch=4, wait="50"))
    found = exported(board)
    query = '{query="payments"}'
    assert found[f"eoskafka_rows_total{query}"] == 15
    assert found[f"eoskafka_batches_total{query}"] == 2
    assert found[f"eoskafka_transactions_committed_total{query}"] == 4
    assert found[f"eoskafka_stable_offset_wait_seconds_total{query}"] == pytest.approx(0.35)
    assert found[f"eoskafka_commit_latency_seconds{query}"] == 0.042
    assert found[f"eoskafka_epoch_time_left_seconds{query}"] == 1.5
    assert found[f"eoskafka_batch_id{query}"] == 4
    assert found[f"eoskafka_rows_per_second{query}"] == 0
    behind = 'eoskafka_offsets_behind{query="payments",source="0: eoskafka[payments]"}'
    assert found[behind] == 17
    assert found['eoskafka_batch_duration_seconds{part="addBatch",query="payments"}'] == 0.12


def test_a_query_with_a_new_checkpoint_takes_the_place_of_its_former_one(board: Board) -> None:
    board.onQueryProgress(progress(10))
    board.onQueryTerminated(ended())
    board.onQueryStarted(SimpleNamespace(id="id-2", name="payments"))
    assert [(each.name, each.is_active) for each in board.queries()] == [("payments", True)]
    assert exported(board)['eoskafka_rows_total{query="payments"}'] == 0


def test_a_query_that_fails_is_told_until_it_starts_again(board: Board) -> None:
    failed = 'eoskafka_query_failed{condition="EOSKAFKA_COMMIT_GAP",query="payments"}'
    board.onQueryTerminated(ended("EOSKAFKA_COMMIT_GAP"))
    assert exported(board)[failed] == 1
    assert exported(board)['eoskafka_query_active{query="payments"}'] == 0
    board.onQueryStarted(started())
    assert failed not in exported(board)


def test_the_connectors_condition_comes_before_sparks(board: Board) -> None:
    text = "terminated with exception: [USER_RAISED_EXCEPTION] [EOSKAFKA_UNKNOWN_SCHEMA_ID] The"
    board.onQueryTerminated(ended("USER_RAISED_EXCEPTION", text))
    (query,) = board.queries()
    assert query.failure == "EOSKAFKA_UNKNOWN_SCHEMA_ID"


def test_a_query_that_waits_for_records_has_reported(board: Board) -> None:
    reported = 'eoskafka_last_report_timestamp_seconds{query="payments"}'
    board.onQueryProgress(progress(10))
    before = exported(board)[reported]
    board.onQueryIdle(SimpleNamespace(id="id-1", timestamp="2026-01-01T00:15:00.000Z"))
    assert exported(board)[reported] == before + 15 * 60
    assert exported(board)['eoskafka_query_active{query="payments"}'] == 1
    assert exported(board)['eoskafka_rows_total{query="payments"}'] == 10


def test_a_query_that_was_first_seen_without_its_name_gets_it() -> None:
    board = Board()
    board.onQueryIdle(SimpleNamespace(id="id-1", timestamp="2026-01-01T00:15:00.000Z"))
    assert 'eoskafka_query_active{query="id-1"}' in exported(board)
    board.onQueryProgress(progress(10))
    assert 'eoskafka_query_active{query="payments"}' in exported(board)


def test_a_query_without_a_name_has_its_id() -> None:
    board = Board()
    board.onQueryStarted(started(None))
    assert 'eoskafka_query_active{query="id-1"}' in exported(board)


@pytest.mark.parametrize("file", ["grafana-dashboard.json", "prometheus-alerts.yml"])
def test_what_is_shown_is_exported(file: str, board: Board) -> None:
    board.onQueryProgress(progress(10))
    board.onQueryTerminated(ended("EOSKAFKA_COMMIT_GAP"))
    names = {name.partition("{")[0] for name in exported(board)}
    asked = set(re.findall(r"\beoskafka_\w+", (CONF / file).read_text(encoding="utf-8")))
    assert asked
    assert asked <= names


def test_each_alert_has_a_runbook_and_each_runbook_an_alert() -> None:
    rules = (CONF / "prometheus-alerts.yml").read_text(encoding="utf-8")
    alerts = re.findall(r"- alert: (\w+)", rules)
    page = (CONF.parent / "docs" / "runbooks.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\w+)$", page, re.MULTILINE) == alerts
    links = re.findall(r'runbook: "docs/runbooks.md#(\w+)"', rules)
    assert links == [alert.lower() for alert in alerts]


def test_the_table_shows_each_query(board: Board) -> None:
    board.onQueryProgress(progress(10))
    text = io.StringIO()
    Console(file=text, width=120).print(table(board.queries()))
    row: list[Any] = text.getvalue().splitlines()[1].split()
    assert row == ["payments", "runs", "3", "0", "17", "42", "ms", "2", "1", "1"]


def test_the_table_fits_a_narrow_terminal() -> None:
    board = Board()
    board.onQueryStarted(started("a-query-with-a-long-name-of-its-own"))
    board.onQueryProgress(progress(10))
    board.onQueryTerminated(ended("EOSKAFKA_COMMIT_GAP"))
    text = io.StringIO()
    Console(file=text, width=80).print(table(board.queries()))
    shown = text.getvalue()
    assert "…" not in shown
    assert all(heading in shown for heading in HEADINGS)
    assert "failed" in shown
    assert ": EOSKAFKA_COMMIT_GAP" in shown


def test_a_condition_inside_of_an_error_is_found() -> None:
    assert _condition("Job aborted\nCaused by: X: [USER_RAISED_EXCEPTION] no") == (
        "USER_RAISED_EXCEPTION"
    )
    assert _condition("java.lang.Error") == "unknown"


# ---- an exporter's page, read back


def shown(*drivers: str, now_s: float | None = None, board: Board) -> str:
    text = io.StringIO()
    Console(file=text, width=160).print(table(board.queries(), drivers, now_s))
    return text.getvalue()


def test_a_page_has_all_that_a_board_has(session: Session, exporter: Exporter) -> None:
    session.report(10)
    session.fail()
    (found,) = endpoint.read(f"127.0.0.1:{exporter.port}")
    (known,) = exporter._board.queries()
    assert found.waits_s == {("", 0): sum(known.waits_s.values())}
    assert found.waits_s["", 0] > 0
    # The page has neither of these.
    found.waits_s, found.scope = known.waits_s, known.scope
    assert found == known


def test_a_page_without_queries_is_an_exporters(exporter: Exporter) -> None:
    assert endpoint.read(f"http://127.0.0.1:{exporter.port}/metrics") == []


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("b:9095", "http://b:9095/metrics"),
        ("https://b:9095/", "https://b:9095/metrics"),
        ("http://b/eos/metrics", "http://b/eos/metrics"),
        ("[::1]:9095", "http://[::1]:9095/metrics"),
    ],
)
def test_an_endpoint_is_a_host_or_a_url(given: str, url: str) -> None:
    assert endpoint.page(given) == url


@pytest.mark.parametrize(
    "given", ["file:///etc/passwd", "b:99999", "http://", "", "[b:1", "a..b:1", "a b:1"]
)
def test_anything_else_is_no_endpoint(given: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(f"'{given}' is neither")):
        endpoint.page(given)


@pytest.mark.parametrize(
    "page",
    [
        *(b"up 1\n", b"<html>", b"\xff", b"eoskafka_query_active{query=1} x"),
        *(b'eoskafka_batch_id{query="a"} NaN\n', b'eoskafka_rows_total{query="a"} +Inf\n'),
        b'eoskafka_query_active{query="a", ="b"} 1\n',
    ],
)
def test_another_page_is_refused(page: bytes) -> None:
    with (
        answering(b"HTTP/1.0 200 OK\r\n\r\n" + page) as address,
        pytest.raises(ConfigurationError, match=re.escape(address)),
    ):
        endpoint.read(address)


def test_a_page_that_is_not_there_is_refused() -> None:
    with (
        answering(b"HTTP/1.0 404 Not Found\r\n\r\n") as address,
        pytest.raises(ConfigurationError, match="HTTP status 404"),
    ):
        endpoint.read(address)


def test_a_driver_that_does_not_answer_is_unreachable() -> None:
    with answering(b"") as address, pytest.raises(UnreachableError, match="does not answer"):
        endpoint.read(address)


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """A server of one answer, at `host:port`."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join()


# ---- eoskafka top


class Ended(NamedTuple):
    """What a command has left."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def top(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Runs `eoskafka top`."""

    def run(*arguments: str) -> Ended:
        try:
            code = app.run(["top", *arguments])
        except SystemExit as ended:
            code = int(ended.code or 0)
        return Ended(code, *capsys.readouterr())

    return run


def test_top_shows_the_queries_of_each_driver(
    session: Session, exporter: Exporter, top: Callable[..., Ended]
) -> None:
    session.report(10)
    with export(Session(), port=0) as other:  # type: ignore[arg-type]
        other._board.onQueryStarted(started("[red]orders\x1b[2J"))
        done = top(f"127.0.0.1:{exporter.port}", f"127.0.0.1:{other.port}")
    assert done.returncode == 0, done.stderr
    heading, first, second = done.stdout.splitlines()
    assert heading.split() == ["driver", "query", *HEADINGS, "report"]
    assert first.split()[:3] == [f"127.0.0.1:{exporter.port}", "payments", "runs"]
    assert second.split()[:3] == [f"127.0.0.1:{other.port}", "[red]orders\\x1b[2J", "runs"]


def test_top_names_a_driver_that_does_not_answer(
    session: Session, exporter: Exporter, top: Callable[..., Ended]
) -> None:
    session.report(10)
    with answering(b"") as silent:
        done = top("--once", f"127.0.0.1:{exporter.port}", silent)
    assert done.returncode == 3
    assert "payments" in done.stdout
    assert f"http://{silent}/metrics does not answer" in done.stderr


@pytest.mark.parametrize("answer", [b"HTTP/1.0 503 No\r\n\r\n", b"HTP\x1b[2J\r\n\r\n"])
def test_top_goes_on_without_a_driver_whose_page_is_no_exporters(
    answer: bytes, session: Session, exporter: Exporter, top: Callable[..., Ended]
) -> None:
    session.report(10)
    with answering(answer) as other:
        done = top("--once", f"127.0.0.1:{exporter.port}", other)
    assert done.returncode == 3
    assert "payments" in done.stdout
    assert f"http://{other}/metrics" in done.stderr
    assert "\x1b" not in done.stderr


def test_top_refuses_what_is_no_endpoint(top: Callable[..., Ended]) -> None:
    done = top("a b:1")
    assert done.returncode == 2
    assert "'a b:1' is neither host:port nor a URL" in " ".join(done.stderr.split())


def test_top_prints_json(session: Session, exporter: Exporter, top: Callable[..., Ended]) -> None:
    session.report(10)
    done = top("--format", "json", f"127.0.0.1:{exporter.port}")
    (driver,) = json.loads(done.stdout)["drivers"]
    assert driver["error"] == ""
    (query,) = driver["queries"]
    assert query["name"] == "payments"
    assert query["totals"]["rows"] == 10
    assert query["waits_s"] == 0.25
    assert "scope" not in query


def test_top_follows_in_a_terminal_until_it_is_interrupted(
    session: Session, exporter: Exporter
) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "eoskafka", "top", f"127.0.0.1:{exporter.port}"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    process = subprocess.Popen(
        [*command, "--interval", "0.1"], stdout=theirs, stderr=theirs, stdin=theirs, env=environment
    )
    os.close(theirs)
    seen = b""
    while b"query" not in seen:
        seen += os.read(ours, 65_536)
    assert b"payments" not in seen
    session.report(10)
    while b"payments" not in seen:
        seen += os.read(ours, 65_536)
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0
    os.close(ours)


def test_a_report_gets_older(board: Board) -> None:
    board.onQueryProgress(progress(10))
    (query,) = board.queries()
    assert query.reported_s is not None
    row = shown("a:1", now_s=query.reported_s + 75, board=board).splitlines()[1].split()
    assert row[0] == "a:1"
    assert row[-2:] == ["75", "s"]


# ---- OpenTelemetry


def test_opentelemetry_gets_what_prometheus_gets(session: Session, board: Board) -> None:
    reader, spans = InMemoryMetricReader(), InMemorySpanExporter()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    meters = MeterProvider([reader])
    # A former one of the same providers, as after a restart of the queries.
    instrument(session, meters, tracers).close()  # type: ignore[arg-type]
    with instrument(session, meters, tracers):  # type: ignore[arg-type]
        session.report(10)
        session.report(0)
        session.fail()
        board.onQueryProgress(progress(10))
        board.onQueryProgress(progress(0))
        board.onQueryTerminated(ended("EOSKAFKA_COMMIT_GAP"))
    # The last numbers, which closing has flushed.
    assert observed(reader) == exported(board)
    session.report(5)
    assert not session.listeners
    assert reader.get_metrics_data() is None
    (span,) = spans.get_finished_spans()
    assert span.name == "micro-batch"
    assert span.start_time == 1_767_225_600 * 10**9
    assert span.end_time == span.start_time + 200 * 10**6
    assert dict(span.attributes or {}) == {
        "eoskafka.query": "payments",
        "eoskafka.batch_id": 3,
        "eoskafka.rows": 10,
        "eoskafka.duration_ms.addBatch": 120,
        "eoskafka.duration_ms.triggerExecution": 200,
        "eoskafka.transactions_committed": 2,
        "eoskafka.transactions_aborted": 1,
        "eoskafka.fenced_attempts": 1,
        "eoskafka.transaction_scope": "task",
    }


def observed(reader: InMemoryMetricReader) -> dict[str, float]:
    """As OpenTelemetry's rules turn names and labels into those of Prometheus."""
    data = reader.get_metrics_data()
    assert data is not None
    found: dict[str, float] = {}
    (resource,) = data.resource_metrics
    (scope,) = resource.scope_metrics
    for metric in scope.metrics:
        name = metric.name.replace(".", "_") + {"s": "_seconds", "": ""}[metric.unit or ""]
        if isinstance(metric.data, Sum):
            assert metric.data.is_monotonic
            name += "_total"
        for point in metric.data.data_points:
            pairs = sorted(dict(point.attributes or {}).items())
            labels = ",".join(f'{label}="{value}"' for label, value in pairs)
            assert isinstance(point, NumberDataPoint)
            found[f"{name}{{{labels}}}"] = point.value
    return found
