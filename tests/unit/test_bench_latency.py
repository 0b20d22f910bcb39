"""The benchmark of latency: a wrong output is found, and what is right is summed up."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from eoskafka.audit import Fault
from eoskafka.audit.compare import FAULTS
from eoskafka.bench import latency, peers
from eoskafka.bench.count import Count
from eoskafka.bench.latency import Run, Settings
from eoskafka.bench.latency_report import LatencyReport, describe
from eoskafka.bench.peers import BUILT_IN, EOSKAFKA, FLINK, REAL_TIME, STREAMS, Peer
from eoskafka.bench.plots import draw
from eoskafka.bench.rounds import Result
from eoskafka.bench.stage import Machine
from eoskafka.bench.stream import Arrivals
from eoskafka.cli import app
from eoskafka.cli.bench_options import conf_of

SETTINGS = Settings(rate=2, seconds=1, warm_up_s=1, record_bytes=16, partitions=1, rounds=2)
RIGHT = Count(4, dict.fromkeys(FAULTS, 0), ())
LOSSY = Count(3, {**RIGHT.faults, Fault.LOST: 1}, ())


def value(n: int, sent_ns: int) -> bytes:
    return struct.pack(">QQ", n, sent_ns)


def faults(found: list[bytes]) -> dict[str, int]:
    arrivals = Arrivals(SETTINGS.stream())
    for each in found:
        arrivals.take(each, 3_000_000)
    assert arrivals.count().records == len(found)
    return {fault.value: n for fault, n in arrivals.count().faults.items() if n}


ALL = [value(n, 1_000_000) for n in range(4)]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (ALL, {}),
        (ALL[1:], {"lost": 1}),
        ([*ALL, ALL[2]], {"duplicated": 1}),
        ([*ALL, value(4, 0)], {"unexpected": 1}),
        ([*ALL, b"short"], {"altered": 1}),
    ],
)
def test_a_wrong_output_is_found(found: list[bytes], expected: dict[str, int]) -> None:
    assert faults(found) == expected


def test_a_latency_is_from_sending_to_the_first_arrival() -> None:
    arrivals = Arrivals(SETTINGS.stream())
    arrivals.take(value(2, 1_000_000), 3_500_000)
    arrivals.take(value(2, 1_000_000), 9_000_000)
    assert arrivals.latencies_ms()[2] == 2.5


def run(peer: Peer, number: int, p50: float, p99: float, counted: Count = RIGHT) -> Run:
    batch = None if peer == STREAMS else p50
    return Run(peer, number, p50, p99, 2 * p99, batch, {"addBatch": 5.0}, counted)


def report(*runs: Run) -> LatencyReport:
    return LatencyReport(Result(SETTINGS, Machine(2, "17", "4.2.0", "abc", "2026-11-28"), runs))


ROUNDS = (
    run(BUILT_IN, 1, 300, 600),
    run(EOSKAFKA, 1, 150, 200),
    run(STREAMS, 1, 70, 150),
    run(BUILT_IN, 2, 500, 1_000),
    run(EOSKAFKA, 2, 250, 600),
    run(STREAMS, 2, 70, 150),
)


def test_the_ratio_is_that_of_the_medians(tmp_path: Path) -> None:
    p50, p99 = (report(*ROUNDS).ratio(BUILT_IN, name) for name in ("p50", "p99"))
    assert p50 is not None
    assert p99 is not None
    assert (p50.median, p50.least, p50.greatest) == (0.5, 0.5, 0.5)
    assert (p99.median, p99.greatest) == (0.5, 0.6)
    assert p99.least == pytest.approx(1 / 3)
    picture = tmp_path / "latency.svg"
    draw(report(*ROUNDS).as_json(), picture)
    assert "Kafka Streams" in picture.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("given", "expected"), [("flink", {FLINK.name}), ("built-in", {BUILT_IN.name}), ("", set())]
)
def test_only_peers_that_are_asked_for_take_part(
    monkeypatch: pytest.MonkeyPatch, given: str, expected: set[str]
) -> None:
    chosen: list[Settings] = []

    def measure(settings: Settings, *_: object) -> Result[Run]:
        chosen.append(settings)
        return report(*ROUNDS).result

    monkeypatch.setattr(peers, "missing", lambda: None)
    monkeypatch.setattr(latency, "measure", measure)
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(app.run(["bench", "latency", "--peers", given]))
    assert ended.value.code == 0
    assert {peer.name for peer in chosen[0].peers} == {*expected, EOSKAFKA.name}
    assert REAL_TIME in chosen[0].peers


@pytest.mark.parametrize(
    ("given", "expected"),
    [("a.b=c=d", {"a.b": "c=d"}), ("a.b=", {"a.b": ""}), ("a.b", None), ("=c", None)],
)
def test_settings_of_spark(given: str, expected: dict[str, str] | None) -> None:
    if expected is None:
        with pytest.raises(typer.BadParameter, match="is not KEY=VALUE"):
            conf_of([given])
    else:
        assert conf_of([given]) == expected


def test_a_report_names_the_settings_of_spark() -> None:
    settings = replace(SETTINGS, spark_conf={"a.b": "c"})
    given = LatencyReport(replace(report(*ROUNDS).result, settings=settings))
    assert "rounds of 1 s after 1 s, a.b=c; milliseconds" in given.heading()
    assert given.as_json()["settings"]["spark_conf"] == {"a.b": "c"}  # type: ignore[index]


def test_the_java_loop_has_no_latency(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(latency, "measure", None)
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(app.run(["bench", "latency", "--peers", "loop"]))
    assert ended.value.code == 2
    assert "'loop' is not one of built-in, streams, flink" in capsys.readouterr().err


def test_a_run_that_was_wrong_has_no_time() -> None:
    wrong = report(*ROUNDS[:4], run(EOSKAFKA, 2, 1, 1, LOSSY))
    assert not wrong.holds
    spread = wrong.ms(EOSKAFKA, "p50")
    assert spread is not None
    assert spread.least == 150
    assert wrong.lines() == [
        "no time: round 2, eoskafka: 3 out, 1 lost, 0 duplicated, 0 altered, 0 unexpected"
    ]
    assert describe(ROUNDS[0]) == "round 1, built-in: 4 out, p50 300 ms, p99 600 ms, batch 300 ms"
