"""What a replay of dead letters refuses before it writes; what needs a broker is elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from eoskafka import (
    ConfigurationError,
    DataLossError,
    FencedError,
    OffsetsError,
    RecordError,
)
from eoskafka.brokers.connection import Connection
from eoskafka.cli.dead_letters import _places
from eoskafka.dead_letters import PREFIX
from eoskafka.replay import progress, run, targets
from eoskafka.replay.records import TopicLog
from kafka import TopicPartition
from kafka.errors import InvalidProducerEpochError
from kafka.structs import OffsetAndMetadata

P, Q = TopicPartition("dead", 0), TopicPartition("dead", 1)
OURS = "eoskafka-replay:1:id"


def at(offset: int, metadata: str = OURS) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, metadata, -1)


def starts(
    committed: Mapping[TopicPartition, OffsetAndMetadata], **more: bool
) -> Mapping[TopicPartition, int]:
    """Of a topic whose partitions have the offsets 50 to 99, and none."""
    log = TopicLog({P: "id", Q: "id"}, starts={P: 50, Q: 7}, ends={P: 100, Q: 7})
    given = {"from_beginning": False, "accept_loss": False, **more}
    return progress.replay_starts("g", committed, log, **given)


def test_a_replay_begins_at_the_offsets_of_its_group() -> None:
    assert starts({P: at(60)}) == {P: 60, Q: 7}
    assert starts({P: at(100), Q: at(7)}) == {P: 100, Q: 7}
    assert starts({}, from_beginning=True) == {P: 50, Q: 7}


@pytest.mark.parametrize(
    ("committed", "error", "says"),
    [
        ({}, OffsetsError, "no offset of dead-0"),
        ({P: at(60, "")}, OffsetsError, "which no replay has committed"),
        ({P: at(60, "eoskafka:1:t:x")}, OffsetsError, "which no replay has committed"),
        ({P: at(60, "eoskafka-replay:1:other")}, OffsetsError, "deleted and created again"),
        ({P: at(101, "eoskafka-replay:1:other")}, OffsetsError, "deleted and created again"),
        ({P: at(101)}, OffsetsError, "may be behind. Nothing was replayed. Repeat the command"),
        ({P: at(49)}, DataLossError, "up to 1 dead letters were deleted"),
        ({P: at(10), Q: at(2)}, DataLossError, "up to 45 dead letters were deleted"),
    ],
)
def test_offsets_that_do_not_say_what_was_replayed_are_refused(
    committed: Any, error: type[Exception], says: str
) -> None:
    with pytest.raises(error) as caught:
        starts(committed)
    assert says in str(caught.value)


def test_a_loss_can_be_accepted() -> None:
    assert starts({P: at(10), Q: at(2)}, accept_loss=True) == {P: 50, Q: 7}


def letter(offset: int, *, source: int | None = None, **more: Any) -> Any:
    own = {} if source is None else {"topic": "in", "partition": 3, "offset": source}
    headers = [(PREFIX + name, str(value).encode()) for name, value in own.items()]
    given = {"key": b"k", "value": b"v", "headers": headers, **more}
    return SimpleNamespace(topic="dead", partition=0, offset=offset, **given)


class Topic:
    """Reads these records instead of a broker's."""

    def __init__(self, *records: Any, start: int = 0) -> None:
        self.records = records
        self.start = start

    def read(self, _: Any, starts: Any, ends: Any) -> Iterator[list[Any]]:
        yield [r for r in self.records if starts[P] <= r.offset < ends[P]]

    def require(self, monkeypatch: pytest.MonkeyPatch, *skip: int, to: str = "") -> None:
        monkeypatch.setattr(targets, "read", self.read)
        monkeypatch.setattr(targets.Targets, "_partition_count", lambda *_: 4)
        where = targets.Targets(Connection("", {}), "dead", to)
        places = {(0, offset) for offset in skip}
        log = TopicLog({P: "id"}, starts={P: 0}, ends={P: 9})
        targets.require_replayable(
            None, where, log, {P: self.start}, lambda r: (r.partition, r.offset) in places
        )


