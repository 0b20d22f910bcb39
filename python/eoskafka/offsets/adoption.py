"""Giving a query the offsets of its group, before it starts here for the first time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kafka import TopicPartition
from kafka.structs import OffsetAndMetadata

from eoskafka import stamps
from eoskafka.brokers.connection import Connection
from eoskafka.brokers.topics import offset_json
from eoskafka.checkpoints import Checkpoint
from eoskafka.errors import ConfigurationError
from eoskafka.offsets.adoption_by_log import check_log
from eoskafka.offsets.adoption_plan import plan_of
from eoskafka.offsets.adoption_refusals import (
    refuse_older_copy,
    refuse_overwritten,
    refuse_unadoptable,
)
from eoskafka.offsets.candidate import Candidate
from eoskafka.offsets.commit import commit_offsets, require_stopped
from eoskafka.offsets.model import Adoption, Move, Situation
from eoskafka.offsets.standing import Snapshot, require_agreed_ids, snapshot
from eoskafka.offsets.target import Target, is_named, topics_named


def adopt(
    bootstrap_servers: str,
    checkpoint: str,
    group: str = "",
    topics: Collection[str] = (),
    source: int | str | None = None,
    take_over: bool = False,
    at: str = "",
    client: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> Adoption:
    """Check a checkpoint before its query moves here, and give it the offsets of its group.

    Offsets that another application has committed, or that a tool has set, get the stamps of the
    checkpoint's query, which then continues from them. A checkpoint of the built-in connector needs
    no offsets, because its log says where the query continues.

    Args:
        bootstrap_servers: of the source's cluster, `host:port,...`.
        checkpoint: the query's `checkpointLocation`: a folder, or a URI that pyarrow knows. It need
            not exist yet.
        group: the query's `kafka.group.id`; empty if the checkpoint names it.
        topics: the query's topics; none for all that the group has an offset of.
        source: which source of the query: its index, from 0, or its name. None stands for the only
            one, or for the first.
        take_over: whether to also give it the offsets of another query in task scope whose
            checkpoint is lost. The connector refuses that other query from then on.
        at: where to continue, as in `startingOffsets`, with partitions whose offsets have expired,
            were deleted, or were committed by another application after the query had begun. Other
            partitions keep their offsets.
        client: further settings of kafka-python's clients.
        dry_run: change nothing.

    Raises:
        CheckpointError: the checkpoint cannot be read.
        OffsetsError: the query cannot continue from there. Nothing was changed.
        UnreachableError: the cluster does not answer, or not to this user.
    """
    place = Checkpoint(checkpoint, source)
    target = Target.parse(at) if at else Target()
    if at and not (target.offsets or target.by_topic):
        raise ConfigurationError(f'--at takes offsets such as {{"topic":{{"0":23}}}}, not {at!r}')
    candidate = Candidate.read(place, group)
    batch = candidate.batch
    logged_topics = {partition.topic for partition in batch.end} if batch else set()
    if topics and not candidate.log_is_ahead:
        # A log is taken over once, so with all its topics; here only these matter.
        logged_topics &= set(topics)
    cluster = Connection(bootstrap_servers, client or {})
    with cluster.looking_at(f"group '{candidate.owner.group}'", topics="Read", groups="Read"):
        also = topics_named(target) | logged_topics
        found = snapshot(cluster, candidate.owner.group, topics, also)
        require_agreed_ids(cluster, found)
        candidate.require_idle()
        if batch and candidate.log_is_ahead and not at:
            return check_log(cluster, candidate, batch, found)
        return _adopt_offsets(cluster, candidate, found, target, take_over, dry_run)


def _adopt_offsets(
    cluster: Connection,
    candidate: Candidate,
    group: Snapshot,
    target: Target,
    take_over: bool,
    dry_run: bool,
) -> Adoption:
    """Give the query the offsets of its group, and those that the user names."""
    refuse_older_copy(candidate, group)
    with cluster.admin() as admin:
        partitions = [p for p in group.topic_ids if is_named(p, target)]
        named = target.of(admin, partitions, group.positions)
    plan = plan_of(candidate, group, named)
    adoption = Adoption(
        Situation.ADOPTED if plan.to_commit else Situation.READY,
        group.standing.group,
        offset_json(plan.start),
        is_new=not candidate.checkpoint.exists,
        without_offset=len(set(group.topic_ids) - set(plan.start)),
        moves=tuple(
            Move(p.topic, p.partition, position.committed if position else None, offset)
            for p, offset in sorted(plan.to_commit.items())
            for position in [group.positions.get(p)]
        ),
    )
    if plan.to_commit:
        require_stopped(group.standing)
        refuse_unadoptable(candidate, plan.foreign, group, take_over)
        if candidate.checkpoint.has_begun:
            batch = candidate.batch
            by_log = candidate.start_by_log(batch) if batch and batch.log_is_ahead else ()
            said = {*named, *by_log}
            unsaid = {p: offset for p, offset in plan.to_commit.items() if p not in said}
            refuse_overwritten(candidate, unsaid)
        if not dry_run:
            _give(cluster, candidate, group, plan.to_commit)
    return adoption


def _give(
    cluster: Connection,
    candidate: Candidate,
    group: Snapshot,
    offsets: Mapping[TopicPartition, int],
) -> None:
    """Commit these offsets with the stamp of the query."""
    checkpoint, owner, batch = candidate.checkpoint, candidate.owner, candidate.batch
    # The epoch is that of a batch which no log has yet. A query with state is then refused, because
    # its state does not fit these offsets.
    epoch = batch.number + 1 if batch else -1
    stamp = stamps.Stamp(stamps.Scope.TASK, owner.id, "", "-", epoch)
    # The identity comes first, so that a repeated command continues with the same one.
    checkpoint.write_identity(owner)
    stamped = {
        p: OffsetAndMetadata(offset, stamps.encode(stamp._replace(topic_id=group.topic_ids[p])), -1)
        for p, offset in offsets.items()
    }
    commit_offsets(cluster, group.standing.group, group.offsets, stamped)
    if batch and batch.log_is_ahead:
        checkpoint.write_taken_over(batch.until)
