"""Giving a query the offsets of its group, before it starts here for the first time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kafka import TopicPartition
from kafka.structs import OffsetAndMetadata

from eoskafka import stamps
from eoskafka.checkpoints import Batch, Checkpoint, Identity
from eoskafka.errors import ConfigurationError, OffsetsError
from eoskafka.groups import Connection, offset_json, topic_ids
from eoskafka.offsets.commit import commit_offsets, require_stopped
from eoskafka.offsets.model import Adoption, Move, Position, Situation, Standing, names_of
from eoskafka.offsets.standing import LogOffsets, Snapshot, snapshot
from eoskafka.offsets.target import Target, is_named, topics_named

_ANEW = (
    "start the query with a new checkpoint, another kafka.group.id, and startingOffsets that give "
    "for every partition the first offset whose output is missing"
)


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
        take_over: whether to give it the offsets of another query in task scope too, whose
            checkpoint is lost. The connector refuses that query from then on.
        at: where to continue, as in `startingOffsets`, with partitions whose offsets have expired,
            were deleted, or were committed by somebody else after the query had begun. Partitions
            that it does not name keep their offsets.
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
    identity = _identity(place, group)
    batch = in_log = place.last_batch()
    if not (identity or group or batch):
        raise OffsetsError(
            f"{checkpoint} knows no group, or there is no checkpoint. If the path is right, name "
            "the group whose offsets its query should have with --group"
        )
    owner = identity or place.new_identity(group)
    if batch and identity is None and not batch.is_ours:
        # Another connector or sink has run the query last, so its log says where it continues.
        batch = replace(batch, log_is_ahead=True)
    log_is_ahead = batch is not None and batch.log_is_ahead
    logged = {partition.topic for partition in batch.end} if batch else set()
    if topics and not log_is_ahead:
        # A log is taken over once, so with all its topics; here only these matter.
        logged &= set(topics)
    cluster = Connection(bootstrap_servers, client or {})
    with cluster.looking_at(f"group '{owner.group}'"):
        found = snapshot(cluster, owner.group, topics, topics_named(target) | logged)
        if place.last_batch() != in_log:
            raise OffsetsError(
                f"the query of {checkpoint} has run while the command looked at its group. Nothing "
                "was changed. Stop the query, and repeat the command"
            )
        if batch and log_is_ahead and not at:
            return _taken_over(cluster, place, batch, owner, identity is not None, found.standing)
        return _adopted(cluster, place, owner, found, target, batch, take_over, dry_run)


def _identity(place: Checkpoint, group: str) -> Identity | None:
    """Whose the checkpoint is, if it says so; `group` is the user's, or empty."""
    identity = place.identity()
    if identity and group and identity.group != group:
        raise OffsetsError(
            f"{place.location} belongs to group '{identity.group}', not to '{group}'. Nothing was "
            "changed. To begin with the other group use a new checkpoint"
        )
    return identity


def _taken_over(
    cluster: Connection,
    place: Checkpoint,
    batch: Batch,
    owner: Identity,
    is_known: bool,
    standing: Standing,
) -> Adoption:
    """Check a log that says where the query continues: eoskafka's sink has not run it last.

    Args:
        is_known: whether the checkpoint belongs to the group already.
    """
    start = _start_of(place, batch)
    _refuse_other_offsets(place, owner, is_known, start, standing)
    _require_in_log(cluster, place, start)
    # Spark's log is the same with the built-in connector and with another sink.
    is_by_log = any(
        each.identity == owner.id and each.scope == stamps.Scope.SOURCE_ONLY.value
        for each in standing.positions
    )
    situation = Situation.OTHER_SINK if place.has_writes or is_by_log else Situation.BUILT_IN
    if batch.committed:
        return Adoption(situation, standing.group, offset_json(start))
    return Adoption(
        situation,
        standing.group,
        offset_json(start),
        open_batch=batch.number,
        open_records=sum(max(0, end - start.get(p, end)) for p, end in batch.end.items()),
    )


