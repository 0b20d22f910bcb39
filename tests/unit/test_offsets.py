"""Moving and adopting offsets, without a broker: what is refused, and what is counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from eoskafka import offsets
from eoskafka.checkpoints import Identity
from eoskafka.errors import OffsetsError, UnreachableError
from eoskafka.groups import Connection
from eoskafka.offsets import Standing, commit, move
from eoskafka.offsets.standing import Snapshot, _position
from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError, NoError, TopicAuthorizationFailedError
from kafka.structs import OffsetAndMetadata

CLUSTER = Connection("b:9092", {})
MAY, MAY_NOT = TopicPartition("a", 0), TopicPartition("b", 0)
Offsets = Mapping[TopicPartition, OffsetAndMetadata]


def at(offset: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, "", -1)


class Coordinator:
    """Refuses offsets of one topic, as of a user who lacks Read on it."""

    def __init__(self, offsets: Offsets) -> None:
        self.offsets = dict(offsets)
        self.changes = 0
        self.is_silent = False

    def alter_group_offsets(
        self, _: str, offsets: Offsets
    ) -> dict[TopicPartition, type[Exception]]:
        taken = {p: each for p, each in offsets.items() if p.topic != MAY_NOT.topic}
        self.offsets |= taken
        self.changes += len(taken)
        return {p: NoError if p in taken else TopicAuthorizationFailedError for p in offsets}

    def stable(self, *_: object) -> tuple[Offsets, set[TopicPartition]]:
        if self.is_silent and self.changes:
            raise KafkaTimeoutError
        return self.offsets, set()


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch) -> Coordinator:
    found = Coordinator({MAY: at(5), MAY_NOT: at(5)})
    monkeypatch.setattr(Connection, "admin", lambda _: nullcontext(found))
    monkeypatch.setattr(commit, "stable", found.stable)
    return found


def test_offsets_that_are_committed_in_part_are_counted(coordinator: Coordinator) -> None:
    before = dict(coordinator.offsets)
    with pytest.raises(OffsetsError) as refused:
        commit.commit_offsets(CLUSTER, "g", before, {MAY: at(0), MAY_NOT: at(0)})
    assert coordinator.changes == 1
    said = str(refused.value)
    assert "refused 1 of 2 offsets" in said
    assert "b-0: TopicAuthorizationFailedError. Of the 2 offsets, 1 were changed" in said
    assert "Do not start the query" in said


def test_and_so_are_those_of_earlier_requests(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "_OFFSETS_PER_REQUEST", 2)
    more = {TopicPartition("a", n): at(5) for n in range(4)}
    coordinator.offsets |= more
    before = dict(coordinator.offsets)
    moved = dict.fromkeys([*more, MAY_NOT], at(0))
    with pytest.raises(OffsetsError, match="Of the 5 offsets, 4 were changed"):
        commit.commit_offsets(CLUSTER, "g", before, moved)
    assert coordinator.changes == 4


def test_a_change_that_cannot_be_read_back_counts_as_unclear(coordinator: Coordinator) -> None:
    before = dict(coordinator.offsets)
    coordinator.is_silent = True
    with pytest.raises(UnreachableError, match="It was made, in part or not at all"):
        commit.commit_offsets(CLUSTER, "g", before, {MAY: at(0)})
    assert coordinator.changes == 1


@pytest.mark.parametrize("before", [{MAY: at(4)}, {}, {MAY: OffsetAndMetadata(5, "other", -1)}])
def test_nothing_is_committed_if_the_group_has_other_offsets_than_were_looked_at(
    before: Offsets, coordinator: Coordinator
) -> None:
    with pytest.raises(OffsetsError, match="of a-0 in group 'g' have changed while"):
        commit.commit_offsets(CLUSTER, "g", before, {MAY: at(0)})
    assert coordinator.changes == 0


def test_nor_if_a_transaction_holds_a_later_one(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = dict(coordinator.offsets)
    monkeypatch.setattr(commit, "stable", lambda *_: ({}, {MAY}))
    with pytest.raises(OffsetsError, match="of a-0 in group 'g' have changed while"):
        commit.commit_offsets(CLUSTER, "g", before, {MAY: at(0)})
    assert coordinator.changes == 0


# ---- what is refused


TOPIC_ID, OWN = "T" * 22, Identity("g", "instance", "checkpoint", shared=False)
PARTITIONS = [TopicPartition("t", 0), TopicPartition("t", 1)]


def stamp(scope: str = "t", epoch: int = 0, identity: str = OWN.id, sink: str = "-") -> str:
    return f"eoskafka:1:{scope}:{identity}:{TOPIC_ID}:{sink}:{epoch}"


def group(*offsets: tuple[int, str], end: int = 100, topic: str = "t") -> Snapshot:
    """A group with these offsets and stamps, and partitions that have records up to an end."""
    partitions = [TopicPartition(topic, p.partition) for p in PARTITIONS]
    committed = {
        p: OffsetAndMetadata(offset, metadata, -1)
        for p, (offset, metadata) in zip(partitions, offsets, strict=False)
    }
    log: Any = SimpleNamespace(
        start=dict.fromkeys(partitions, 0), stable=dict.fromkeys(partitions, end), end={}
    )
    positions = [_position(p, committed.get(p), False, TOPIC_ID, log) for p in partitions]
    standing = Standing("g", "exclusive", (), (), tuple(positions))
    return Snapshot(standing, committed, dict.fromkeys(partitions, TOPIC_ID))


@pytest.fixture
def reset(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Mapping[TopicPartition, int]]:
    """Move one topic of a group that has others, too; what is committed."""

    def run(found: Snapshot, others: Snapshot, to: str) -> Mapping[TopicPartition, int]:
        moved: dict[TopicPartition, int] = {}
        monkeypatch.setattr(Connection, "admin", lambda _: nullcontext(None))
        monkeypatch.setattr(move, "snapshot", lambda *_: found)
        monkeypatch.setattr(move, "committed", lambda *_: {**others.offsets, **found.offsets})

        def commit_offsets(*given: Any) -> None:
            moved.update({p: each.offset for p, each in given[3].items()})

        monkeypatch.setattr(move, "commit_offsets", commit_offsets)
        offsets.reset("b:9092", "g", to, topics=["t"])
        return moved

    return run


def test_a_topic_is_not_moved_while_the_query_has_an_epoch_of_another_one(
    reset: Callable[..., Mapping[TopicPartition, int]],
) -> None:
    chosen = group((5, stamp()), (5, stamp()))
    own_epoch = group((5, stamp("e")), topic="other")
    with pytest.raises(OffsetsError, match="committed the offset of other-0 in group 'g' in epoch"):
        reset(chosen, own_epoch, "earliest")
    anothers = group((5, stamp("e", identity="O" * 22)), topic="other")
    assert reset(chosen, anothers, "earliest") == dict.fromkeys(PARTITIONS, 0)


def test_latest_does_not_move_a_query_back(
    reset: Callable[..., Mapping[TopicPartition, int]],
) -> None:
    none = group(topic="other")
    # As a former leader says.
    shorter = group((5, stamp()), (5, stamp()), end=4)
    with pytest.raises(OffsetsError, match="at offset 5 of t-0, and the broker says that its log"):
        reset(shorter, none, "latest")
    former = stamp().replace(TOPIC_ID, "F" * 22)
    of_former_topic = group((5, former), (5, former), end=4)
    assert reset(of_former_topic, none, "latest") == dict.fromkeys(PARTITIONS, 4)
    assert reset(group((5, stamp()), end=7), none, "latest") == {PARTITIONS[0]: 7}
