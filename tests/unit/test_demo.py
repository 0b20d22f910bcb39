"""The parts of the demo that need neither a broker nor Spark."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from eoskafka.audit import Fault, Finding, Record, Report
from eoskafka.audit.compare import FAULTS
from eoskafka.demo import DemoError, Outcome, processes
from eoskafka.demo.killer import DRIVER_KILLS, EXECUTOR_KILLS, Kill, plan
from eoskafka.demo.proof import expected_value
from eoskafka.demo.records import FEWEST_RECORDS, file_lines, source_lines
from eoskafka.demo.run import BATCHES
from eoskafka.demo.signs import Unfinished


@pytest.mark.parametrize("seed", range(50))
def test_kills_are_spread_over_the_run_and_leave_batches_to_recover_in(seed: int) -> None:
    orders = plan(random.Random(seed), BATCHES)
    victims = [order.victim for order in orders]
    assert (victims.count("driver"), victims.count("executor")) == (DRIVER_KILLS, EXECUTOR_KILLS)
    moments = [order.batch for order in orders]
    assert moments == sorted(set(moments))
    assert moments[0] >= 1
    assert moments[-1] <= BATCHES - 4


def test_the_same_seed_gives_the_same_kills() -> None:
    assert plan(random.Random(7), 26) == plan(random.Random(7), 26)
    assert plan(random.Random(7), 26) != plan(random.Random(8), 26)


def test_the_job_and_the_audit_agree_on_the_transformation() -> None:
    pytest.importorskip("pyspark")
    from eoskafka.demo.job import measured_and_mirrored

    for text in ("", "def f(x):", "straße ﬁn İ", "\t\x00\x1f", "日本語 🎉"):
        by_the_job = measured_and_mirrored(text).encode()
        assert expected_value(Record(0, 0, b"k", text.encode())) == by_the_job


def test_source_lines_are_real_lines_with_unique_keys() -> None:
    lines = source_lines(FEWEST_RECORDS)
    assert len({line.key for line in lines}) == FEWEST_RECORDS
    path, _, number = lines[-1].key.rpartition(":")
    assert path.endswith(".py")
    assert not Path(path).is_absolute()
    assert number.isdigit()


def test_file_lines_are_named_after_the_file_and_replace_what_is_not_text(tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_bytes(b"one\r\n\nthr\xffee\n" + b"x\n" * FEWEST_RECORDS)
    lines = file_lines(file)
    assert lines[:3] == [("words.txt:1", "one"), ("words.txt:2", ""), ("words.txt:3", "thr�ee")]


def test_a_file_that_is_too_short_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_text("one\n")
    with pytest.raises(DemoError, match=r"words\.txt has 1 lines; at least 20000"):
        file_lines(file)


def test_processes_of_a_session_include_orphans(tmp_path: Path) -> None:
    orphan = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'input()'])"
    with subprocess.Popen(
        [sys.executable, "-c", orphan], stdin=subprocess.PIPE, start_new_session=True
    ) as parent:
        assert parent.wait(timeout=20) == 0
        (left,) = processes.of_session(parent.pid)
        assert "input()" in left.command
        processes.send([left], signal.SIGKILL)
        assert left.id.wait(timeout_s=10)
        # Whoever has adopted it may take a while to collect it.
        deadline = time.monotonic() + 10
        while processes.of_session(parent.pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert processes.of_session(parent.pid) == []


RIGHT = Report(100, 100, dict.fromkeys(FAULTS, 0), ())
KILLS = tuple(
    Kill(who, (1,), 3, Unfinished(("eoskafka-x",))) for who in ["driver"] * 2 + ["executor"] * 4
)


def outcome(report: Report = RIGHT, kills: tuple[Kill, ...] = KILLS, batches: int = 26) -> Outcome:
    return Outcome(report, kills, batches, seconds=100.0, seed=1)


def test_the_verdict_of_a_demo_that_holds() -> None:
    assert outcome().holds
    assert outcome().verdict == "exactly once: 100 in, 100 out, 0 lost, 0 duplicated, 6 kills"


def test_one_duplicate_is_not_exactly_once() -> None:
    finding = Finding(Fault.DUPLICATED, Record(0, 1, b"k", b"v"), "came out before")
    report = Report(100, 101, {**RIGHT.faults, Fault.DUPLICATED: 1}, (finding,))
    assert not outcome(report).holds
    assert outcome(report).verdict == (
        "NOT exactly once: 100 in, 101 out, 0 lost, 1 duplicated, 6 kills"
    )


@pytest.mark.parametrize(
    ("weak", "why"),
    [
        (outcome(kills=KILLS[1:]), "5 kills, 1 of them the driver's"),
        (outcome(kills=KILLS[1:] + KILLS[-1:]), "6 kills, 1 of them the driver's"),
        (outcome(batches=19), "19 batches where at least 20"),
    ],
)
def test_too_few_kills_or_batches_show_nothing(weak: Outcome, why: str) -> None:
    assert not weak.holds
    assert weak.verdict.startswith("not shown: 100 in, 100 out")
    assert why in weak.shortcomings[0]