def _refuse_other_offsets(
    place: Checkpoint,
    owner: Identity,
    is_known: bool,
    start: Mapping[TopicPartition, int],
    standing: Standing,
) -> None:
    for each in standing.positions:
        if each.committed is None:
            continue
        if each.identity != owner.id:
            do = "Give the query another kafka.group.id"
            if is_known:
                # A checkpoint that has a group keeps it.
                do = f"Stop the others, and {_ANEW}"
            raise OffsetsError(
                f"the log of {place.location} says where the query continues, because the built-in "
                "connector has run it last, or eoskafka with another sink, but group "
                f"'{standing.group}' has offsets of others. Nothing was changed. {do}"
            )
    _refuse_beyond_log(place, start, standing)


def _refuse_beyond_log(
    place: Checkpoint, start: Mapping[TopicPartition, int], standing: Standing
) -> None:
    """Refuse partitions whose offset in the group is past `start`, where the log continues."""
    for each in standing.positions:
        logged = start.get(TopicPartition(each.topic, each.partition))
        if (
            logged is not None
            and each.committed is not None
            and each.is_same_topic
            and each.committed > logged
        ):
            at = "say where each such partition continues with --at, or "
            if _is_by_checkpoint(each):
                # Then --at is refused.
                at = ""
            raise OffsetsError(
                f"the log of {place.location} continues at offset {logged} of {each.topic}-"
                f"{each.partition}, but group '{standing.group}' is at {each.committed}: the "
                "checkpoint is an older copy, or another query has used its path. Nothing was "
                "changed. Restore the checkpoint that the query has run with last. If there is "
                f"none, {at}{_ANEW}"
            )


def _require_in_log(
    cluster: Connection, place: Checkpoint, start: Mapping[TopicPartition, int]
) -> None:
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


def _start_of(place: Checkpoint, batch: Batch) -> dict[TopicPartition, int]:
    start = batch.end if batch.committed else batch.start
    if start is None:
        raise OffsetsError(
            f"batch {batch.number} of {place.location} was not finished, and the checkpoint does "
            "not have its start. Nothing was changed. Run the query with the connector and the "
            "sink that began the batch, until it is finished"
        )
    return start


@dataclass(frozen=True)
class _Plan:
    """What a query is to be given.

    Attributes:
        start: where each partition continues.
        foreign: positions of the group that are not the query's own.
        to_commit: the offsets that need the query's stamp, from `foreign`, `--at` or the log.
    """

    start: Mapping[TopicPartition, int]
    foreign: Mapping[TopicPartition, Position]
    to_commit: Mapping[TopicPartition, int]


def _adopted(
    cluster: Connection,
    place: Checkpoint,
    owner: Identity,
    group: Snapshot,
    target: Target,
    batch: Batch | None,
    take_over: bool,
    dry_run: bool,
) -> Adoption:
    _refuse_older_copy(place, owner, batch, group)
    with cluster.admin() as admin:
        partitions = [p for p in group.topic_ids if is_named(p, target)]
        named = target.of(admin, partitions, group.positions)
    plan = _plan(place, owner, group, batch, named)
    adoption = Adoption(
        Situation.ADOPTED if plan.to_commit else Situation.READY,
        group.standing.group,
        offset_json(plan.start),
        is_new=not place.exists,
        without_offset=len(set(group.topic_ids) - set(plan.start)),
        moves=tuple(
            Move(p.topic, p.partition, position.committed if position else None, offset)
            for p, offset in sorted(plan.to_commit.items())
            for position in [group.positions.get(p)]
        ),
    )
    if plan.to_commit:
        require_stopped(group.standing)
        _refuse_unadoptable(place, batch, plan.foreign, group, take_over)
        if place.has_begun:
            said = {*named, *(_start_of(place, batch) if batch and batch.log_is_ahead else ())}
            unsaid = {p: offset for p, offset in plan.to_commit.items() if p not in said}
            _refuse_overwritten(place, owner, batch, unsaid)
        if not dry_run:
            _give(cluster, place, owner, group, batch, plan.to_commit)
    return adoption


