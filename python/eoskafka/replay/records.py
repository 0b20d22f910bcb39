"""The records of a topic of dead letters: which offsets it has, and what each record says."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeAlias

from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient, OffsetSpec

from eoskafka.brokers.connection import Connection
from eoskafka.brokers.topics import log_offsets, topic_ids
from eoskafka.dead_letters import PREFIX, Origin
from eoskafka.errors import ConfigurationError, UnreachableError

# At most so many are read at once, and replayed in one transaction.
_PORTION = 500
_POLL_MS = 500
_STALL_S = 30.0

Offsets: TypeAlias = "Mapping[TopicPartition, int]"
TopicIds: TypeAlias = "Mapping[TopicPartition, str]"


@dataclass(frozen=True)
class DeadLetter:
    """One record of a topic of dead letters.

    Attributes:
        topic: of the dead letter.
        partition: of the dead letter.
        offset: of the dead letter.
        written_ms: when it was written, in milliseconds since 1970.
        reason: why the row was wrong.
        query: the name that the query gave; empty if it gave none.
        source_topic: the topic of the source's record; empty if the headers do not say.
        source_partition: its partition; -1 if the headers do not say.
        source_offset: its offset; -1 if the headers do not say.
        source_timestamp_ms: its timestamp; -1 if the headers do not say.
        key: its key as text; None if it has none.
    """

    topic: str
    partition: int
    offset: int
    written_ms: int
    reason: str
    query: str
    source_topic: str
    source_partition: int
    source_offset: int
    source_timestamp_ms: int
    key: str | None

    @classmethod
    def of(cls, record: Any) -> DeadLetter:
        """What a record of kafka-python says."""
        origin = Origin.of(record.headers)
        return cls(
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            written_ms=record.timestamp,
            reason=origin.reason,
            query=origin.query,
            source_topic=origin.topic,
            source_partition=origin.partition,
            source_offset=origin.offset,
            source_timestamp_ms=origin.timestamp_ms,
            key=None if record.key is None else record.key.decode(errors="backslashreplace"),
        )


def newest(cluster: Connection, topic: str, limit: int) -> tuple[list[DeadLetter], int]:
    """The newest dead letters of a topic, the oldest of them first, and how many there are in all.

    Raises:
        ConfigurationError: there is no such topic.
        UnreachableError: the brokers do not answer.
    """
    with cluster.looking_at(f"topic {topic}"):
        log = TopicLog.of(cluster, topic)
        count = 0

        def records() -> Iterator[Any]:
            nonlocal count
            with reader(cluster) as consumer:
                for portion in read(consumer, log.starts, log.ends):
                    count += len(portion)
                    yield from portion

        latest = heapq.nlargest(limit, records(), lambda r: (r.timestamp, r.partition, r.offset))
    return [DeadLetter.of(record) for record in reversed(latest)], count


@dataclass(frozen=True)
class TopicLog:
    """What a topic had when it was looked at.

    Attributes:
        ids: the id of the topic, by partition.
        starts: the first offset of each partition.
        ends: the end of what could be read with isolation.level=read_committed.
    """

    ids: TopicIds
    starts: Offsets
    ends: Offsets

    @classmethod
    def of(cls, cluster: Connection, topic: str) -> TopicLog:
        """Of this topic, now.

        Raises:
            ConfigurationError: there is no such topic.
        """
        with cluster.admin() as admin:
            ids = partition_ids(cluster, admin, topic)
            return cls(
                ids,
                log_offsets(admin, ids, OffsetSpec.EARLIEST),
                log_offsets(admin, ids, OffsetSpec.LATEST, "read_committed"),
            )


def partition_ids(cluster: Connection, admin: KafkaAdminClient, topic: str) -> TopicIds:
    """The partitions of a topic, each with the topic's id.

    Raises:
        ConfigurationError: there is no such topic.
    """
    ids = topic_ids(admin, [topic])
    if not ids:
        raise ConfigurationError(
            f"there is no topic {topic} on {cluster.servers}, or this user may not describe it"
        )
    return ids


def reader(cluster: Connection, **more: Any) -> closing[KafkaConsumer]:
    """A consumer for `read`, with further settings."""
    return cluster.consumer(auto_offset_reset="none", max_poll_records=_PORTION, **more)


def read(consumer: KafkaConsumer, starts: Offsets, ends: Offsets) -> Iterator[list[Any]]:
    """The committed records between these offsets, in portions."""
    unread = [p for p, end in ends.items() if starts[p] < end]
    consumer.assign(unread)
    for partition in unread:
        consumer.seek(partition, starts[partition])
    deadline = time.monotonic() + _STALL_S
    read_until = -1
    while unread:
        portion = [
            record
            for partition, records in consumer.poll(_POLL_MS).items()
            for record in records
            if record.offset < ends[partition]
        ]
        if portion:
            yield portion
        # Aborted records and control records have offsets too, and are not handed out.
        positions = {p: consumer.position(p) for p in consumer.assignment()}
        unread = [p for p in unread if positions[p] < ends[p]]
        if portion or sum(positions.values()) > read_until:
            read_until = sum(positions.values())
            deadline = time.monotonic() + _STALL_S
        elif time.monotonic() > deadline:
            raise UnreachableError(
                f"no record for {_STALL_S:g} s, before offset {ends[unread[0]]} of "
                f"{unread[0].topic}-{unread[0].partition}"
            )


def place(record: Any) -> str:
    """Where a dead letter is, as the option --skip takes it: PARTITION:OFFSET."""
    return f"{record.partition}:{record.offset}"


def source_headers(record: Any) -> list[tuple[str, bytes | None]]:
    """The headers of the source's record: those that do not make it a dead letter."""
    return [header for header in record.headers if not header[0].startswith(PREFIX)]
