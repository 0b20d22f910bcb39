"""Moving the offsets of a stopped query in task scope, so that it replays or skips records."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kafka import TopicPartition
from kafka.structs import OffsetAndMetadata

from eoskafka import stamps
from eoskafka.brokers.connection import Connection
from eoskafka.brokers.groups import committed
from eoskafka.brokers.topics import names_of
from eoskafka.errors import ConfigurationError, OffsetsError
from eoskafka.offsets.commit import commit_offsets, require_stopped
from eoskafka.offsets.model import Move, Standing
from eoskafka.offsets.standing import Snapshot, require_agreed_ids, snapshot
from eoskafka.offsets.target import Target, is_chosen, topics_named


def reset(
    bootstrap_servers: str,
    group: str,
    to: str,
    topics: Collection[str] = (),
    client: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> tuple[Move, ...]:
    """Move the offsets of a stopped query, so that it replays or skips records.

    This is for a query in task scope, which continues from these offsets. A query in epoch scope
    continues from its checkpoint: give it a new checkpoint, group and `startingOffsets` instead.

    Args:
        bootstrap_servers: of the source's cluster, `host:port,...`.
        group: the query's `kafka.group.id`.
        to: `earliest`, `latest`, a time (ISO 8601 with its zone, or milliseconds since 1970: the
            first record at or after it, else the end), or offsets as in `startingOffsets`.
        topics: the topics to move; none for all of the group's. Offsets name their topics, so do
            not give both.
        client: further settings of kafka-python's clients.
        dry_run: change nothing.

    Returns:
        what was moved, without partitions that already had the offset.

    Raises:
        ConfigurationError: `to` is none of these.
        OffsetsError: a driver is in the group, a transaction holds offsets of it, or its offsets
            cannot be moved. Nothing was changed.
        UnreachableError: the cluster does not answer, or not to this user.
    """
    target = Target.parse(to)
    if target.offsets and topics:
        raise ConfigurationError("remove --topics: offsets in JSON name their own topics")
    chosen = topics_named(target) or set(topics)
    cluster = Connection(bootstrap_servers, client or {})
    with cluster.looking_at(f"group '{group}'", topics="Read", groups="Read"):
        found = snapshot(cluster, group, chosen)
        require_stopped(found.standing)
        _refuse_unmovable(found.standing, chosen)
        everything = committed(cluster, group)
        _refuse_epochs(group, found, everything)
        _refuse_other_sink(group, found, everything)
        require_agreed_ids(cluster, found)
        with cluster.admin() as admin:
            wanted = [p for p in found.topic_ids if is_chosen(p, target, chosen)]
            after = target.of(admin, wanted, found.positions)
        without_offset = sorted(set(after) - set(found.offsets))
        if without_offset and target.offsets:
            raise OffsetsError(
                f"group '{group}' has no offset of {names_of(without_offset)} that could be moved: "
                "the query itself decides where it begins to read a new partition. Nothing was "
                "changed"
            )
        to_commit = _to_commit(found, after)
        if not dry_run:
            commit_offsets(cluster, group, found.offsets, to_commit)
    return tuple(
        Move(p.topic, p.partition, found.offsets[p].offset, moved.offset)
        for p, moved in sorted(to_commit.items())
    )


def _to_commit(
    group: Snapshot, after: Mapping[TopicPartition, int]
) -> dict[TopicPartition, OffsetAndMetadata]:
    """The offsets that change, each with the stamp that it has had."""
    return {
        partition: OffsetAndMetadata(
            offset, _moved(group.offsets[partition].metadata, group.topic_ids[partition]), -1
        )
        for partition, offset in after.items()
        if partition in group.offsets
        and _changes(group.offsets[partition], offset, group.topic_ids[partition])
    }


def _moved(metadata: str | None, topic_id: str) -> str:
    stamp = stamps.parse(metadata)
    assert stamp is not None
    # An epoch of -1 would say that no batch has moved the offset, and so admit a query with state,
    # which does not fit this offset.
    return stamps.encode(stamp._replace(topic_id=topic_id, epoch=max(0, stamp.epoch)))


def _changes(before: OffsetAndMetadata, after: int, topic_id: str) -> bool:
    stamp = stamps.parse(before.metadata)
    return before.offset != after or stamp is None or stamp.topic_id != topic_id


def _refuse_unmovable(standing: Standing, topics: Collection[str]) -> None:
    positions = [each for each in standing.positions if each.committed is not None]
    if not positions:
        of = f" of {', '.join(sorted(topics))}" if topics else ""
        raise OffsetsError(
            f"group '{standing.group}' has no offsets{of} that this user may see: a new query in "
            "this group begins at its startingOffsets. If the query has run, grant Read on its "
            "topics. Nothing was changed"
        )
    missing = sorted(set(topics) - {each.topic for each in positions})
    if missing:
        raise OffsetsError(
            f"group '{standing.group}' has no offsets of {', '.join(missing)}. Nothing was changed"
        )
    for each in positions:
        place = f"the offset of {each.topic}-{each.partition} in group '{standing.group}'"
        if each.kind == stamps.Kind.NONE.value:
            raise OffsetsError(
                f"{place} is another application's, or a tool has set it. Nothing was changed. "
                "To let a query continue from it, use `eoskafka offsets adopt CHECKPOINT`"
            )
        if each.kind != stamps.Kind.OURS.value:
            raise OffsetsError(
                f"{place} was committed by another version of eoskafka ({each.kind}). Nothing was "
                "changed; use that version"
            )
        if each.scope != stamps.Scope.TASK.value:
            raise OffsetsError(
                f"{place} was committed in {each.scope} scope: the query's checkpoint says where "
                "it continues, and its state belongs to that offset. Nothing was changed. To read "
                "records again, start it with a new checkpoint and kafka.group.id, and with "
                "startingOffsets or startingTimestamp"
            )
    identities = {each.identity for each in positions}
    # A query that shares its group only since its last start has its former stamps on partitions
    # that have had no records since.
    if len(identities - {stamps.shared_identity(standing.group)}) > 1:
        raise OffsetsError(
            f"group '{standing.group}' has offsets of several queries. Nothing was changed. Name "
            "the topics of one of them with --topics"
        )


def _refuse_epochs(
    group: str, chosen: Snapshot, everything: Mapping[TopicPartition, OffsetAndMetadata]
) -> None:
    """Refuse to move some topics of a query that was in epoch scope with others.

    Spark may run a decided epoch again. With other offsets, the epoch would have other input but
    write nothing, so the records that were to be replayed would be skipped.
    """
    identities = {each.identity for each in chosen.committed.values()}
    for partition, each in sorted(everything.items()):
        stamp = stamps.parse(each.metadata)
        if stamp and stamp.identity in identities and stamp.scope is not stamps.Scope.TASK:
            raise OffsetsError(
                f"the same query has committed the offset of {names_of([partition])} in group "
                f"'{group}' in {stamp.scope.value} scope: its checkpoint says where its batch "
                "continues, with all topics. Nothing was changed. To read records again, start it "
                "with a new checkpoint and kafka.group.id, and with startingOffsets or "
                "startingTimestamp"
            )


def _refuse_other_sink(
    group: str, chosen: Snapshot, everything: Mapping[TopicPartition, OffsetAndMetadata]
) -> None:
    """Refuse to move a query whose sink is on another cluster.

    Its start offsets look like those of task scope until its first batch is done. That batch may be
    decided already, on the cluster of the sink, and the group does not know of it.
    """
    identities = {each.identity for each in chosen.committed.values()}
    for partition, each in sorted(everything.items()):
        stamp = stamps.parse(each.metadata)
        if stamp and stamp.identity in identities and stamp.sink_cluster != "-":
            raise OffsetsError(
                f"the offset of {names_of([partition])} in group '{group}' is that of a query whose"
                " sink is on another cluster. Such a query never runs in task scope, and epochs "
                "that it has decided may have taken effect beyond this offset. Nothing was "
                "changed. To read records again, start it with a new checkpoint and "
                "kafka.group.id, and with startingOffsets or startingTimestamp"
            )
