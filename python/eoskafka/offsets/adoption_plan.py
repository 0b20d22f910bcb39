"""Where a query continues that gets the offsets of its group, and which offsets it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafka import TopicPartition

from eoskafka.brokers.topics import names_of, offset_json
from eoskafka.checkpoints import Batch
from eoskafka.errors import OffsetsError
from eoskafka.offsets.adoption_by_log import (
    refuse_beyond_log,
    refuse_former_topics,
    refuse_restarts,
)
from eoskafka.offsets.candidate import BEGIN_ANEW, Candidate
from eoskafka.offsets.model import Position
from eoskafka.offsets.standing import Snapshot


@dataclass(frozen=True)
class Plan:
    """What a query is to be given.

    Attributes:
        start: where each partition continues.
        foreign: positions of the group that are not the query's own.
        to_commit: the offsets that need the query's stamp, from `foreign`, `--at` or the log.
    """

    start: Mapping[TopicPartition, int]
    foreign: Mapping[TopicPartition, Position]
    to_commit: Mapping[TopicPartition, int]


def plan_of(candidate: Candidate, group: Snapshot, named: Mapping[TopicPartition, int]) -> Plan:
    """Decide where the query continues, and which offsets it gets.

    Args:
        candidate: the query.
        group: the offsets and members of its group.
        named: the offsets that the user gave with `--at`.

    Raises:
        OffsetsError: neither the group, nor the log, nor `named` says where the query continues, or
            they contradict each other.
    """
    checkpoint, owner, batch = candidate.checkpoint, candidate.owner, candidate.batch
    committed, topic_ids = group.committed, group.topic_ids
    in_log = checkpoint.was_in_epoch_scope
    if batch and named:
        refuse_restarts(candidate, batch, group)
    if batch and not batch.log_is_ahead:
        without_offset = sorted({*batch.end} & {*topic_ids} - {*committed} - {*named})
        if without_offset and not in_log:
            raise OffsetsError(_expired(candidate, without_offset))
        if without_offset and not batch.committed:
            raise OffsetsError(_undecided(candidate, batch, without_offset))
    if not committed and not named and not in_log:
        raise OffsetsError(
            f"group '{owner.group}' has no offsets from which {candidate.location} could "
            "continue. Nothing was changed. A new query begins at its startingOffsets"
        )
    foreign = {
        p: each for p, each in committed.items() if each.identity not in candidate.identities
    }
    to_commit = {p: each.committed or 0 for p, each in foreign.items() if p in topic_ids}
    if batch and batch.log_is_ahead:
        # A partition that is not named continues where the log says.
        by_log = candidate.start_by_log(batch)
        logged = {p: offset for p, offset in by_log.items() if p in topic_ids}
        unnamed = {p: offset for p, offset in logged.items() if p not in named}
        refuse_former_topics(candidate, unnamed, group)
        refuse_beyond_log(candidate, unnamed, group.standing)
        to_commit |= logged
    to_commit |= named
    start = {p: each.committed or 0 for p, each in committed.items()} | to_commit
    if in_log and batch:
        start = candidate.start_by_log(batch) | start
    return Plan(start, foreign, to_commit)


def _expired(candidate: Candidate, partitions: Sequence[TopicPartition]) -> str:
    return (
        f"group '{candidate.owner.group}' has no offset of {names_of(partitions)}, though "
        f"{candidate.location} has run with it: it expired or was deleted, so it is not known "
        "whether the last batch took effect. Nothing was changed. Check the output, and use --at "
        "to give the offsets where these partitions continue. If a topic was created again, its "
        "query continues by itself with failOnDataLoss=false"
    )


def _undecided(candidate: Candidate, batch: Batch, partitions: Sequence[TopicPartition]) -> str:
    return (
        f"group '{candidate.owner.group}' has no offset of {names_of(partitions)}, and batch "
        f"{batch.number} of {candidate.location} was not finished: only the query's decision topic "
        "knows whether it took effect. Nothing was changed. Start the query: it continues if the "
        "batch was decided. If not, it stops with EOSKAFKA_OFFSETS_GONE; then "
        f"{BEGIN_ANEW}. The batch begins at {offset_json(candidate.start_by_log(batch))}, but if "
        "it ran in task scope, some of its tasks may have committed, and tasks of the batch before "
        "it may have stopped early"
    )
