"""Giving a query the offsets of its group, before it starts here for the first time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kafka import TopicPartition
from kafka.structs import OffsetAndMetadata

from eoskafka import stamps
from eoskafka.checkpoints import Batch, Checkpoint, Identity
from eoskafka.errors import ConfigurationError, OffsetsError
from eoskafka.groups import (
    Connection,
    offset_json,
    topic_ids,
)
from eoskafka.offsets.commit import commit_offsets, require_stopped
from eoskafka.offsets.model import (
    Adoption,
    Move,
    Position,
    Situation,
    Standing,
    names_of,
)
from eoskafka.offsets.standing import LogOffsets, Snapshot, snapshot
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
    checkpoint's query, which then goes on from them. A checkpoint of the built-in connector needs
    none: its log says where the query goes on.

    Args:
        bootstrap_servers: of the source's cluster, `host:port,...`.
        checkpoint: the query's `checkpointLocation`: a folder, or a URI that pyarrow knows. It need
            not exist yet.
        group: the query's `kafka.group.id`; empty where the checkpoint knows it.
        topics: the query's; none for all that the group has an offset of.
        source: which source of the query: its index, from 0, or its name. None stands for the only
            one, or for the first.
        take_over: also offsets of another query in task scope, whose checkpoint is lost. That query
            is refused from then on.
        at: where to go on, as in `startingOffsets`: for partitions whose offsets are gone from the
            group, or were replaced there by somebody else after the query had run. Those that it
            does not name stay as they are.
        client: further settings of kafka-python's clients.
        dry_run: change nothing.

    Raises:
        CheckpointError: the checkpoint cannot be read.
        OffsetsError: the query cannot go on from there. Nothing was changed.
        UnreachableError: the cluster does not answer, or not to this user.
    """
    place = Checkpoint(checkpoint, source)
    target = Target.parse(at) if at else Target()
    if at and not (target.offsets or target.by_topic):
        raise ConfigurationError(f'--at takes offsets such as {{"topic":{{"0":23}}}}, not {at!r}')
    identity = place.identity()
    if identity and group and identity.group != group:
        raise OffsetsError(
            f"{checkpoint} belongs to group '{identity.group}', not to '{group}'. Nothing was "
            "changed. To begin with the other group use a new checkpoint"
        )
    batch = place.last_batch()
    if not (identity or group or batch):
        raise OffsetsError(
            f"{checkpoint} knows no group, or there is no checkpoint. If the path is right, name "
            "the group whose offsets its query should have with --group"
        )
    owner = identity or place.new_identity(group)
    cluster = Connection(bootstrap_servers, client or {})
    with cluster.looking_at(f"group '{owner.group}'"):
        # Where others have gone on with the checkpoint, its log says where the query goes on: of
        # all its topics, since it is taken over once.
        if batch and identity is None:
            batch = replace(batch, log_is_ahead=True)
        logged = {partition.topic for partition in batch.end} if batch else set()
        if topics and not (batch and batch.log_is_ahead):
            logged &= set(topics)
        look = snapshot(cluster, owner.group, topics, topics_named(target) | logged)
        if batch and batch.log_is_ahead and not at:
            return _taken_over(cluster, place, batch, owner, look.standing)
        return _adopted(cluster, place, owner, look, target, batch, take_over, dry_run)


