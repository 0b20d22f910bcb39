"""The benchmarks' tables: results without Flink or far brokers have theirs, and others more."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
FLINK = ("Flink", "Flink, eoskafka's settings")


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The module that makes the tables, with results of near brokers in a folder of its own."""
    monkeypatch.syspath_prepend(str(DOCS))
    sys.modules.pop("make_benchmarks", None)
    import make_benchmarks

    for file in make_benchmarks.RESULTS.glob("*.json"):
        if "-far-" not in file.name:
            (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.setattr(make_benchmarks, "RESULTS", tmp_path)
    return make_benchmarks


def rewrite(file: Path, **changes: object) -> None:
    found = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**found, **changes}), encoding="utf-8")


def without_flink(folder: Path) -> None:
    """Make results as they were before Flink took part."""
    for name in ("throughput", "latency", "latency-20k", "latency-2p"):
        peers = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["peers"]
        others = {label: of for label, of in peers.items() if label not in FLINK}
        rewrite(folder / f"{name}.json", peers=others)
    intervals = json.loads((folder / "interval.json").read_text(encoding="utf-8"))["intervals"]
    kept = [of for of in intervals if of.pop("peer", "eoskafka, real-time") not in FLINK]
    rewrite(folder / "interval.json", intervals=kept)


def test_results_without_flink_have_no_row_of_it(pages: Any) -> None:
    without_flink(pages.RESULTS)
    assert "Flink" not in pages.overview() + pages.details()
    assert "| eoskafka, real-time | 100 | " in pages.details()


def test_results_with_flink_have_its_rows(pages: Any) -> None:
    without_flink(pages.RESULTS)
    spread = {"median": 70.0, "least": 69.0, "greatest": 71.0}
    for name, fields in {
        "throughput": ("rows_per_s", "cpu_s_per_million", "eoskafka_over_it"),
        "latency": ("p50_ms", "p99_ms", "real_time_over_its_p50", "real_time_over_its_p99"),
    }.items():
        file = pages.RESULTS / f"{name}.json"
        found = json.loads(file.read_text(encoding="utf-8"))
        flink = {**found["peers"]["Kafka Streams"], **dict.fromkeys(fields, spread)}
        # One run of it: another peer's, which has no batches either.
        runs = [
            {**run, "peer": label}
            for run in found["runs"]
            for label in FLINK
            if run["peer"] == "Kafka Streams"
        ]
        peers = {**found["peers"], **dict.fromkeys(FLINK, flink)}
        rewrite(file, peers=peers, runs=[*found["runs"], *runs])
    file = pages.RESULTS / "interval.json"
    intervals = json.loads(file.read_text(encoding="utf-8"))["intervals"]
    none = {"peer": "Flink", "transaction_ms": dict.fromkeys(("flush", "offsets", "end"))}
    rewrite(file, intervals=[*intervals, {**intervals[0], **none}])
    assert "| the same, Flink | " in pages.overview()
    assert "| p50 at 2,000 records/s; real-time mode, Flink | " in pages.overview()
    assert "| Flink, eoskafka's settings | exactly-once | 70 | " in pages.details()
    assert "| Flink | 70 (69 to 71) | 70 (69 to 71) | 70.00 | 70.00 | | | |" in pages.details()
    assert f"| Flink | {intervals[0]['interval_ms']} | " in pages.details()
    assert " | - | - | - | " in pages.details()


def test_results_of_far_brokers_have_tables_of_their_own(pages: Any) -> None:
    assert "Far brokers" not in pages.details()
    for round_trip_ms in (1, 5, 20):
        for benchmark in ("throughput", "latency", "epoch"):
            found = (pages.RESULTS / f"{benchmark}.json").read_bytes()
            (pages.RESULTS / f"{benchmark}-far-{round_trip_ms}.json").write_bytes(found)
    rows = [row.split(" | ") for row in pages.details().splitlines() if row.startswith("| 20 ms")]
    peers = [row for row in rows if len(row) == 6]
    rate = next(row for row in peers if row[1] == "Kafka Streams")
    near = pages.result("throughput")["peers"]["Kafka Streams"]["rows_per_s"]["median"]
    assert rate[2].startswith(f"{near:,.0f} (")
    # In real-time mode nothing but latency is measured.
    assert next(row for row in peers if row[1] == "eoskafka, real-time")[2:4] == ["-", "-"]
    (epochs,) = (row for row in rows if len(row) == 6 and row[1][0].isdigit())
    assert epochs[-1] == f"{pages.result('epoch')['commit_ms']['median']:,.0f} |"
