"""The parts of `eoskafka demo --compare` that need neither a broker nor Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from eoskafka.audit import Fault, Finding, Record, Report
from eoskafka.audit.compare import FAULTS
from eoskafka.bench.errors import BenchError
from eoskafka.bench.peers import BUILT_IN, EOSKAFKA
from eoskafka.cli import app, demo
from eoskafka.demo import Outcome, Settings, State, signs
from eoskafka.demo.killer import Kill
from eoskafka.demo.picture import draw
from eoskafka.demo.signs import OpenTransactions, Unfinished, WrittenRecords
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient

VICTIMS = ("executor", "driver", "executor", "executor", "driver", "executor")
PARTITIONS = [TopicPartition("output", 0), TopicPartition("output", 1)]


class Brokers:
    """What the signs ask of brokers: the ends of partitions, and open transactions by start."""

    def __init__(self) -> None:
        self.ends = dict.fromkeys(PARTITIONS, 0)
        self.open: dict[str, int] = {}
        self.batches = 0

    def list_partition_offsets(
        self, of: Iterable[TopicPartition], isolation_level: str
    ) -> dict[TopicPartition, Any]:
        # What a killed task has written is in the log, whoever reads it.
        assert isolation_level == "read_uncommitted"
        return {partition: SimpleNamespace(offset=self.ends[partition]) for partition in of}

    def list_transactions(self, state_filters: list[str]) -> dict[int, list[Any]]:
        assert state_filters == ["Ongoing"]
        return {1: [SimpleNamespace(transactional_id=name) for name in self.open]}

    def describe_transactions(self, ids: list[str]) -> dict[str, Any]:
        return {
            name: SimpleNamespace(
                state="Ongoing",
                producer_id=1,
                producer_epoch=0,
                transaction_start_time_ms=self.open[name],
            )
            for name in ids
        }

    def progress(self) -> Any:
        """Of the job, not of a broker."""
        return SimpleNamespace(batches=self.batches)

    def write(self, records: int) -> None:
        self.ends[PARTITIONS[records % 2]] += records


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    monkeypatch.setattr(signs, "_SETTLE_S", 0.0)
    return Brokers()


def written_records(brokers: Brokers) -> WrittenRecords:
    return WrittenRecords(cast(KafkaAdminClient, brokers), cast(Any, brokers), PARTITIONS)


def open_transactions(brokers: Brokers) -> OpenTransactions:
    return OpenTransactions(cast(KafkaAdminClient, brokers))


def test_records_of_an_unfinished_batch_are_a_sign(brokers: Brokers) -> None:
    sign = written_records(brokers)
    assert not sign.is_there()
    brokers.write(3)
    brokers.write(4)
    assert sign.is_there()
    assert sign.settled() == Unfinished(records=7)
    assert str(sign.settled()) == "7 record(s) of the unfinished batch in the output"


def test_records_of_finished_batches_are_no_sign(brokers: Brokers) -> None:
    sign = written_records(brokers)
    brokers.write(10)
    brokers.batches = 1
    assert not sign.is_there()
    brokers.write(2)
    assert sign.is_there()
    brokers.batches = 2  # while the processes are being stopped
    assert not sign.settled()


def test_a_transaction_that_an_earlier_kill_has_left_is_no_sign(brokers: Brokers) -> None:
    sign = open_transactions(brokers)
    brokers.open = {"eoskafka-a": 100, "eoskafka-b": 100, "another-application": 1}
    assert sign.settled() == Unfinished(("eoskafka-a", "eoskafka-b"))
    assert sign.is_there()  # nobody was killed
    sign.killed()
    assert not sign.is_there()
    brokers.open["eoskafka-b"] = 200
    assert sign.settled() == Unfinished(("eoskafka-b",))


def test_a_transaction_that_ends_while_its_process_is_being_stopped_is_no_sign(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign = open_transactions(brokers)
    brokers.open = {"eoskafka-a": 100}
    monkeypatch.setattr("time.sleep", lambda _: brokers.open.clear())
    assert not sign.settled()


def test_each_executor_must_hold_a_transaction_if_one_of_them_is_to_be_killed() -> None:
    two = Unfinished(("a", "b"))
    assert [two.may_be_of_each(executors) for executors in (1, 2, 3)] == [False, True, False]
    assert Unfinished(records=1).may_be_of_each(2)


def outcome(connector: str, duplicates: int, lost: int = 0) -> Outcome:
    found = {**dict.fromkeys(FAULTS, 0), Fault.DUPLICATED: duplicates, Fault.LOST: lost}
    finding = Finding(Fault.DUPLICATED, Record(0, 1, b"k", b"v"), "came out before")
    outputs = 20_000 + duplicates - lost
    ours = connector == EOSKAFKA.name
    left = Unfinished(("eoskafka-x",)) if ours else Unfinished(records=9)
    kills = tuple(Kill(victim, (1,), 3, left) for victim in VICTIMS)
    history = [
        State(2.0 * n, 3_000 * n, 3_000 * n + n * duplicates // 6, n * duplicates // 6, n)
        for n in range(7)
    ]
    last = State(14.0, 20_000, outputs, duplicates, 6, lost)
    return Outcome(
        Report(20_000, outputs, found, (finding,) if duplicates else ()),
        *(kills, 26, 50.0, 7, connector, (*history, last)),
    )


def run(*arguments: str) -> int:
    """The exit code of `eoskafka demo --compare ...`."""
    try:
        return app.run(["demo", "--compare", "--seed", "7", *arguments])
    except SystemExit as ended:
        return int(ended.code or 0)


Compared = Callable[[int, int], list[Settings]]


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Compared:
    """Lets the command find so many duplicates of each connector; what it was asked to run."""

    def prepare(of_built_in: int, of_ours: int) -> list[Settings]:
        asked: list[Settings] = []

        def demonstrate(settings: Settings, watcher: demo._Display) -> list[Outcome]:
            asked.append(settings)
            found = [outcome(BUILT_IN.name, of_built_in), outcome(EOSKAFKA.name, of_ours)]
            for each in found:
                for state in each.history:
                    watcher.progress(each.connector, state, 20_000)
            return found

        monkeypatch.setattr(demo, "run", demonstrate)
        return asked

    monkeypatch.setattr(demo, "missing", lambda: None)
    monkeypatch.setattr(demo, "peer_jars", list)
    monkeypatch.chdir(tmp_path)
    return prepare


def test_both_connectors_are_shown_and_drawn(
    compared: Compared, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asked = compared(1_234, 0)
    assert run() == 0
    assert asked[0].connectors == (BUILT_IN, EOSKAFKA)
    assert asked[0].count == 60_000
    printed = capsys.readouterr()
    assert "built-in: NOT exactly once: 20000 in, 21234 out, 0 lost, 1234 duplicated" in printed.out
    assert "eoskafka: exactly once: 20000 in, 20000 out, 0 lost, 0 duplicated" in printed.out
    rows = [[cell.strip() for cell in line.split("│")] for line in printed.out.splitlines()]
    assert ["", "built-in", "20,000", "21,234", "1,234", "0", "6", ""] in rows
    assert ["", "eoskafka", "20,000", "20,000", "0", "0", "6", ""] in rows
    assert (tmp_path / "demo-compare.png").stat().st_size > 0
    assert "the picture is in demo-compare.png" in printed.err


def test_a_built_in_connector_that_was_lucky_is_shown_as_it_was(
    compared: Compared, capsys: pytest.CaptureFixture[str]
) -> None:
    compared(0, 0)
    assert run() == 0
    printed = capsys.readouterr().out
    assert "built-in: exactly once: 20000 in, 20000 out" in printed
    assert "built-in: it had no duplicate in this run. Nothing in it prevents them" in printed


def test_the_exit_code_is_of_eoskafka_alone(compared: Compared) -> None:
    compared(0, 1)
    assert run() == 1


def test_the_json_has_both_connectors_with_their_history(
    compared: Compared, capsys: pytest.CaptureFixture[str]
) -> None:
    compared(60, 0)
    assert run("--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["exactly_once"]
    of = found["connectors"]
    assert (of["built-in"]["duplicated"], of["eoskafka"]["duplicated"]) == (60, 0)
    assert of["built-in"]["kills"][0]["records_written"] == 9
    assert of["eoskafka"]["kills"][0]["open_transactions"] == ["eoskafka-x"]
    assert of["built-in"]["history"][-1] == {
        "seconds": 14.0,
        "inputs": 20_000,
        "outputs": 20_060,
        "duplicates": 60,
        "kills": 6,
        "lost": 0,
    }


def test_the_picture_names_both_connectors_and_their_duplicates(tmp_path: Path) -> None:
    picture = tmp_path / "picture.svg"
    draw(demo._both_as_json([outcome("built-in", 1_234), outcome("eoskafka", 0)]), picture)
    drawn = picture.read_text(encoding="utf-8")
    for text in ("1,234 duplicates, 0 lost", "0 duplicates, 0 lost", "driver killed", "seed 7"):
        assert text in drawn


def test_what_is_not_known_before_the_end_is_a_hyphen() -> None:
    running = State(1.0, 1_000, 1_500, 20, 1)
    assert demo.cells(running) == ("1,000", "1,500", "20", "-", "1")


def no_jars() -> list[Path]:
    raise BenchError("Maven could not build the peers")


@pytest.mark.parametrize(
    ("place", "replaced", "says"),
    [
        ("eoskafka._jar.checkout", lambda: None, "in a clone of the repository"),
        ("shutil.which", lambda _: None, "on a machine that has Maven"),
        ("eoskafka.cli.demo.peer_jars", no_jars, "Maven could not build the peers"),
        ("eoskafka.cli.demo.find_spec", lambda _: None, "pip install 'eoskafka[bench]'"),
    ],
)
def test_a_comparison_that_cannot_be_made_ends_with_2_before_anything_is_started(
    place: str,
    replaced: Callable[..., object],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(demo, "run", None)
    if place != "eoskafka.cli.demo.peer_jars":
        monkeypatch.setattr(demo, "peer_jars", list)
    monkeypatch.setattr(place, replaced)
    assert run() == 2
    assert says in " ".join(capsys.readouterr().err.split())


def test_a_picture_that_could_not_be_drawn_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "run", None)
    assert run("--plot", "picture.doc") == 2
    assert run("--plot", "no/such/folder/picture.png") == 2
    assert "there is no folder no/such/folder" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        app.run(["demo", "--plot", "picture.png"])
    assert ended.value.code == 2
