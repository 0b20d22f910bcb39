"""Committing and choosing offsets of a group, with a coordinator that is not there."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext

import pytest
from eoskafka.errors import OffsetsError, UnreachableError
from eoskafka.groups import Connection
from eoskafka.offsets import commit
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