def _refuse_older_copy(
    place: Checkpoint, owner: Identity, batch: Batch | None, group: Snapshot
) -> None:
    """Refuse a checkpoint whose log lacks an epoch that was decided: its query does not start."""
    last = batch.number if batch else -1
    for partition, each in sorted(group.committed.items()):
        is_epoch = each.identity == owner.id and each.scope == stamps.Scope.EPOCH.value
        if is_epoch and each.is_same_topic and each.epoch is not None and each.epoch > last:
            raise OffsetsError(
                f"batch {each.epoch} has committed the offset of {names_of([partition])} in epoch "
                f"scope, and the log of {place.location} has "
                + (f"batch {last} as its last one" if batch else "no batch")
                + ": the checkpoint is an older copy, and the query does not start with it. "
                "Nothing was changed. Restore the checkpoint that the query has run with last. If "
                f"there is none, {_ANEW}"
            )


def _plan(
    place: Checkpoint,
    owner: Identity,
    group: Snapshot,
    batch: Batch | None,
    named: Mapping[TopicPartition, int],
) -> _Plan:
    """Where the query continues.

    Raises:
        OffsetsError: neither the group, nor the log, nor `named` says so, or they contradict.
    """
    committed, topic_ids = group.committed, group.topic_ids
    in_log = place.was_in_epoch_scope
    if batch and not batch.log_is_ahead:
        without_offset = sorted({*batch.end} & {*topic_ids} - {*committed} - {*named})
        if without_offset and not in_log:
            raise OffsetsError(_expired(place, group.standing.group, without_offset))
        if without_offset and not batch.committed:
            raise OffsetsError(_undecided(place, group.standing.group, without_offset, batch))
    if not committed and not named and not in_log:
        raise OffsetsError(
            f"group '{group.standing.group}' has no offsets from which {place.location} could "
            "continue. Nothing was changed. A new query begins at its startingOffsets"
        )
    own = {owner.id, stamps.exclusive_identity(owner.group, owner.instance_id, owner.checkpoint_id)}
    foreign = {p: each for p, each in committed.items() if each.identity not in own}
    to_commit = {p: each.committed or 0 for p, each in foreign.items() if p in topic_ids}
    if batch and batch.log_is_ahead:
        # A partition that is not named continues where the log says.
        logged = {p: each for p, each in _start_of(place, batch).items() if p in topic_ids}
        _refuse_beyond_log(place, {p: logged[p] for p in logged.keys() - named}, group.standing)
        to_commit |= logged
    to_commit |= named
    start = {p: each.committed or 0 for p, each in committed.items()} | to_commit
    if in_log and batch:
        start = _start_of(place, batch) | start
    return _Plan(start, foreign, to_commit)


def _give(
    cluster: Connection,
    place: Checkpoint,
    owner: Identity,
    group: Snapshot,
    batch: Batch | None,
    offsets: Mapping[TopicPartition, int],
) -> None:
    # The epoch is that of a batch which no log has yet. A query with state is then refused, because
    # its state does not fit these offsets.
    epoch = batch.number + 1 if batch else -1
    stamp = stamps.Stamp(stamps.Scope.TASK, owner.id, "", "-", epoch)
    # The identity comes first, so that a repeated command continues with the same one.
    place.write_identity(owner)
    stamped = {
        p: OffsetAndMetadata(offset, stamps.encode(stamp._replace(topic_id=group.topic_ids[p])), -1)
        for p, offset in offsets.items()
    }
    commit_offsets(cluster, group.standing.group, group.offsets, stamped)
    if batch and batch.log_is_ahead:
        place.write_taken_over(batch.until)