def _taken_over(
    cluster: Connection, place: Checkpoint, batch: Batch, owner: Identity, standing: Standing
) -> Adoption:
    """Nothing is to be changed: the connector takes the log over at its start."""
    start = _start_of(place, batch)
    for each in standing.positions:
        if each.committed is None:
            continue
        if each.identity != owner.id:
            raise OffsetsError(
                f"{place.location} is a checkpoint of the built-in connector, whose log says where "
                f"the query continues, but group '{standing.group}' has offsets of others. Nothing "
                "was changed. Give the query another kafka.group.id"
            )
        logged = start.get(TopicPartition(each.topic, each.partition))
        if logged is not None and each.is_same_topic and each.committed > logged:
            raise OffsetsError(
                f"the log of {place.location} continues at offset {logged} of {each.topic}-"
                f"{each.partition}, but group '{standing.group}' is at {each.committed}: the "
                "checkpoint is an older copy, or another query has used its path. Nothing was "
                "changed. Say which one is right with --at, or use a new checkpoint and "
                "kafka.group.id"
            )
    with cluster.admin() as admin:
        ids = topic_ids(admin, {partition.topic for partition in start})
        missing = sorted(set(start) - set(ids))
        if missing:
            raise OffsetsError(
                f"{place.location} has read {names_of(missing)}, and the cluster at "
                f"{cluster.servers} has no such partition. Nothing was changed. Is it this cluster?"
            )
        log = LogOffsets(admin, sorted(start))
    for partition, offset in sorted(start.items()):
        if not log.start[partition] <= offset <= log.end[partition]:
            raise OffsetsError(
                f"{place.location} continues at offset {offset} of {names_of([partition])}, which "
                f"has the offsets {log.start[partition]} to {log.end[partition]}. "
                "Nothing was changed. With failOnDataLoss=false the query continues with the "
                "records that exist"
            )
    is_open = not batch.committed
    return Adoption(
        Situation.BUILT_IN,
        standing.group,
        offset_json(start),
        open_batch=batch.number if is_open else None,
        open_records=(
            sum(max(0, end - start.get(p, end)) for p, end in batch.end.items())
            if is_open
            else None
        ),
    )


def _start_of(place: Checkpoint, batch: Batch) -> dict[TopicPartition, int]:
    start = batch.end if batch.committed else batch.start
    if start is None:
        raise OffsetsError(
            f"batch {batch.number} of {place.location} was not finished, and the checkpoint does "
            "not have its start. Nothing was changed. Let the built-in connector finish the batch"
        )
    return start


def _adopted(
    cluster: Connection,
    place: Checkpoint,
    owner: Identity,
    look: Snapshot,
    target: Target,
    batch: Batch | None,
    take_over: bool,
    dry_run: bool,
) -> Adoption:
    standing, ids, everything = look.standing, look.topic_ids, look.positions
    with cluster.admin() as admin:
        named = target.of(admin, [p for p in ids if is_named(p, target)], everything)
    have = {p: each for p, each in everything.items() if each.committed is not None}
    in_log = place.was_in_epoch_scope
    if batch and not batch.log_is_ahead:
        gone = sorted({*batch.end} & {*ids} - {*have} - {*named})
        if gone and not in_log:
            raise OffsetsError(_gone(place, standing.group, gone))
        if gone and not batch.committed:
            raise OffsetsError(_undecided(place, standing.group, gone, batch))
    if not have and not named and not in_log:
        raise OffsetsError(
            f"group '{standing.group}' has no offsets from which {place.location} could "
            "continue. Nothing was changed. A new query begins at its startingOffsets"
        )
    own = {owner.id, stamps.exclusive_identity(owner.group, owner.instance_id, owner.checkpoint_id)}
    foreign = {p: each for p, each in have.items() if each.identity not in own}
    news = {p: each.committed or 0 for p, each in foreign.items() if p in ids}
    if batch and batch.log_is_ahead:
        # What is not named goes on where the log says.
        news |= {p: offset for p, offset in _start_of(place, batch).items() if p in ids}
    news |= named
    start = {p: each.committed or 0 for p, each in have.items()} | news
    if in_log and batch:
        start = _start_of(place, batch) | start
    found = Adoption(
        Situation.ADOPTED if news else Situation.READY,
        standing.group,
        offset_json(start),
        is_new=not place.exists,
        without_offset=len(set(ids) - set(start)),
        moves=tuple(
            Move(p.topic, p.partition, each.committed if each else None, offset)
            for p, offset in sorted(news.items())
            for each in [everything.get(p)]
        ),
    )
    if not news:
        return found
    require_stopped(standing)
    _refuse_unadoptable(place, foreign, have, take_over)
    if batch and not batch.log_is_ahead:
        unstamped = {p: o for p, o in news.items() if p in foreign and p not in named}
        _refuse_overwritten(place, owner, batch, unstamped)
    if not dry_run:
        # Of a batch that no log has yet: with state the query is refused, which does not fit to it.
        epoch = batch.number + 1 if batch else -1
        stamp = stamps.Stamp(stamps.Scope.TASK, owner.id, "", "-", epoch)
        # First, so that a repetition goes on with the same identity.
        place.write_identity(owner)
        stamped = {
            p: OffsetAndMetadata(offset, stamps.encode(stamp._replace(topic_id=ids[p])), -1)
            for p, offset in news.items()
        }
        commit_offsets(cluster, standing.group, stamped)
        if batch and batch.log_is_ahead:
            place.write_taken_over(batch.until)
    return found


