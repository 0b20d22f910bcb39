"""Moving and adopting offsets, without a broker: what is refused, and what is counted."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from eoskafka import offsets
from eoskafka.brokers.connection import Connection
from eoskafka.checkpoints import Checkpoint, Identity
from eoskafka.errors import (
    AuthorizationError,
    CheckpointError,
    ConfigurationError,
    OffsetsError,
    UnreachableError,
)
from eoskafka.offsets import Adoption, Situation, Standing, adoption, commit, move, standing
from eoskafka.offsets.standing import Snapshot, _position, require_agreed_ids
from kafka import TopicPartition
from kafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    KafkaError,
    KafkaTimeoutError,
    NoError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)
from kafka.structs import OffsetAndMetadata

CLUSTER = Connection("b:9092", {})
MAY, MAY_NOT = TopicPartition("a", 0), TopicPartition("b", 0)
Offsets = Mapping[TopicPartition, OffsetAndMetadata]


def at(offset: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, "", -1)


@pytest.mark.parametrize(
    "location",
    [
        "s3://AKIA:geheim@bucket/checkpoint",
        "s3a://AKIA:geheim@bucket/checkpoint?region=x",
        "abfss://c@a.dfs.core.windows.net/checkpoint?sig=geheim",
        "s3://bucket/checkpoint?secret_key=geheim",
    ],
)
def test_an_address_with_a_secret_is_refused_and_not_shown(location: str) -> None:
    with pytest.raises(ConfigurationError, match="Give the credentials in the env") as refused:
        Checkpoint(location)
    assert "geheim" not in str(refused.value)


def test_starts_that_sparks_log_does_not_have_yet_are_told(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    assert checkpoint.restarts(3) == {}
    folder = tmp_path / "sources" / "0"
    folder.mkdir(parents=True)
    first, second, third = (TopicPartition("t", p) for p in range(3))
    kept = {"0": {"id": "x", "offset": 0, "batch": 2}, "1": {"id": "x", "offset": 5, "batch": 3}}
    (folder / "eoskafka-restarted.json").write_text(json.dumps({"t": kept}))
    assert checkpoint.restarts(2) == {first: ("x", 0, 2), second: ("x", 5, 3)}
    assert checkpoint.restarts(3) == {second: ("x", 5, 3)}
    cut = {"2": {"id": "x", "offset": 7, "batch": 4}}
    (folder / "eoskafka-cut.json").write_text(json.dumps({"t": cut}))
    assert checkpoint.restarts(3) == {second: ("x", 5, 3)}
    assert checkpoint.restarts(4) == {third: ("x", 7, 4)}
    (folder / "eoskafka-cut.json").write_text(json.dumps({"t": {"2": {"batch": 4}}}))
    with pytest.raises(CheckpointError, match=r"eoskafka-cut\.json cannot be read"):
        checkpoint.restarts(4)


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
    with pytest.raises(AuthorizationError) as refused:
        commit.commit_offsets(CLUSTER, "g", before, {MAY: at(0), MAY_NOT: at(0)})
    assert coordinator.changes == 1
    said = str(refused.value)
    assert "lacks Read on the topic b, and the broker refused 1 of 2 offsets" in said
    assert "Of the 2 offsets, 1 were changed" in said
    assert "Do not start the query" in said


def test_and_so_are_those_of_earlier_requests(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "_OFFSETS_PER_REQUEST", 2)
    more = {TopicPartition("a", n): at(5) for n in range(4)}
    coordinator.offsets |= more
    before = dict(coordinator.offsets)
    moved = dict.fromkeys([*more, MAY_NOT], at(0))
    with pytest.raises(AuthorizationError, match="Of the 5 offsets, 4 were changed"):
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
ANEW = "the first offset whose output is missing"


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


@dataclass
class Query:
    """A checkpoint whose last batch ends at 5, and what is committed for it."""

    place: Path
    patch: pytest.MonkeyPatch
    committed: list[Mapping[TopicPartition, OffsetAndMetadata]] = field(default_factory=list)

    def has_run(self, *, is_done: bool = True, has_epochs: bool = False, mark: str = " ") -> None:
        for name, start, end in (("sources/0/0", 0, ""), ("offsets/0", 5, mark)):
            file = self.place / name
            file.parent.mkdir(parents=True)
            offsets = json.dumps({"t": {"0": start, "1": start}})
            lines = ["v1", "{}", offsets] if name == "offsets/0" else ["v1", offsets]
            file.write_text("\n".join(lines) + end)
        if is_done:
            (self.place / "commits").mkdir()
            (self.place / "commits" / "0").write_text("v1\n{}")
        if has_epochs:
            (self.place / "eoskafka-sink.json").write_text("{}")
        Checkpoint(str(self.place)).write_identity(OWN)

    def adopt(self, found: Snapshot, **how: Any) -> Adoption:
        self.patch.setattr(adoption, "snapshot", lambda *_: found)
        self.patch.setattr(
            adoption, "commit_offsets", lambda *given: self.committed.append(given[3])
        )
        return offsets.adopt("b:9092", str(self.place), **how)

    def refused(self, found: Snapshot, **how: Any) -> str:
        with pytest.raises(OffsetsError) as error:
            self.adopt(found, **how)
        assert self.committed == []
        return str(error.value)


@pytest.fixture
def query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Query:
    monkeypatch.setattr(Connection, "admin", lambda _: nullcontext(None))
    monkeypatch.setattr(adoption, "require_agreed_ids", lambda *_: None)
    return Query(tmp_path, monkeypatch)


def test_an_undecided_batch_is_not_said_to_begin_where_output_is_missing(query: Query) -> None:
    query.has_run(is_done=False, has_epochs=True)
    said = query.refused(group((5, stamp())))
    assert ANEW in said
    assert "startingOffsets={" not in said
    assert "some of its tasks may have committed" in said


def test_a_group_that_the_log_can_do_without_may_be_deleted(query: Query) -> None:
    query.has_run(has_epochs=True)
    said = query.refused(group((5, stamp("e")), (3, "")))
    assert "If the checkpoint is the one" in said
    assert "kafka-consumer-groups.sh --delete" in said


@pytest.mark.parametrize(
    ("is_done", "own", "foreign"),
    [
        # It began a batch that may have taken effect.
        (False, (5, stamp("e")), (3, "")),
        # A task of a later batch has committed.
        (True, (5, stamp("t", 1)), (3, "")),
        # The checkpoint is an older copy.
        (True, (5, stamp("e")), (7, "")),
    ],
)
def test_a_group_that_says_more_than_the_log_is_not_to_be_deleted(
    query: Query, is_done: bool, own: tuple[int, str], foreign: tuple[int, str]
) -> None:
    query.has_run(is_done=is_done, has_epochs=True)
    said = query.refused(group(own, foreign))
    assert "Do not delete the group" in said
    assert ANEW in said
    assert "--delete" not in said


def test_an_older_copy_without_our_sink_is_not_given_offsets(query: Query) -> None:
    query.has_run(mark="")
    older = group((9, stamp("s", 1)), (9, stamp("s", 1)))
    said = query.refused(older)
    assert "at offset 5 of t-0, but group 'g' is at 9" in said
    assert "--at" not in said
    assert ANEW in said
    said = query.refused(older, at=json.dumps({"t": {"0": 9, "1": 9}}))
    assert "Do not delete the group" in said
    # A task's offset can be said to be right.
    assert "--at" in query.refused(group((9, stamp()), (9, stamp())))


def test_a_checkpoint_that_has_a_group_is_not_told_to_take_another_one(query: Query) -> None:
    query.has_run(mark="")
    said = query.refused(group((5, stamp("s")), (5, "")))
    assert "has offsets of others" in said
    assert ANEW in said
    assert "Give the query another kafka.group.id" not in said


def test_an_older_copy_that_lacks_a_decided_epoch_is_not_ready(query: Query) -> None:
    query.has_run(has_epochs=True)
    assert query.adopt(group((5, stamp("e")), (5, stamp("e")))).situation is Situation.READY
    said = query.refused(group((9, stamp("e", 1)), (5, stamp("e"))))
    assert "batch 1 has committed the offset of t-0 in epoch scope" in said
    assert "has batch 0 as its last one: the checkpoint is an older copy" in said


def test_starts_of_a_query_whose_sink_is_elsewhere_are_not_taken_over(query: Query) -> None:
    other = "O" * 22
    how = {"group": "g", "take_over": True}
    there = stamp("t", -1, other, "c" * 32)
    said = query.refused(group((0, there), (0, there)), **how)
    assert "whose sink is on another cluster" in said
    assert ANEW in said
    here = stamp("t", -1, other)
    assert query.adopt(group((0, here), (0, here)), **how).situation is Situation.ADOPTED
    (given,) = query.committed
    assert {each.offset for each in given.values()} == {0}


def test_a_query_that_has_run_meanwhile_is_given_nothing(query: Query) -> None:
    query.has_run(is_done=False)

    def then_it_is_done(*_: object) -> Snapshot:
        (query.place / "commits").mkdir()
        (query.place / "commits" / "0").write_text("v1\n{}")
        return group((5, ""), (5, ""))

    query.patch.setattr(adoption, "snapshot", then_it_is_done)
    query.patch.setattr(adoption, "commit_offsets", lambda *given: query.committed.append(given[3]))
    with pytest.raises(OffsetsError, match="has run while the command looked"):
        offsets.adopt("b:9092", str(query.place), at=json.dumps({"t": {"0": 5, "1": 5}}))
    assert query.committed == []


@pytest.fixture
def reset(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Mapping[TopicPartition, int]]:
    """Move one topic of a group that has others, too; what is committed."""

    def run(
        found: Snapshot, others: Snapshot, to: str, agree: Any = lambda *_: None
    ) -> Mapping[TopicPartition, int]:
        moved: dict[TopicPartition, int] = {}
        monkeypatch.setattr(Connection, "admin", lambda _: nullcontext(None))
        monkeypatch.setattr(move, "require_agreed_ids", agree)
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


def test_a_query_whose_sink_is_elsewhere_is_not_moved(
    reset: Callable[..., Mapping[TopicPartition, int]],
) -> None:
    # Its first epoch may be decided on that cluster, which the group does not know.
    start = stamp("t", -1, sink="c" * 22)
    of_sink = "a query whose sink is on another cluster"
    with pytest.raises(OffsetsError, match=rf"offset of t-1 in group 'g' is that of {of_sink}"):
        reset(group((5, stamp("t", -1)), (5, start)), group(topic="other"), "earliest")
    with pytest.raises(OffsetsError, match=rf"offset of other-0 in group 'g' is that of {of_sink}"):
        reset(group((5, stamp())), group((5, start), topic="other"), "earliest")
    anothers = group((5, stamp("t", -1, "O" * 22, "c" * 22)), topic="other")
    assert reset(group((5, stamp())), anothers, "earliest") == {PARTITIONS[0]: 0}


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


# ---- brokers that name different ids of a topic


def test_neither_reset_nor_adopt_goes_on_with_ids_that_are_not_believed(
    query: Query,
    reset: Callable[..., Mapping[TopicPartition, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[object, ...]] = []

    def disagreement(*arguments: object) -> str:
        asked.append(arguments)
        return "broker 2 names another one"

    monkeypatch.setattr(standing, "disagreement_on_ids", disagreement)
    query.patch.setattr(adoption, "require_agreed_ids", require_agreed_ids)
    found = group((5, stamp()))
    assert "it is not known which ids the topics" in query.refused(found, group="g")
    with pytest.raises(
        OffsetsError, match=r"of group 'g' have: broker 2 names another one\. With a wrong"
    ):
        reset(found, group(topic="other"), "earliest", agree=require_agreed_ids)
    assert [(ids, topics) for _, ids, topics in asked] == [(found.topic_ids, {"t"})] * 2


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        (TopicAuthorizationFailedError("a"), "lacks Read on the topic a"),
        (GroupAuthorizationFailedError(), "lacks Describe on the group"),
        (
            GroupAuthorizationFailedError("FindCoordinatorResponse error for GROUP/g:1: "),
            "lacks Describe on the group g:1",
        ),
        (
            TransactionalIdAuthorizationFailedError("Not found: TRANSACTION/x-0: "),
            "lacks Write on the transactional id x-0",
        ),
        (ClusterAuthorizationFailedError("It was refused."), "lacks Describe on the cluster"),
    ],
)
def test_a_refusal_names_the_right_that_is_missing(refusal: KafkaError, said: str) -> None:
    with (
        pytest.raises(AuthorizationError) as error,
        CLUSTER.looking_at("group 'g'", topics="Read", ids="Write"),
    ):
        raise refusal
    assert f"{said}, so group 'g' could not be looked at" in str(error.value)
    assert "has changed nothing" in str(error.value)


def test_a_refused_change_names_the_right_that_is_missing() -> None:
    with (
        pytest.raises(AuthorizationError) as error,
        CLUSTER.changing("'x'", "look at it", "Write", "x"),
    ):
        raise TransactionalIdAuthorizationFailedError
    assert "lacks Write on the transactional id x, and the change of 'x' was" in str(error.value)
