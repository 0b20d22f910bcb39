"""The benchmark of scale: what is run, and what is said of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from eoskafka.audit import Fault
from eoskafka.audit.compare import FAULTS
from eoskafka.bench import scale
from eoskafka.bench.count import Count
from eoskafka.bench.peers import BUILT_IN, EOSKAFKA, OURS
from eoskafka.bench.plots import draw
from eoskafka.bench.rounds import Result
from eoskafka.bench.scale import PER_PARTITION, PER_SLOT, Run, Settings, cases
from eoskafka.bench.scale_report import ScaleReport
from eoskafka.bench.stage import Machine
from eoskafka.cli import app

SETTINGS = Settings(1_000, (10, 5_000), (1, 4), (100, 10_000), (10,), 2)
RIGHT = Count(1_000, dict.fromkeys(FAULTS, 0), ())
LOSSY = Count(999, {**RIGHT.faults, Fault.LOST: 1}, ("record 7 never came out",))


def run(producers: str, size: int, number: int, ms: float, counted: Count = RIGHT) -> Run:
    ids = 2 if producers == PER_SLOT else size
    return Run(
        "partitions",
        EOSKAFKA,
        producers,
        size,
        number,
        1,
        ms,
        None,
        None,
        ids,
        8 * ids,
        None,
        counted,
    )


def report(*runs: Run) -> ScaleReport:
    return ScaleReport(Result(SETTINGS, Machine(2, "17", "4.2.0", "abc", "2026-11-28"), runs))


ROUNDS = (
    run(PER_SLOT, 10, 0, 9_000),
    run(PER_SLOT, 10, 1, 1_000),
    run(PER_PARTITION, 10, 1, 2_000),
    run(PER_SLOT, 100, 1, 2_000),
    run(PER_SLOT, 10, 2, 1_000),
    run(PER_PARTITION, 10, 2, 4_000),
    run(PER_SLOT, 100, 2, 2_000),
)
SLOT_10 = ("partitions", "eoskafka", PER_SLOT, 10)


def test_a_producer_for_each_of_thousands_of_partitions_is_not_tried() -> None:
    planned = [(c.part, c.peer, c.size, c.producers) for c in cases(SETTINGS)]
    assert planned == [
        ("partitions", EOSKAFKA, 10, PER_SLOT),
        ("partitions", EOSKAFKA, 10, PER_PARTITION),
        ("partitions", EOSKAFKA, 5_000, PER_SLOT),
        ("slots", EOSKAFKA, 1, PER_SLOT),
        ("slots", EOSKAFKA, 4, PER_SLOT),
        ("planning", EOSKAFKA, 100, PER_SLOT),
        ("planning", EOSKAFKA, 10_000, PER_SLOT),
        ("batches", BUILT_IN, 10, PER_SLOT),
        ("batches", dataclasses.replace(BUILT_IN, settings=OURS), 10, PER_SLOT),
        ("batches", EOSKAFKA, 10, PER_SLOT),
    ]


def test_warm_ups_are_not_timed(tmp_path: Path) -> None:
    rows = report(*ROUNDS).rows_per_s(SLOT_10)
    assert rows is not None
    assert (rows.median, rows.least) == (1_000, 1_000)
    picture = tmp_path / "scale.svg"
    draw(report(*ROUNDS).as_json(), picture)
    assert "a producer per partition" in picture.read_text(encoding="utf-8")


def test_a_run_that_was_wrong_has_no_time() -> None:
    wrong = report(*ROUNDS, run(PER_SLOT, 10, 3, 1, LOSSY))
    assert not wrong.holds
    assert "999 out, 1 lost" in wrong.lines()[0]
    assert "record 7 never came out" in wrong.lines()[0]
    rows = wrong.rows_per_s(SLOT_10)
    assert rows is not None
    assert rows.greatest == 1_000


@pytest.mark.parametrize(
    ("option", "given"),
    [("--partitions", "8,many"), ("--partitions", "0"), ("--partitions", ""), ("--slots", "1,16")],
)
def test_numbers_that_cannot_be_run_are_a_usage_error(
    option: str, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scale, "measure", None)
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(app.run(["bench", "scale", option, given]))
    assert ended.value.code == 2
