"""`eoskafka txn abort` of a writer, with brokers of which one was deposed and still answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from eoskafka import transactions
from eoskafka.brokers.connection import Connection
from eoskafka.decisions import Decision
from eoskafka.errors import AuthorizationError, TransactionError, UnreachableError
from eoskafka.transactions import Kind, Transaction, decided, ending
from eoskafka.transactions.decided import takes_effect
from kafka import TopicPartition
from kafka.errors import (
    KafkaError,
    KafkaTimeoutError,
    OffsetOutOfRangeError,
    ProducerFencedError,
    TopicAuthorizationFailedError,
)

OWNER = "O" * 22
WRITER = f"eoskafka-{OWNER}-w5.0.0"
DECISION_ID = f"eoskafka-{OWNER}-decisions"
TOPIC = "decisions"
PARTITION = TopicPartition(TOPIC, 0)


def writer(producer_id: int = 7, epoch: int = 1) -> Transaction:
    return Transaction(
        WRITER, Kind.WRITER, OWNER, "Ongoing", producer_id, epoch, 60_000, 1, 1, (("out", 0),)
    )


def run() -> tuple[bytes, bytes]:
    value = {"version": 1, "run": 5, "decisionId": DECISION_ID}
    return f"run:{OWNER}".encode(), json.dumps(value).encode()


def decision(producer_id: int = 7, epoch: int = 1) -> tuple[bytes, bytes]:
    output = {
        "writer": 0,
        "rows": 1,
        "digest": 0,
        "id": WRITER,
        "producerId": producer_id,
        "producerEpoch": epoch,
        "version2": True,
        "markerPartition": 1,
        "markerOffset": 0,
    }
    value = {
        "version": 1,
        "part": 0,
        "parts": 1,
        "run": 5,
        "epoch": 1,
        "plan": {"before": "", "of": ""},
        "sources": {},
        "outputs": [output],
    }
    return f"decision:{OWNER}:0".encode(), json.dumps(value).encode()


class Brokers:
    """The leader of the decisions, one that was deposed and has only a part, and a coordinator.

    Attributes:
        log: what the leader has.
        former_end: where the log of the deposed one ends.
        described: the writer, as its coordinator describes it.
        initialised: the transactional ids, in this order.
        refusal: what a commit of the fence's record raises.
    """

    def __init__(self, *log: tuple[bytes, bytes | None]) -> None:
        self.log = [*log]
        self.former_end = len(log)
        self.described = writer()
        self.initialised: list[str] = []
        self.refusal: KafkaError | None = None

    def abort(self) -> None:
        transactions.abort("b:9092", WRITER, decision_topic=TOPIC, fence=True)


class Consumer:
    """It reads what the deposed broker has, which then says that its log ends there.

    Args:
        resets: whether it then passes over what the leader has, as Kafka's client does by default.
    """

    def __init__(self, brokers: Brokers, resets: bool) -> None:
        self._brokers = brokers
        self._resets = resets
        self._at = 0
        self._is_at_leader = False

    def partitions_for_topic(self, _: str) -> set[int]:
        return {0, 1}

    def assign(self, partitions: list[TopicPartition]) -> None:
        assert partitions == [PARTITION]

    def seek_to_beginning(self, *_: TopicPartition) -> None:
        self._at = 0

    def position(self, _: TopicPartition) -> int:
        return self._at

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Any]]:
        assert timeout_ms > 0
        log, begin = self._brokers.log, self._at
        if begin == self._brokers.former_end and not self._is_at_leader:
            self._is_at_leader = True
            if self._resets:
                self._at = len(log)
                return {}
            raise OffsetOutOfRangeError({PARTITION: begin})
        self._at = len(log) if self._is_at_leader else self._brokers.former_end
        records = [
            SimpleNamespace(offset=offset, key=log[offset][0], value=log[offset][1])
            for offset in range(begin, self._at)
        ]
        return {PARTITION: records}


class Producer:
    """It reaches the leader and the coordinator."""

    def __init__(self, brokers: Brokers, **settings: Any) -> None:
        self._brokers = brokers
        self._id: str = settings["transactional_id"]

    def init_transactions(self) -> None:
        self._brokers.initialised.append(self._id)

    def begin_transaction(self) -> None:
        pass

    def send(self, topic: str, *, key: bytes, partition: int) -> Any:
        assert (topic, partition) == PARTITION
        self._brokers.log.append((key, None))
        offset = len(self._brokers.log) - 1
        return SimpleNamespace(get=lambda: SimpleNamespace(offset=offset))

    def flush(self) -> None:
        if self._brokers.refusal:
            raise self._brokers.refusal

    def abort_transaction(self) -> None:
        raise KafkaTimeoutError

    def commit_transaction(self) -> None:
        pass

    def close(self, timeout: float | None = None) -> None:
        pass


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    found = Brokers(run())

    def consumer(_: Connection, **given: Any) -> Any:
        return nullcontext(Consumer(found, given.get("auto_offset_reset") != "none"))

    def ends(*_: object) -> Mapping[TopicPartition, int]:
        return {PARTITION: found.former_end}

    def producer(**settings: Any) -> Producer:
        return Producer(found, **settings)

    monkeypatch.setattr(Connection, "admin", lambda _: nullcontext(None))
    monkeypatch.setattr(Connection, "consumer", consumer)
    monkeypatch.setattr(decided, "log_offsets", ends)
    monkeypatch.setattr(decided, "KafkaProducer", producer)
    monkeypatch.setattr(ending, "KafkaProducer", producer)
    monkeypatch.setattr(ending, "described", lambda *_: found.described)
    return found


def test_a_writer_that_is_not_decided_is_aborted_after_its_query_was_fenced(
    brokers: Brokers,
) -> None:
    brokers.abort()
    assert brokers.initialised == [DECISION_ID, WRITER]
    assert brokers.log[1:] == [(f"fence:{OWNER}".encode(), None)]


def test_a_decision_that_a_deposed_leader_does_not_know_is_found(brokers: Brokers) -> None:
    brokers.log.append(decision())
    with pytest.raises(TransactionError, match=r"its epoch is decided.*query was fenced"):
        brokers.abort()
    assert brokers.initialised == [DECISION_ID]


def test_a_writer_is_not_aborted_while_the_own_record_cannot_be_read(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decided, "_READ_S", 0)
    brokers.log.append(decision())
    monkeypatch.setattr(Consumer, "poll", lambda *_, **__: {})
    monkeypatch.setattr(Consumer, "position", lambda *_: brokers.former_end)
    # The first check finds no decision; from then on the real one is asked.
    answers = iter([lambda *_: False])
    monkeypatch.setattr(
        ending, "is_decided", lambda *given: next(answers, decided.is_decided)(*given)
    )
    with pytest.raises(TransactionError, match="the broker that answers is cut off"):
        brokers.abort()
    assert brokers.initialised == [DECISION_ID]


@pytest.mark.parametrize(
    ("refusal", "error", "says"),
    [
        (ProducerFencedError(), TransactionError, "its query was started meanwhile"),
        (TopicAuthorizationFailedError(), AuthorizationError, f"Write on the topic {TOPIC}"),
        (KafkaTimeoutError(), UnreachableError, "got no clear answer"),
    ],
)
def test_a_writer_is_not_aborted_if_the_record_of_the_fence_is_not_committed(
    brokers: Brokers, refusal: KafkaError, error: type[Exception], says: str
) -> None:
    brokers.refusal = refusal
    with pytest.raises(error, match=says):
        brokers.abort()
    assert brokers.initialised == [DECISION_ID]


@pytest.mark.parametrize(
    ("decided_on", "described", "counts"),
    [
        ((7, 1), (7, 1), True),
        # A deposed coordinator describes the transaction of the epoch before.
        ((7, 3), (7, 1), True),
        # The decision is on an earlier transaction of the same producer.
        ((7, 1), (7, 3), False),
        # Which of the two producers is the later one is not known.
        ((8, 1), (7, 3), True),
        ((7, 3), (8, 1), True),
    ],
)
def test_a_decision_counts_unless_the_same_producer_has_a_later_epoch(
    brokers: Brokers, decided_on: tuple[int, int], described: tuple[int, int], counts: bool
) -> None:
    assert takes_effect(Decision(5, 1, frozenset({(WRITER, *decided_on)})), writer(*described)) is (
        counts
    )
    brokers.log.append(decision(*decided_on))
    brokers.former_end = len(brokers.log)
    brokers.described = writer(*described)
    if counts:
        with pytest.raises(TransactionError, match="its epoch is decided"):
            brokers.abort()
        assert brokers.initialised == []
    else:
        brokers.abort()
        assert brokers.initialised == [DECISION_ID, WRITER]


def test_a_decision_on_other_writers_does_not_count() -> None:
    others = frozenset({(f"eoskafka-{OWNER}-w5.0.1", 7, 1)})
    assert not takes_effect(Decision(5, 1, others), writer())
