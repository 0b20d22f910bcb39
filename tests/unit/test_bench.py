"""A benchmark believes no time of a run that was wrong, and says what was wrong with it."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
from pathlib import Path
from subprocess import PIPE

import numpy as np
import psutil
import pytest
from eoskafka.audit import Fault, UndecidedError
from eoskafka.audit.compare import FAULTS
from eoskafka.bench import peers, throughput
from eoskafka.bench.brokers import Brokers
from eoskafka.bench.count import Count, Tally
from eoskafka.bench.peers import (
    BUILT_IN,
    EOSKAFKA,
    FLINK,
    LOOP,
    OURS,
    PEERS,
    READ_ONLY,
    STREAMS,
    WRITE_ONLY,
    Peer,
    program_jars,
)
from eoskafka.bench.plots import draw
from eoskafka.bench.report import Report
from eoskafka.bench.rounds import Result
from eoskafka.bench.stage import Input, Machine
from eoskafka.bench.throughput import Run, Settings
from eoskafka.bench.usage import Usage, measured
from eoskafka.bench.values import numbers, values
from eoskafka.cli import app

BYTES = 100
RECORDS = 50
RIGHT = Count(RECORDS, dict.fromkeys(FAULTS, 0), ())
LOSSY = Count(RECORDS - 1, {**RIGHT.faults, Fault.LOST: 1}, ("record 7 never came out",))


def value(number: int) -> bytes:
    return values(np.array([number], dtype=np.uint64), BYTES).tobytes()


OUTPUT = [value(n) for n in range(RECORDS)]


def count(found: list[bytes], keys: list[bytes | None] | None = None, keyed: bool = False) -> Count:
    tally = Tally(BYTES, keyed)
    no_keys: list[bytes | None] = [None] * len(found)
    # In two portions, as a reader gets them.
    for portion in (slice(0, 20), slice(20, None)):
        tally.take((keys or no_keys)[portion], found[portion])
    return tally.against(RECORDS)


def faults(counted: Count) -> dict[str, int]:
    return {fault.value: number for fault, number in counted.faults.items() if number}


def test_a_value_is_its_number_and_a_chain_of_splitmix64_words() -> None:
    assert value(1)[:16].hex() == "0000000000000001" + "5692161d100b05e5"
    assert len(value(1)) == BYTES
    assert numbers(np.frombuffer(value(2**40 + 3), np.uint8).reshape(1, -1)) == [2**40 + 3]


def test_every_record_once_is_right_in_any_order() -> None:
    counted = count(OUTPUT[::-1])
    assert counted.is_right
    assert counted.records == RECORDS


def test_a_record_that_is_missing_is_named() -> None:
    counted = count(OUTPUT[:7] + OUTPUT[8:])
    assert faults(counted) == {"lost": 1}
    assert counted.examples == ("record 7 never came out",)


def test_a_doubled_record_does_not_make_up_for_a_lost_one() -> None:
    counted = count([*OUTPUT[:7], *OUTPUT[8:], OUTPUT[3]])
    assert counted.records == RECORDS
    assert faults(counted) == {"lost": 1, "duplicated": 1}


def test_a_changed_byte_is_an_altered_record() -> None:
    counted = count([OUTPUT[0][:-1] + b"\0", *OUTPUT[1:]])
    assert faults(counted) == {"lost": 1, "altered": 1}


def test_a_value_of_another_length_is_an_altered_record() -> None:
    assert faults(count([OUTPUT[0] + b"\0", b"", *OUTPUT[2:]])) == {"lost": 2, "altered": 2}


def test_a_record_that_was_never_put_in_is_unexpected() -> None:
    assert faults(count([*OUTPUT, value(RECORDS)])) == {"unexpected": 1}


def test_an_empty_topic_has_lost_everything() -> None:
    assert faults(count([])) == {"lost": RECORDS}


def test_a_key_belongs_to_its_value() -> None:
    keys: list[bytes | None] = [v[:8] for v in OUTPUT]
    assert count(OUTPUT, keys, keyed=True).is_right
    swapped = [keys[1], keys[0], *keys[2:]]
    assert faults(count(OUTPUT, swapped, keyed=True)) == {"lost": 2, "altered": 2}
    assert faults(count(OUTPUT, keys)) == {"lost": RECORDS, "altered": RECORDS}


def run(peer: Peer, number: int, seconds: float, counted: Count = RIGHT) -> Run:
    return Run(peer, number, 1, seconds * 1_000, Usage(seconds / 2, 1 << 30), 1.0, counted)


def report(*runs: Run) -> Report:
    return Report(
        Result(
            Settings(RECORDS, BYTES, 8, 3), Machine(2, "17", "4.2.0", "abc", "2026-11-28"), runs
        ),
    )


ROUNDS = (
    run(BUILT_IN, 0, 9),
    run(EOSKAFKA, 0, 9),
    run(BUILT_IN, 1, 4),
    run(EOSKAFKA, 1, 2),
    run(BUILT_IN, 2, 5),
    run(EOSKAFKA, 2, 1),
    run(BUILT_IN, 3, 2),
    run(EOSKAFKA, 3, 1),
)


def test_the_ratio_is_that_of_the_medians_without_the_warm_up() -> None:
    ratio = report(*ROUNDS).ratio(BUILT_IN)
    assert ratio is not None
    assert (ratio.median, ratio.least, ratio.greatest) == (4.0, 2.0, 5.0)
    cpu = report(*ROUNDS).cpu_ratio(BUILT_IN)
    assert cpu is not None
    assert (cpu.median, cpu.least, cpu.greatest) == (0.25, 0.2, 0.5)


def test_the_limit_is_reading_everything_and_then_writing_it() -> None:
    alone = (run(READ_ONLY, 1, 0.25), run(WRITE_ONLY, 1, 0.75), run(EOSKAFKA, 1, 2))
    assert report(*alone).limit() == [RECORDS]
    assert report(*alone).as_json()["limits"]["eoskafka_over_both"]["median"] == 0.5  # type: ignore[index]


def test_a_run_that_was_wrong_has_no_time() -> None:
    wrong = report(*ROUNDS[:-1], run(EOSKAFKA, 3, 0.1, LOSSY))
    spread = wrong.rows_per_s(EOSKAFKA)
    assert spread is not None
    assert spread.greatest == RECORDS
    assert not wrong.holds
    assert "no time: round 3, eoskafka: 49 out, 1 lost" in wrong.lines()[0]
    assert "record 7 never came out" in wrong.lines()[0]


def test_without_a_right_run_there_is_no_ratio() -> None:
    wrong = report(run(BUILT_IN, 1, 4, LOSSY), run(EOSKAFKA, 1, 2))
    assert wrong.ratio(BUILT_IN) is None
    assert "none, since a peer has no time" in wrong.lines()[1]


def test_each_peer_takes_part_with_its_defaults_and_with_our_settings() -> None:
    for name in (BUILT_IN.name, STREAMS.name, FLINK.name, LOOP.name):
        defaults, ours = (peer for peer in PEERS if peer.name == name)
        assert defaults.clients() == {"consumer": {}, "producer": {}}
        assert ours.settings == OURS
        assert ours.clients()["producer"]["linger.ms"] == "20"
        assert ours.clients()["consumer"]["max.poll.records"] == "5000"


def test_a_program_has_the_kafka_clients_that_it_was_released_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peers, "_built", built := FakeBuild())
    for peer in (STREAMS, LOOP, READ_ONLY, FLINK):
        program_jars(peer)
    assert built.modules == [*["bench-programs"] * 3, "bench-flink"]


class FakeBuild:
    """Stands in for Maven, and notes which modules were asked for."""

    def __init__(self) -> None:
        self.modules: list[str] = []

    def __call__(self, module: str) -> Path:
        self.modules.append(module)
        return Path("no/such/folder")


@pytest.mark.parametrize(
    ("given", "expected"),
    [("flink", {FLINK.name}), ("streams,flink", {STREAMS.name, FLINK.name}), ("", set())],
)
def test_only_peers_that_are_asked_for_take_part(
    monkeypatch: pytest.MonkeyPatch, given: str, expected: set[str]
) -> None:
    chosen: list[Settings] = []

    def measure(settings: Settings, *_: object) -> Result[Run]:
        chosen.append(settings)
        return report(*ROUNDS).result

    monkeypatch.setattr(peers, "missing", lambda: None)
    monkeypatch.setattr(throughput, "measure", measure)
    assert command("--peers", given) == 0
    assert {peer.name for peer in chosen[0].peers} == {*expected, EOSKAFKA.name}
    assert chosen[0].peers[-1] == EOSKAFKA


def test_a_processs_cpu_time_and_memory_are_measured_with_its_childrens() -> None:
    burn = "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass"
    script = f"import subprocess, sys\ninput()\nsubprocess.run([sys.executable, '-c', {burn!r}])"
    with subprocess.Popen([sys.executable, "-c", script + "\ninput()"], stdin=PIPE) as process:
        assert process.stdin is not None
        with measured(process.pid) as used:
            process.stdin.write(b"\n")
            process.stdin.flush()
            until_cpu_s(process.pid, 0.5)
        assert 0.45 <= used.cpu_s < 5
        assert used.peak_bytes > 5 << 20
        process.kill()


def until_cpu_s(pid: int, seconds: float) -> None:
    """Wait until the children of a process that have ended have used so much."""
    deadline = time.monotonic() + 30
    while sum(psutil.Process(pid).cpu_times()[2:4]) < seconds * 0.9:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def command(*arguments: str) -> int:
    try:
        return app.run(["bench", "throughput", *arguments])
    except SystemExit as ended:
        return int(ended.code or 0)


def test_the_result_goes_to_standard_output_and_to_the_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(throughput, "measure", lambda *_: report(*ROUNDS).result)
    file = tmp_path / "result.json"
    assert command("--format", "json", "--output", str(file)) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(file.read_text())
    assert printed["peers"]["built-in"]["eoskafka_over_it"]["median"] == 4.0


def test_a_wrong_run_ends_the_command_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = report(*ROUNDS[:-1], run(EOSKAFKA, 3, 1, LOSSY)).result
    monkeypatch.setattr(throughput, "measure", lambda *_: wrong)
    assert command() == 1
    assert "no time: round 3" in capsys.readouterr().out


def test_an_output_that_cannot_be_read_ends_the_command_with_3(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def undecided(*_: object) -> Result[Run]:
        raise UndecidedError("an open transaction hides records")

    monkeypatch.setattr(throughput, "measure", undecided)
    assert command() == 3
    assert "an open transaction" in capsys.readouterr().err


def test_a_peer_that_is_not_known_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("--peers", "samza") == 2
    assert "'samza' is not one of built-in, streams, flink, loop, limits" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--brokers", "2"), "must be 1 or 3"),
        (("--bootstrap-servers", "b:1", "--brokers", "3"), "cannot be combined with"),
        (("--bootstrap-servers", "b:1", "--round-trip-ms", "5"), "cannot be combined with"),
    ],
)
def test_brokers_that_cannot_be_had_are_a_usage_error(
    arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(*arguments) == 2
    assert says in capsys.readouterr().err


def test_a_report_says_which_brokers_it_is_of() -> None:
    near = report(*ROUNDS)
    far = Report(dataclasses.replace(near.result, brokers=Brokers(None, 3, 5.0)))
    assert far.heading() == f"{near.heading()}; 3 brokers, 5 ms away"
    assert far.as_json()["brokers"] == {"count": 3, "round_trip_ms": 5.0}


def test_a_plot_that_could_not_be_drawn_is_refused_before_anything_is_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(throughput, "measure", None)
    assert command("--plot", "result.doc") == 2
    assert command("--output", "no/such/folder/result.json") == 2
    assert "there is no folder no/such/folder" in capsys.readouterr().err


def test_every_partition_of_an_input_gets_records() -> None:
    few = Input("few", partitions=2_000, records=1_000_000, record_bytes=100)
    assert {n // few.run_records % few.partitions for n in range(few.records)} == {*range(2_000)}
    assert Input("one", partitions=1, records=10, record_bytes=100).run_records == 10


def test_the_picture_has_every_peer(tmp_path: Path) -> None:
    picture = tmp_path / "throughput.svg"
    draw(report(*ROUNDS).as_json(), picture)
    assert "built-in" in picture.read_text(encoding="utf-8")


def test_peers_that_an_installed_package_does_not_carry_are_named_and_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen: list[Settings] = []

    def measure(settings: Settings, *_: object) -> Result[Run]:
        chosen.append(settings)
        return report(*ROUNDS).result

    monkeypatch.setattr("eoskafka._jar.checkout", lambda: None)
    monkeypatch.setattr(throughput, "measure", measure)
    assert command() == 0
    assert chosen[0].peers == (EOSKAFKA,)
    assert not chosen[0].limits
    assert (
        "left out: built-in; built-in, eoskafka's settings; Kafka Streams;"
        in capsys.readouterr().err
    )