def _refuse_overwritten(
    place: Checkpoint,
    owner: Identity,
    batch: Batch | None,
    unsaid: Mapping[TopicPartition, int],
) -> None:
    """Refuse offsets that others have committed since the query has begun, unless `at` says them.

    Whoever joins the group for a moment commits offsets of what it has read itself. That the last
    batch ends there does not help: it may have ended early, and in real-time mode Spark's log is
    behind the group.
    """
    if not unsaid:
        return
    partition, offset = min(unsaid.items())
    named = names_of([partition])
    if batch and partition in batch.end:
        where = (
            f"batch {batch.number} of {place.location} ends at offset {batch.end[partition]} of "
            f"{named}" + ("" if batch.committed else ", and whether it took effect is not known")
        )
    else:
        where = f"no batch of {place.location} has read {named}, as far as its log says"
    look = (
        "Check the output, since a batch that was not finished, a long batch or real-time mode may "
        "have stopped elsewhere"
    )
    if owner.shared:
        look = "Another driver of the group may have gone further, so check the output"
    elif batch:
        look = f"Its last batch ends at {offset_json(batch.end)}. {look}"
    raise OffsetsError(
        f"{where}. Group '{owner.group}' has offset {offset} there, which another application has "
        "committed or a tool has set in place of the query's own: records could be skipped or "
        f"written twice. Nothing was changed. {look}. Then say with --at where each partition "
        "continues: the first offset that has not taken effect. If the query does not read that "
        "topic, name its topics with --topics"
    )


def _expired(place: Checkpoint, group: str, partitions: Sequence[TopicPartition]) -> str:
    return (
        f"group '{group}' has no offset of {names_of(partitions)}, though {place.location} has run "
        "with it: it expired or was deleted, and whether the last batch took effect is not known. "
        "Nothing was changed. Check the output, and say with --at where these partitions continue. "
        "If a topic was created again, its query continues by itself with failOnDataLoss=false"
    )


def _undecided(
    place: Checkpoint, group: str, partitions: Sequence[TopicPartition], batch: Batch
) -> str:
    return (
        f"group '{group}' has no offset of {names_of(partitions)}, and batch {batch.number} of "
        f"{place.location} was not finished: only the query's decision topic knows whether it took "
        "effect. Nothing was changed. Start the query: it continues if the batch was decided. If "
        f"not, it stops with EOSKAFKA_OFFSETS_GONE; then {_ANEW}. The batch begins at "
        f"{offset_json(_start_of(place, batch))}, but if it ran in task scope, some of its tasks "
        "may have committed, and tasks of the batch before it may have stopped early"
    )


def _refuse_unadoptable(
    place: Checkpoint,
    batch: Batch | None,
    foreign: Mapping[TopicPartition, Position],
    group: Snapshot,
    take_over: bool,
) -> None:
    if place.was_in_epoch_scope or any(map(_is_by_checkpoint, group.committed.values())):
        raise OffsetsError(
            f"{place.location} was in epoch scope, or without a sink of eoskafka: the checkpoint "
            "says where its query continues, and the query does not start while other offsets are "
            "in its group. Nothing was changed. "
            + (
                "If the checkpoint is the one that the query has run with last, and not an older "
                "copy, delete the group with kafka-consumer-groups.sh --delete, and start the "
                f"query. Otherwise {_ANEW}"
                if _can_do_without_group(batch, group)
                else f"Do not delete the group, because the checkpoint's log may not say all that "
                f"has taken effect: {_ANEW}"
            )
        )
    for partition, each in foreign.items():
        stamp = stamps.parse(group.offsets[partition].metadata)
        if stamp is not None and stamp.sink_cluster != "-":
            raise OffsetsError(
                f"the offset of {names_of([partition])} is that of a query whose sink is on another"
                " cluster. Such a query is never in task scope, and what it has decided may have "
                f"taken effect beyond this offset. Nothing was changed. Instead, {_ANEW}"
            )
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


def _is_by_checkpoint(position: Position) -> bool:
    """Whether a query has committed this offset whose checkpoint says where it continues."""
    return position.scope not in ("", stamps.Scope.TASK.value)


def _can_do_without_group(batch: Batch | None, group: Snapshot) -> bool:
    """Whether Spark's log may be all that the query needs, as far as the group's offsets tell.

    The log does not say what a task has committed. And a group that is beyond the log's end shows
    that the log is an older one.
    """
    if batch is None or not batch.committed:
        return False
    return not any(
        each.scope == stamps.Scope.TASK.value and (each.epoch or 0) >= 0
        for each in group.committed.values()
    ) and not any(
        (each.committed or 0) > batch.end.get(p, 0) for p, each in group.committed.items()
    )
