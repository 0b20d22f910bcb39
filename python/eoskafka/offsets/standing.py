"""Where a group stands: its offsets, its members, and what may still change its offsets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient, OffsetSpec
from kafka.errors import TopicAuthorizationFailedError
from kafka.structs import OffsetAndMetadata

from eoskafka import stamps
from eoskafka.brokers.agreement import WAY_OUT, disagreement_on_ids
from eoskafka.brokers.connection import Connection
from eoskafka.brokers.groups import committed, members, pending
from eoskafka.brokers.topics import log_offsets, topic_ids
from eoskafka.brokers.transactions import open_transactions
from eoskafka.errors import OffsetsError
from eoskafka.offsets.model import Position, Standing, State


def show(
    bootstrap_servers: str,
    group: str,
    topics: Collection[str] = (),
    client: Mapping[str, Any] | None = None,
) -> Standing:
    """Say where a group stands. Changes nothing.

    Args:
        bootstrap_servers: of the source's cluster, `host:port,...`.
        group: the query's `kafka.group.id`.
        topics: those to look at; none for all that the group has an offset of.
        client: further settings of kafka-python's clients.

    Raises:
        UnreachableError: the cluster does not answer, or not to this user.
    """
    cluster = Connection(bootstrap_servers, client or {})
    with cluster.looking_at(f"group '{group}'"):
        return snapshot(cluster, group, topics).standing


def groups(bootstrap_servers: str, client: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """The groups of a cluster that have offsets of eoskafka.

    Raises:
        UnreachableError: the cluster does not answer, or not to this user.
    """
    cluster = Connection(bootstrap_servers, client or {})
    with cluster.looking_at("the groups"):
        with cluster.admin() as admin:
            names = sorted(found["group_id"] for found in admin.list_groups())
        return tuple(
            name
            for name in names
            if any(stamps.parse(each.metadata) for each in committed(cluster, name).values())
        )


@dataclass(frozen=True)
class Snapshot:
    """A group's standing, and what it was made of.

    Attributes:
        standing: what `show` returns.
        offsets: the committed offsets, with their metadata.
        topic_ids: the topic's id for each partition that exists, in the form that stamps have.
    """

    standing: Standing
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    topic_ids: Mapping[TopicPartition, str]

    @property
    def positions(self) -> dict[TopicPartition, Position]:
        """The positions by partition."""
        return {
            TopicPartition(each.topic, each.partition): each for each in self.standing.positions
        }

    @property
    def committed(self) -> dict[TopicPartition, Position]:
        """The positions of partitions that the group has an offset of."""
        return {p: each for p, each in self.positions.items() if each.committed is not None}


def snapshot(
    cluster: Connection, group: str, topics: Collection[str], also: Collection[str] = ()
) -> Snapshot:
    """Look at a group.

    Args:
        topics: the topics to look at; none for all that the group has an offset of.
        also: further topics, which the group may have no offset of.
    """
    # The members come first: once the group is empty, brokers refuse its members' transactions any
    # further offset. The offsets come last: a transaction that ends before that changes them.
    group_members = members(cluster, group)
    holders = _holders(cluster, group)
    offsets = _committed(cluster, group, {*topics, *also} if topics else ())
    with cluster.admin() as admin:
        ids = topic_ids(admin, {*(topics or {p.topic for p in offsets}), *also})
        partitions = sorted({*ids, *offsets})
        log = LogOffsets(admin, [partition for partition in partitions if partition in ids])
    # A partition without an offset is asked for too: a transaction may hold its first one.
    is_open = pending(cluster, group, partitions)
    later = committed(cluster, group)
    offsets = {each: later[each] for each in partitions if each in later}
    parsed = [stamps.parse(each.metadata) for each in offsets.values()]
    identities = {stamp.identity for stamp in parsed if stamp}
    shared = stamps.shared_identity(group) in identities
    standing = Standing(
        group,
        "shared" if shared else "exclusive" if identities else "",
        group_members,
        holders if is_open else (),
        tuple(_position(p, offsets.get(p), p in is_open, ids.get(p, ""), log) for p in partitions),
    )
    return Snapshot(standing, offsets, ids)


def require_agreed_ids(cluster: Connection, group: Snapshot) -> None:
    """Refuse ids of topics that are not those which all connected brokers name.

    Raises:
        OffsetsError: a connected broker names others, or does not answer.
    """
    topics = {partition.topic for partition in (*group.positions, *group.topic_ids)}
    if problem := disagreement_on_ids(cluster, group.topic_ids, topics):
        raise OffsetsError(
            f"it is not known which ids the topics of group '{group.standing.group}' have: "
            f"{problem}. With a wrong id in its offsets, the query could read the topic twice. "
            f"Nothing was changed. {WAY_OUT}"
        )


def _holders(cluster: Connection, group: str) -> tuple[str, ...]:
    """The transactions that may hold offsets of the group; none if this user may not know.

    Messages name them. Whether an offset is pending does not depend on them.
    """
    try:
        with cluster.admin() as admin:
            return open_transactions(cluster, admin, group)
    except TopicAuthorizationFailedError:
        return ()


def _committed(
    cluster: Connection, group: str, topics: Collection[str]
) -> dict[TopicPartition, OffsetAndMetadata]:
    """The group's offsets of these topics; of all topics if there are none."""
    return {
        partition: offset
        for partition, offset in committed(cluster, group).items()
        if not topics or partition.topic in topics
    }


class LogOffsets:
    """Where the logs of these partitions begin and end.

    Attributes:
        start: the first offset of each partition.
        stable: its last stable offset.
        end: the offset after its last record, those of open transactions included.
    """

    def __init__(self, admin: KafkaAdminClient, partitions: Sequence[TopicPartition]) -> None:
        self.start = log_offsets(admin, partitions, OffsetSpec.EARLIEST)
        self.stable = log_offsets(admin, partitions, OffsetSpec.LATEST, "read_committed")
        self.end = log_offsets(admin, partitions, OffsetSpec.LATEST)


def _position(
    partition: TopicPartition,
    offset: OffsetAndMetadata | None,
    is_pending: bool,
    topic_id: str,
    log: LogOffsets,
) -> Position:
    stamp = stamps.parse(offset.metadata) if offset else None
    end = log.stable.get(partition, 0)
    return Position(
        topic=partition.topic,
        partition=partition.partition,
        committed=offset.offset if offset else None,
        state=State.PENDING if is_pending else State.STABLE if offset else State.NONE,
        kind=stamps.kind_of(offset.metadata).value if offset else "",
        scope=stamp.scope.value if stamp else "",
        identity=stamp.identity if stamp else "",
        epoch=stamp.epoch if stamp else None,
        is_same_topic=stamp is None or stamp.topic_id == topic_id,
        log_start=log.start.get(partition, 0),
        end=end,
        open_records=log.end.get(partition, end) - end,
        lag=max(0, end - offset.offset) if offset and partition in log.stable else None,
    )
