"""The benchmark of epochs: results that are wrong are found, and what is right is summed up."""

from __future__ import annotations

import json

import pytest
from eoskafka.audit import Fault
from eoskafka.audit.compare import FAULTS
from eoskafka.bench import epoch
from eoskafka.bench.count import Count
from eoskafka.bench.epoch import KEYS, WINDOW_RECORDS, Run, Settings, WindowTally
from eoskafka.bench.epoch_report import EpochReport
from eoskafka.bench.peers import BUILT_IN, EOSKAFKA, Peer
from eoskafka.bench.rounds import Result
from eoskafka.bench.stage import Machine
from eoskafka.cli import app

RECORDS = 2 * WINDOW_RECORDS
RESULTS = [
    f"{window},{key},{WINDOW_RECORDS // KEYS}".encode()
    for window in (0, WINDOW_RECORDS // 1_000)
    for key in range(KEYS)
]
RIGHT = Count(len(RESULTS), dict.fromkeys(FAULTS, 0), ())
LOSSY = Count(0, {**RIGHT.faults, Fault.LOST: 1}, ("window and key (0, 7) never came out",))


def faults(found: list[bytes]) -> dict[str, int]:
    tally = WindowTally()
    tally.take([None] * 10, found[:10])
    tally.take([None] * (len(found) - 10), found[10:])
    counted = tally.against(RECORDS)
    assert counted.records == len(found)
    return {fault.value: number for fault, number in counted.faults.items() if number}


def test_every_window_and_key_with_its_count_is_right() -> None:
    assert faults(RESULTS[::-1]) == {}


def test_a_window_that_two_batches_have_seen_comes_out_twice() -> None:
    assert faults([b"0,0,7", *RESULTS]) == {}


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        (RESULTS[1:], "lost"),
        ([*RESULTS, RESULTS[0]], "duplicated"),
        ([b"0,0,19", *RESULTS[1:]], "altered"),
        ([b"0,0,21", *RESULTS], "altered"),
        ([*RESULTS, b"20,0,20"], "unexpected"),
    ],
)
def test_a_wrong_result_is_found(found: list[bytes], fault: str) -> None:
    assert faults(found) == {fault: 1}


def run(plan: str, peer: Peer, number: int, *batch_ms: int, count: Count = RIGHT) -> Run:
    commit = tuple(ms // 10 for ms in batch_ms) if peer == EOSKAFKA else ()
    return Run(plan, peer, number, batch_ms, commit, count)


def result(*runs: Run) -> Result[Run]:
    return Result(
        Settings(240_000, 4, 8, 200, 2), Machine(2, "17", "4.2.0", "abc", "2026-11-28"), runs
    )


RUNS = (
    run("windows", BUILT_IN, 0, 9_000),
    run("windows", EOSKAFKA, 0, 9_000),
    run("windows", BUILT_IN, 1, 1_000, 1_000, 4_000),
    run("windows", EOSKAFKA, 1, 800, 900, 5_000),
    run("writers", EOSKAFKA, 1, 3_000, 3_000, 3_100),
    run("windows", BUILT_IN, 2, 1_000, 1_000, 1_000),
    run("windows", EOSKAFKA, 2, 1_100, 1_100, 1_100),
    run("writers", EOSKAFKA, 2, 3_300, 3_300, 3_300),
)


def test_the_ratio_is_that_of_the_medians_of_the_rounds() -> None:
    ratio = EpochReport(result(*RUNS)).ratio(BUILT_IN)
    assert ratio is not None
    assert (ratio.median, ratio.least, ratio.greatest) == (1.0, 0.9, 1.1)


def test_commits_are_taken_one_by_one() -> None:
    commit = EpochReport(result(*RUNS)).commit_ms("writers")
    assert commit is not None
    assert (commit.median, commit.least, commit.greatest) == (320, 300, 330)


def test_a_run_that_was_wrong_has_no_time() -> None:
    wrong = EpochReport(result(*RUNS[:-2], run("windows", EOSKAFKA, 2, 1, count=LOSSY)))
    assert not wrong.holds
    ratio = wrong.ratio(BUILT_IN)
    assert ratio is not None
    assert (ratio.median, ratio.greatest) == (0.9, 0.9)
    assert "no time: round 2, windows, eoskafka: 0 out, 1 lost" in wrong.lines()[0]


def command(*arguments: str) -> int:
    try:
        return app.run(["bench", "epoch", *arguments])
    except SystemExit as ended:
        return int(ended.code or 0)


def test_the_command_prints_the_result_and_ends_as_it_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(epoch, "measure", lambda *_: result(*RUNS))
    assert command() == 0
    printed = capsys.readouterr().out
    assert "windows, eoskafka / built-in: 1.00" in printed
    assert "writers, eoskafka" in printed
    assert command("--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["commit_ms"]["median"] == 320
    lossy = result(*RUNS[:-1], run("writers", EOSKAFKA, 2, 1, count=LOSSY))
    monkeypatch.setattr(epoch, "measure", lambda *_: lossy)
    assert command() == 1


def test_batches_that_partitions_do_not_share_evenly_are_a_wrong_command_line() -> None:
    assert command("--batch-records", "100000") == 2
