"""Offsets that a query is not given, because records could be lost or duplicated."""

from __future__ import annotations

from collections.abc import Mapping

from kafka import TopicPartition

from eoskafka import stamps
from eoskafka.brokers.topics import names_of, offset_json
from eoskafka.errors import OffsetsError
from eoskafka.offsets.candidate import BEGIN_ANEW, Candidate
from eoskafka.offsets.model import Position
from eoskafka.offsets.standing import Snapshot


def refuse_older_copy(candidate: Candidate, group: Snapshot) -> None:
    """Refuse a checkpoint whose log lacks an epoch that was decided: its query does not start.

    Raises:
        OffsetsError: it lacks one.
    """
    batch = candidate.batch
    last = batch.number if batch else -1
    for partition, each in sorted(group.committed.items()):
        is_epoch = each.identity == candidate.owner.id and each.scope == stamps.Scope.EPOCH.value
        if is_epoch and each.is_same_topic and each.epoch is not None and each.epoch > last:
            raise OffsetsError(
                f"batch {each.epoch} has committed the offset of {names_of([partition])} in epoch "
                f"scope, and the log of {candidate.location} has "
                + (f"batch {last} as its last one" if batch else "no batch")
                + ": the checkpoint is an older copy, and the query does not start with it. "
                "Nothing was changed. Restore the checkpoint that the query has run with last. If "
                f"there is none, {BEGIN_ANEW}"
            )


def refuse_overwritten(candidate: Candidate, unsaid: Mapping[TopicPartition, int]) -> None:
    """Refuse offsets that others have committed since the query began, unless `at` names them.

    A consumer that joins the group for a moment commits the offsets that it has read itself. It is
    no proof if the last batch ends there: the batch may have ended early, and in real-time mode
    Spark's log is behind the group.

    Args:
        candidate: a query that has begun.
        unsaid: offsets to commit that neither the user nor the log names.

    Raises:
        OffsetsError: there are any.
    """
    if not unsaid:
        return
    owner, batch = candidate.owner, candidate.batch
    partition, offset = min(unsaid.items())
    named = names_of([partition])
    if batch and partition in batch.end:
        where = (
            f"batch {batch.number} of {candidate.location} ends at offset {batch.end[partition]} "
            f"of {named}" + ("" if batch.committed else ", and whether it took effect is not known")
        )
    else:
        where = f"according to its log, no batch of {candidate.location} has read {named}"
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


def refuse_unadoptable(
    candidate: Candidate,
    foreign: Mapping[TopicPartition, Position],
    group: Snapshot,
    take_over: bool,
) -> None:
    """Refuse offsets if the group's offsets do not show everything that has taken effect.

    Args:
        candidate: the query.
        foreign: positions of the group that are not its own.
        group: what the group has.
        take_over: whether it may have the offsets of another query in task scope.

    Raises:
        OffsetsError: one of them cannot be adopted.
    """
    if candidate.checkpoint.was_in_epoch_scope or any(
        map(is_by_checkpoint, group.committed.values())
    ):
        raise OffsetsError(
            f"{candidate.location} was in epoch scope, or without a sink of eoskafka: its "
            "checkpoint says where the query continues, and the query does not start while its "
            "group has offsets of others. Nothing was changed. "
            + (
                "If the checkpoint is the one that the query has run with last, and not an older "
                "copy, delete the group with kafka-consumer-groups.sh --delete, and start the "
                f"query. Otherwise {BEGIN_ANEW}"
                if _can_do_without_group(candidate, group)
                else "Do not delete the group, because the checkpoint's log may lack records that "
                f"have taken effect: {BEGIN_ANEW}"
            )
        )
    for partition, each in foreign.items():
        stamp = stamps.parse(group.offsets[partition].metadata)
        if stamp is not None and stamp.sink_cluster != "-":
            raise OffsetsError(
                f"the offset of {names_of([partition])} is that of a query whose sink is on another"
                " cluster. Such a query never runs in task scope, and epochs that it has decided "
                "may have taken effect beyond this offset. Nothing was changed. Instead, "
                f"{BEGIN_ANEW}"
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


def is_by_checkpoint(position: Position) -> bool:
    """Whether a query has committed this offset whose checkpoint says where it continues."""
    return position.scope not in ("", stamps.Scope.TASK.value)


def _can_do_without_group(candidate: Candidate, group: Snapshot) -> bool:
    """Whether the group's offsets allow the query to continue from Spark's log alone.

    The log does not show what a task has committed. And if the group is past the end of the log,
    the log is outdated.
    """
    batch = candidate.batch
    if batch is None or not batch.committed:
        return False
    return not any(
        each.scope == stamps.Scope.TASK.value and (each.epoch or 0) >= 0
        for each in group.committed.values()
    ) and not any(
        (each.committed or 0) > batch.end.get(p, 0) for p, each in group.committed.items()
    )
