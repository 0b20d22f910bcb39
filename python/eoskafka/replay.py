"""What a topic of dead letters holds, and how its records go back to their topics, once.

A replay is one producer with one transactional id, the name of its group. Each of its transactions
has some records and the group's offsets after them. A replay that was killed has left a transaction
open, which the next one aborts when it initialises the id; a replay that still runs is fenced by
that. So the offsets that are fetched then say which records were replayed.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import OffsetSpec
from kafka.errors import (
    InvalidProducerEpochError,
    KafkaConfigurationError,
    KafkaError,
    MessageSizeTooLargeError,
    ProducerFencedError,
)
from kafka.structs import OffsetAndMetadata

from eoskafka.dead_letters import PREFIX, Origin
from eoskafka.errors import (
    ConfigurationError,
    FencedError,
    OffsetsError,
    RecordError,
    UnreachableError,
)
from eoskafka.groups import Connection, log_offsets, topic_ids

_PORTION = 500
_POLL_MS = 500
_STALL_S = 30.0
# The topic's own limit is to decide.
_MAX_REQUEST_BYTES = 64 << 20


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


def newest(cluster: Connection, topic: str, limit: int) -> tuple[list[DeadLetter], int]:
    """The newest dead letters of a topic, the oldest of them first, and how many there are in all.

    Raises:
        ConfigurationError: there is no such topic.
        UnreachableError: the brokers do not answer.
    """
    with cluster.looking_at(f"topic {topic}"):
        starts, ends = _log(cluster, topic)
        count = 0

        def records() -> Iterator[Any]:
            nonlocal count
            with _consumer(cluster) as consumer:
                for portion in _read(consumer, starts, ends):
                    count += len(portion)
                    yield from portion

        found = heapq.nlargest(limit, records(), lambda r: (r.timestamp, r.partition, r.offset))
    return [_letter(each) for each in reversed(found)], count


def replay(
    cluster: Connection,
    topic: str,
    *,
    group: str,
    to: str = "",
    from_beginning: bool = False,
    replayed: Callable[[int], None] = lambda _: None,
) -> int:
    """Write the dead letters that a group has not replayed yet to their topics, each exactly once.

    A record gets the key, the value and the headers of the source's record. If it goes back to the
    source's topic, it goes to the same partition. Its timestamp is the present time.

    Args:
        cluster: of all the topics.
        topic: of the dead letters.
        group: whose offsets say what was replayed. It is also the transactional id.
        to: another topic for all of them.
        from_beginning: whether partitions without an offset are replayed from their beginning.
        replayed: is told the number of records of each transaction that was committed.

    Returns:
        how many records were written.

    Raises:
        OffsetsError: the group has no offset of a partition, or a wrong one.
        RecordError: a record does not say whence it comes, or its topic refuses it.
        ConfigurationError: there is no such topic, or a record would go to this topic.
        FencedError: another replay has begun with this group.
        UnreachableError: the brokers do not answer. What was committed is replayed; another call
            continues there.
    """
    look = "what was committed stays, and the next replay continues there"
    with cluster.changing(f"the topics of the dead letters in {topic}", look), _fenced(group):
        starts, ends = _log(cluster, topic)
        with _producer(cluster, group) as producer:
            producer.init_transactions()
            with _consumer(cluster, group_id=group) as consumer:
                starts = _starts(consumer, starts, ends, group, from_beginning)
                targets = _Targets(cluster, producer, topic, to)
                written = 0
                for portion in _read(consumer, starts, ends):
                    records = [targets.record(each) for each in portion]
                    after = {TopicPartition(r.topic, r.partition): r.offset + 1 for r in portion}
                    _commit(producer, records, after, group)
                    written += len(records)
                    replayed(len(records))
            # Of all partitions, so that the offsets of none expire before the others'.
            _commit(producer, [], ends, group)
    return written


Offsets = Mapping[TopicPartition, int]


def _log(cluster: Connection, topic: str) -> tuple[Offsets, Offsets]:
    """The first offset of each partition, and the end of what can be read now."""
    with cluster.admin() as admin:
        partitions = topic_ids(admin, [topic])
        if not partitions:
            raise ConfigurationError(
                f"there is no topic {topic} on {cluster.servers}, or this user may not describe it"
            )
        return (
            log_offsets(admin, partitions, OffsetSpec.EARLIEST),
            log_offsets(admin, partitions, OffsetSpec.LATEST, "read_committed"),
        )


def _consumer(cluster: Connection, **more: Any) -> closing[KafkaConsumer]:
    return cluster.consumer(auto_offset_reset="none", max_poll_records=_PORTION, **more)


def _read(consumer: KafkaConsumer, starts: Offsets, ends: Offsets) -> Iterator[list[Any]]:
    """The committed records between these offsets, in portions."""
    unread = [p for p, end in ends.items() if starts[p] < end]
    consumer.assign(unread)
    for partition in unread:
        consumer.seek(partition, starts[partition])
    deadline = time.monotonic() + _STALL_S
    before = -1
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
        if portion or sum(positions.values()) > before:
            before = sum(positions.values())
            deadline = time.monotonic() + _STALL_S
        elif time.monotonic() > deadline:
            raise UnreachableError(
                f"no record for {_STALL_S:g} s, before offset {ends[unread[0]]} of "
                f"{unread[0].topic}-{unread[0].partition}"
            )


def _starts(
    consumer: KafkaConsumer, first: Offsets, ends: Offsets, group: str, from_beginning: bool
) -> Offsets:
    # A stable fetch, because this consumer reads committed records only.
    committed = {p: consumer.committed(p) for p in ends}
    without = sorted(p for p, offset in committed.items() if offset is None and ends[p] > first[p])
    if without and not from_beginning:
        raise OffsetsError(
            f"group {group} has no offset of {without[0].topic}-{without[0].partition}. Either "
            "nothing of it was replayed yet, or the brokers have deleted the offset since "
            "(offsets.retention.minutes). Nothing was replayed. If nothing of it was replayed "
            "before, give --from-beginning"
        )
    for p, offset in committed.items():
        if offset is not None and offset > ends[p]:
            raise OffsetsError(
                f"group {group} has offset {offset} of {p.topic}-{p.partition}, whose log ends at "
                f"{ends[p]}: the topic was deleted and created again. Nothing was replayed. Give "
                "another --group"
            )
    return {p: max(first[p], offset or 0) for p, offset in committed.items()}


class _Targets:
    """Where the records go."""

    def __init__(
        self, cluster: Connection, producer: KafkaProducer, dead_letters: str, to: str
    ) -> None:
        self._cluster = cluster
        self._producer = producer
        self._dead_letters = dead_letters
        self._to = to
        self._partitions: dict[str, int] = {}

    def record(self, found: Any) -> dict[str, Any]:
        """What `KafkaProducer.send` takes."""
        letter = _letter(found)
        place = f"{letter.topic}-{letter.partition}, offset {letter.offset}"
        topic = self._to or letter.source_topic
        if not topic:
            raise RecordError(
                f"{place} has no headers of a dead letter, so its topic is not known. The records "
                "before it were replayed. Give --to for the others"
            )
        if topic == self._dead_letters:
            raise ConfigurationError(
                f"{place} would be written to the topic of the dead letters itself. The records "
                "before it were replayed. Give another topic with --to"
            )
        count = self._count(topic)
        is_there = 0 <= letter.source_partition < count
        return {
            "topic": topic,
            "key": found.key,
            "value": found.value,
            "headers": [h for h in found.headers if not h[0].startswith(PREFIX)],
            "partition": letter.source_partition if is_there and not self._to else None,
        }

    def _count(self, topic: str) -> int:
        if topic not in self._partitions:
            with self._cluster.admin() as admin:
                self._partitions[topic] = len(topic_ids(admin, [topic]))
        if not self._partitions[topic]:
            raise ConfigurationError(
                f"there is no topic {topic}, or this user may not describe it. The records before "
                "those of this topic were replayed. Create it, or give another one with --to"
            )
        return self._partitions[topic]


@contextmanager
def _producer(cluster: Connection, group: str) -> Iterator[KafkaProducer]:
    try:
        producer = KafkaProducer(
            bootstrap_servers=cluster.servers.split(","),
            transactional_id=group,
            max_request_size=_MAX_REQUEST_BYTES,
            **cluster.settings,
        )
    except (KafkaConfigurationError, TypeError, ValueError, AssertionError) as error:
        raise ConfigurationError(f"the client refuses an address or a setting: {error}") from error
    try:
        yield producer
    finally:
        # Aborts what is open, if it still can.
        producer.close(timeout=10)


def _commit(
    producer: KafkaProducer, records: list[dict[str, Any]], after: Offsets, group: str
) -> None:
    producer.begin_transaction()
    try:
        sent = [producer.send(**each) for each in records]
        producer.flush()
        for each, record in zip(sent, records, strict=True):
            try:
                each.get()
            except MessageSizeTooLargeError as error:
                raise RecordError(
                    f"topic {record['topic']} refuses a record as too large. Its transaction was "
                    "aborted, and the ones before it are committed. Raise max.message.bytes of the "
                    "topic, and repeat the command"
                ) from error
        offsets = {p: OffsetAndMetadata(offset, "", -1) for p, offset in after.items()}
        producer.send_offsets_to_transaction(offsets, group)
    except Exception:
        # If it cannot be aborted, the next replay does it.
        with suppress(KafkaError):
            producer.abort_transaction()
        raise
    producer.commit_transaction()


@contextmanager
def _fenced(group: str) -> Iterator[None]:
    try:
        yield
    except (ProducerFencedError, InvalidProducerEpochError) as error:
        raise FencedError(
            f"another replay has begun with group {group}. What this one had committed stays, and "
            "the other one continues there"
        ) from error


def _letter(record: Any) -> DeadLetter:
    origin = Origin.of(record.headers)
    return DeadLetter(
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