NULL = [(f"{PREFIX}topic", b"in"), ("trace", None)]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (letter(1), "has no headers of a dead letter"),
        (letter(1, headers=[(f"{PREFIX}topic", b"dead")]), "the topic of the dead letters itself"),
        (letter(1, headers=NULL), "its header 'trace' is null"),
        (letter(1, source=8, key=None, value=None), "neither a key nor a value"),
        (letter(1, source=5), "another dead letter was made from the same record, in-3, offset 5"),
    ],
)
def test_a_record_that_cannot_be_replayed_can_be_left_out(
    monkeypatch: pytest.MonkeyPatch, wrong: Any, says: str
) -> None:
    topic = Topic(letter(0, source=5), wrong, letter(2, source=6))
    with pytest.raises(RecordError) as caught:
        topic.require(monkeypatch)
    assert says in str(caught.value)
    assert str(caught.value).endswith("add --skip 0:1")
    topic.require(monkeypatch, 1)


def test_a_record_that_was_replayed_before_is_not_replayed_by_another_letter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = Topic(letter(0, source=5), letter(1, source=5), letter(2, source=6), start=1)
    with pytest.raises(RecordError, match=r"--skip 0:1$"):
        topic.require(monkeypatch)
    topic.require(monkeypatch, 1)


def test_letters_without_a_source_are_replayed_to_a_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    Topic(letter(0), letter(1), letter(2, key=None)).require(monkeypatch, to="out")


def test_a_target_that_is_missing_is_noticed_before_anything_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster: Any = Cluster()
    monkeypatch.setattr(targets, "topic_ids", lambda *_: {})
    for found, to in ((letter(0, source=5), ""), (letter(0), "out")):
        with pytest.raises(ConfigurationError, match="there is no topic"):
            targets.Targets(cluster, "dead", to).send_arguments(found)


class Producer:
    """Says what was called."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self._transaction_manager = SimpleNamespace(coordinator=lambda _: "coordinator-7")

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *_: self.calls.append(name)


class Cluster:
    @contextmanager
    def admin(self) -> Iterator[None]:
        yield None


def commit(
    monkeypatch: pytest.MonkeyPatch,
    producer: Any,
    had: dict[TopicPartition, OffsetAndMetadata],
    times: int = 1,
) -> list[int]:
    """Begin at offset 60 while the coordinator has these offsets; which brokers were asked."""
    asked = []

    def offsets_at(_: None, broker: int, *__: Any) -> Any:
        asked.append(broker)
        return had

    monkeypatch.setattr(progress, "offsets_at", offsets_at)
    cluster: Any = Cluster()
    confirmation = progress.Confirmation(cluster, "g", {P: at(60)}, [P, Q])
    for _ in range(times):
        run._commit(producer, {}, {P: at(61)}, "g", confirmation)
    return asked


@pytest.mark.parametrize(
    "had",
    [
        {P: at(80)},
        {},
        {P: at(60, "eoskafka-replay:1:other")},
        {P: at(60), Q: at(7)},
    ],
)
def test_a_replay_that_a_former_coordinator_answered_commits_nothing(
    monkeypatch: pytest.MonkeyPatch, had: Any
) -> None:
    producer = Producer()
    with pytest.raises(OffsetsError, match="former coordinator"):
        commit(monkeypatch, producer, had)
    assert producer.calls[-1] == "abort_transaction"
    assert "commit_transaction" not in producer.calls


def test_the_coordinator_that_accepted_the_offsets_is_asked_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    producer = Producer()
    assert commit(monkeypatch, producer, {P: at(60)}, times=2) == [7]
    assert producer.calls.count("commit_transaction") == 2


def test_a_fenced_replay_does_not_know_whether_another_one_runs() -> None:
    cluster = Connection("", {"request_timeout_ms": 40_000})
    with pytest.raises(FencedError) as caught, run._fenced(cluster, "g"):
        raise InvalidProducerEpochError
    assert "another replay has begun with group g, or a transaction took longer than 70 s" in str(
        caught.value
    )


def test_places_to_skip() -> None:
    assert _places(["0:5", "12:345"]) == {(0, 5), (12, 345)}
    assert _places(None) == set()
    for wrong in ("5", "0:-1", "a:1", "0:1:2", ""):
        with pytest.raises(typer.BadParameter):
            _places([wrong])