def _refuse_overwritten(
    place: Checkpoint, owner: Identity, batch: Batch, unstamped: Mapping[TopicPartition, int]
) -> None:
    """Refuse offsets that have replaced those of a query which has run, unless they say the same.

    Whoever joins the group for a moment commits offsets of what it has read itself.
    """
    for partition, offset in sorted(unstamped.items()):
        end = batch.end.get(partition)
        if end is None or (offset == end and batch.committed and not owner.shared):
            continue
        where = (
            f"batch {batch.number} of {place.location} ends at offset {end} of "
            f"{names_of([partition])}"
            + ("" if batch.committed else ", and whether it took effect is not known")
        )
        look = (
            "Another driver of the group may have gone further, so check the output"
            if owner.shared
            else f"Its last batch ends at {offset_json(batch.end)}. Check the output, since a "
            "batch that was not finished, a long batch or real-time mode may have stopped elsewhere"
        )
        raise OffsetsError(
            f"{where}. Group '{owner.group}' has offset {offset} there, which another application "
            "has committed or a tool has set in place of the query's own: records could be skipped "
            f"or written twice. Nothing was changed. {look}. Then say with --at where each "
            "partition continues: the first offset that has not taken effect"
        )


def _gone(place: Checkpoint, group: str, gone: Sequence[TopicPartition]) -> str:
    return (
        f"group '{group}' has no offset of {names_of(gone)}, though {place.location} has run with "
        "it: it expired or was deleted, and whether the last batch took effect is not known. "
        "Nothing was changed. Check the output, and say with --at where these partitions continue. "
        "If a topic was created again, its query continues by itself with failOnDataLoss=false"
    )


def _undecided(place: Checkpoint, group: str, gone: Sequence[TopicPartition], batch: Batch) -> str:
    return (
        f"group '{group}' has no offset of {names_of(gone)}, and batch {batch.number} of "
        f"{place.location} was not finished: only the query's decision topic knows whether it took "
        "effect. Nothing was changed. Start the query: it continues if the batch was decided. If "
        "not, it stops with EOSKAFKA_OFFSETS_GONE; then use a new checkpoint, another "
        f"kafka.group.id, and startingOffsets={offset_json(_start_of(place, batch))}"
    )


def _refuse_unadoptable(
    place: Checkpoint,
    foreign: Mapping[TopicPartition, Position],
    have: Mapping[TopicPartition, Position],
    take_over: bool,
) -> None:
    behind = [each for each in have.values() if each.scope not in ("", stamps.Scope.TASK.value)]
    if place.was_in_epoch_scope or behind:
        raise OffsetsError(
            f"{place.location} was in epoch scope, or without a sink of eoskafka: the checkpoint "
            "says where its query continues, and the query does not start while other offsets are "
            "in its group. Nothing was changed. If it was stopped between two batches (the highest "
            "number in the checkpoint's folder offsets is also in commits), delete the group with "
            "kafka-consumer-groups.sh --delete, and start the query. To continue elsewhere, start "
            "it with a new checkpoint and kafka.group.id, and with startingOffsets"
        )
    for partition, each in foreign.items():
        if each.kind in (stamps.Kind.OLDER.value, stamps.Kind.NEWER.value):
            raise OffsetsError(
                f"the offset of {names_of([partition])} was committed by another version of "
                f"eoskafka ({each.kind}). Nothing was changed; `eoskafka upgrade check` says how "
                "to move"
            )
        if each.kind == stamps.Kind.OURS.value and not take_over:
            raise OffsetsError(
                f"the offset of {names_of([partition])} is that of another query (identity "
                f"{each.identity}). Nothing was changed. If that query will never run again and "
                "its checkpoint is lost, repeat this command with --take-over"
            )
