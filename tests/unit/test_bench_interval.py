"""The benchmark of commit intervals: what is right is summed up, by part and interval."""

from __future__ import annotations

from pathlib import Path

import pytest
from eoskafka.audit import Fault
from eoskafka.audit.compare import FAULTS
from eoskafka.bench import interval, latency
from eoskafka.bench.count import Count
from eoskafka.bench.errors import BenchError
from eoskafka.bench.interval import BACKLOG, LATENCY, Run, Settings, rows_per_s
from eoskafka.bench.interval_report import IntervalReport, describe
from eoskafka.bench.peers import FLINK, REAL_TIME, Peer
from eoskafka.bench.plots import draw
from eoskafka.bench.rounds import Result
from eoskafka.bench.stage import Machine
from eoskafka.cli import app

STREAM = latency.Settings(2_000, 30, 10, 100, 8, 2, ())
SETTINGS = Settings((10, 100), STREAM, 1_000, 2)
RIGHT = Count(1_000, dict.fromkeys(FAULTS, 0), ())
LOSSY = Count(999, {**RIGHT.faults, Fault.LOST: 1}, ())


def steady(
    interval_ms: int, number: int, p50: float, counted: Count = RIGHT, peer: Peer = REAL_TIME
) -> Run:
    parts = {"flush": 3.0 * number, "offsets": 1.0, "end": 2.0} if peer.is_ours else {}
    transactions = 50 if peer.is_ours else 0
    return Run(
        *(peer, LATENCY, interval_ms, number, p50, 2 * p50, None, transactions, parts, counted)
    )


def backlog(
    interval_ms: int,
    number: int,
    rows_per_s: float,
    counted: Count = RIGHT,
    peer: Peer = REAL_TIME,
) -> Run:
    return Run(peer, BACKLOG, interval_ms, number, None, None, rows_per_s, 0, {}, counted)


def report(*runs: Run) -> IntervalReport:
    return IntervalReport(Result(SETTINGS, Machine(2, "17", "4.2.0", "abc", "2026-11-28"), runs))


ROUNDS = (
    steady(10, 0, 900),
    steady(10, 1, 20),
    backlog(10, 1, 600),
    steady(100, 1, 60),
    backlog(100, 1, 1_000),
    steady(10, 2, 30),
    backlog(10, 2, 800),
    steady(100, 2, 80),
    backlog(100, 2, 1_000),
)


def test_latency_and_throughput_are_told_by_interval(tmp_path: Path) -> None:
    p50 = report(*ROUNDS).spread(REAL_TIME, 10, "p50_ms")
    kept = report(*ROUNDS).throughput_kept(REAL_TIME, 10)
    assert p50 is not None
    assert kept is not None
    assert (p50.median, p50.least, p50.greatest) == (25, 20, 30)
    assert (kept.median, kept.least, kept.greatest) == (0.7, 0.6, 0.8)
    flush = report(*ROUNDS).transaction_ms(REAL_TIME, 10, "flush")
    assert flush is not None
    assert (flush.median, flush.least, flush.greatest) == (4.5, 3, 6)
    picture = tmp_path / "interval.svg"
    draw(report(*ROUNDS).as_json(), picture)
    assert "eoskafka, real-time, p99" in picture.read_text(encoding="utf-8")


def test_a_run_that_was_wrong_has_no_time() -> None:
    wrong = report(*ROUNDS[:-1], backlog(100, 2, 5_000, LOSSY))
    assert not wrong.holds
    rows = wrong.spread(REAL_TIME, 100, "rows_per_s")
    assert rows is not None
    assert rows.greatest == 1_000
    assert wrong.lines() == [
        "no time: round 2, eoskafka, real-time, backlog, a commit every 100 ms: 999 out, 1 lost, "
        "0 duplicated, 0 altered, 0 unexpected"
    ]
    assert describe(ROUNDS[1]) == (
        "round 1, eoskafka, real-time, latency, a commit every 10 ms: p50 20 ms, p99 40 ms; "
        "50 transactions, flush 3.0 ms, offsets 1.0 ms, end 2.0 ms"
    )


def test_another_peer_is_compared_at_the_same_interval(tmp_path: Path) -> None:
    flink = (
        steady(10, 1, 50, peer=FLINK),
        backlog(10, 1, 1_400, peer=FLINK),
        steady(100, 1, 140, peer=FLINK),
        backlog(100, 1, 2_000, peer=FLINK),
    )
    both = report(*ROUNDS, *flink)
    ratios = [both.ratio(FLINK, ms, name) for ms in (10, 100) for name in ("p50_ms", "rows_per_s")]
    assert [ratio.median for ratio in ratios if ratio] == [0.5, 0.5, 0.5, 0.5]
    kept = both.throughput_kept(FLINK, 10)
    assert kept is not None
    assert kept.median == 0.7
    assert both.transaction_ms(FLINK, 10, "flush") is None
    printed = both.as_json()["intervals"]
    assert isinstance(printed, list)
    assert [(each["peer"], each["interval_ms"]) for each in printed] == [
        (peer.label, ms) for peer in (REAL_TIME, FLINK) for ms in (10, 100)
    ]
    assert describe(flink[0]) == (
        "round 1, Flink, latency, a commit every 10 ms: p50 50 ms, p99 100 ms"
    )
    picture = tmp_path / "interval.svg"
    draw(both.as_json(), picture)
    assert "Flink" in picture.read_text(encoding="utf-8")


def test_a_backlog_is_timed_between_a_tenth_and_nine_tenths() -> None:
    looks = [(0.0, 0), (5.0, 100), (6.0, 500), (7.0, 880), (8.0, 950), (20.0, 1_000)]
    assert rows_per_s(looks, 1_000) == (950 - 100) / 3
    with pytest.raises(BenchError, match="--backlog"):
        rows_per_s([(0.0, 0), (5.0, 950), (6.0, 1_000)], 1_000)


def test_more_transactions_than_an_epoch_counts_are_a_usage_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(interval, "measure", None)
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(app.run(["bench", "interval", "--seconds", "400"]))
    assert ended.value.code == 2
    assert "can be at most 320" in capsys.readouterr().err


def test_checkpoints_that_flink_would_refuse_are_a_usage_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen: list[Settings] = []

    def measure(settings: Settings, *_: object) -> Result[Run]:
        chosen.append(settings)
        return report(*ROUNDS).result

    monkeypatch.setattr(interval, "measure", measure)
    arguments = ["bench", "interval", "--intervals-ms", "5", "--seconds", "10", "--rounds", "1"]
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(app.run(arguments))
    assert ended.value.code == 2
    assert "at least 10 ms apart" in capsys.readouterr().err
    assert not chosen
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(app.run([*arguments, "--peers", ""]))
    assert ended.value.code == 0
    assert chosen[0].peers == (REAL_TIME,)


@pytest.mark.parametrize("given", ["10,soon", "0", ""])
def test_intervals_that_are_no_numbers_are_a_usage_error(
    given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interval, "measure", None)
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(app.run(["bench", "interval", "--intervals-ms", given]))
    assert ended.value.code == 2
