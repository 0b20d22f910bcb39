"""Moving the offsets of a stopped query in task scope, so that it replays or skips records."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kafka.structs import OffsetAndMetadata

from eoskafka import stamps
from eoskafka.errors import ConfigurationError, OffsetsError
from eoskafka.groups import (
    Connection,
)
from eoskafka.offsets.commit import commit_offsets, require_stopped
from eoskafka.offsets.model import (
    Move,
    Standing,
    names_of,
)
from eoskafka.offsets.standing import snapshot
from eoskafka.offsets.target import Target, is_chosen, topics_named


def reset(
    bootstrap_servers: str,
    group: str,
    to: str,
    topics: Collection[str] = (),
    client: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> tuple[Move, ...]:
    """Let a stopped query go on elsewhere: to do records again, or to leave some out.

    Only for a query in task scope, whose truth are these offsets. One in epoch scope goes by its
    checkpoint: it is given a new checkpoint, group and `startingOffsets` instead.

    Args:
        bootstrap_servers: of the source's cluster, `host:port,...`.
        group: the query's `kafka.group.id`.
        to: `earliest`, `latest`, a time (ISO 8601 with its zone, or milliseconds since 1970: the
            first record at or after it, else the end), or offsets as in `startingOffsets`.
        topics: those to move; none for all of the group's. Not with offsets, which name them.
        client: further settings of kafka-python's clients.
        dry_run: change nothing.

    Returns:
        what was moved; partitions that stay where they are are left out.

    Raises:
        ConfigurationError: `to` is none of these.
        OffsetsError: a driver is in the group, a transaction holds offsets of it, or its offsets
            are none that can be moved. Nothing was changed.
        UnreachableError: the cluster does not answer, or not to this user.
    """
    target = Target.parse(to)
    if target.offsets and topics:
        raise ConfigurationError("offsets in JSON name their topics: remove --topics")
    chosen = topics_named(target) or set(topics)
    cluster = Connection(bootstrap_servers, client or {})
    with cluster.looking_at(f"group '{group}'"):
        look = snapshot(cluster, group, chosen)
        require_stopped(look.standing)
        _refuse_unmovable(look.standing, chosen)
        there, before = look.topic_ids, look.offsets
        with cluster.admin() as admin:
            wanted = [p for p in there if is_chosen(p, target, chosen)]
            after = target.of(admin, wanted, look.positions)
        news = {
            partition: OffsetAndMetadata(
                offset, _moved(before[partition].metadata, there[partition]), -1
            )
            for partition, offset in after.items()
            if partition in before and _changes(before[partition], offset, there[partition])
        }
        unknown = sorted(set(after) - set(before))
        if unknown and target.offsets:
            raise OffsetsError(
                f"group '{group}' has no offset of {names_of(unknown)} that could be moved: a "
                "query begins by itself with a partition that it finds later. Nothing was changed"
            )
        if not dry_run:
            commit_offsets(cluster, group, news)
    return tuple(
        Move(p.topic, p.partition, before[p].offset, each.offset)
        for p, each in sorted(news.items())
    )


def _moved(metadata: str | None, topic_id: str) -> str:
    stamp = stamps.parse(metadata)
    assert stamp is not None
    # Not -1, which is said of an offset that no batch has moved: state does not fit to this one.
    return stamps.encode(stamp._replace(topic_id=topic_id, epoch=max(0, stamp.epoch)))


def _changes(before: OffsetAndMetadata, after: int, topic_id: str) -> bool:
    stamp = stamps.parse(before.metadata)
    return before.offset != after or stamp is None or stamp.topic_id != topic_id


def _refuse_unmovable(standing: Standing, topics: Collection[str]) -> None:
    have = [each for each in standing.positions if each.committed is not None]
    if not have:
        of = f" of {', '.join(sorted(topics))}" if topics else ""
        raise OffsetsError(
            f"group '{standing.group}' has no offsets{of}: a new query in this group begins at "
            "its startingOffsets. Nothing was changed"
        )
    missing = sorted(set(topics) - {each.topic for each in have})
    if missing:
        raise OffsetsError(
            f"group '{standing.group}' has no offsets of {', '.join(missing)}. Nothing was changed"
        )
    for each in have:
        place = f"the offset of {each.topic}-{each.partition} in group '{standing.group}'"
        if each.kind == stamps.Kind.NONE.value:
            raise OffsetsError(
                f"{place} is another application's, or a tool has set it. Nothing was changed. "
                "`eoskafka offsets adopt CHECKPOINT` gives it to a query"
            )
        if each.kind != stamps.Kind.OURS.value:
            raise OffsetsError(
                f"{place} was committed by another version of eoskafka ({each.kind}). Nothing was "
                "changed; use that version"
            )
        if each.scope != stamps.Scope.TASK.value:
            raise OffsetsError(
                f"{place} was committed in {each.scope} scope: the query's checkpoint says where "
                "it continues, and its state belongs to that place. Nothing was changed. To read "
                "records again, start it with a new checkpoint and kafka.group.id, and with "
                "startingOffsets or startingTimestamp"
            )
    identities = {each.identity for each in have}
    # A checkpoint that shares its group now has left its own stamp on what rests.
    if len(identities - {stamps.shared_identity(standing.group)}) > 1:
        raise OffsetsError(
            f"group '{standing.group}' has offsets of several queries. Nothing was changed. Name "
            "the topics of one of them with --topics"
        )
