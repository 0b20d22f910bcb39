"""What is exported of queries' reports, and that dashboard and alerts ask for nothing else."""

from __future__ import annotations

import io
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from eoskafka.metrics import _HEADINGS, Board, _Collector, _condition, export, table
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


def ended(condition: str | None = None) -> SimpleNamespace:
    return SimpleNamespace(
        id="id-1", exception=condition and "text", errorClassOnException=condition
    )


def test_only_this_machine_may_ask_unless_an_address_is_given() -> None:
    listeners: list[object] = []
    streams = SimpleNamespace(addListener=listeners.append, removeListener=listeners.remove)
    with export(SimpleNamespace(streams=streams), port=0) as exporter:  # type: ignore[arg-type]
        assert exporter._server.server_address[0] == "127.0.0.1"
        assert listeners
    assert not listeners


@pytest.fixture
def board() -> Board:
    found = Board()
    found.onQueryStarted(started())
    return found


def exported(board: Board) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(_Collector(board))
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
    assert all(heading in shown for heading in _HEADINGS)
    assert "failed" in shown
    assert ": EOSKAFKA_COMMIT_GAP" in shown


def test_a_condition_inside_of_an_error_is_found() -> None:
    assert _condition("Job aborted\nCaused by: X: [USER_RAISED_EXCEPTION] no") == (
        "USER_RAISED_EXCEPTION"
    )
    assert _condition("java.lang.Error") == "unknown"
