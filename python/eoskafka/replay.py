"""What a topic of dead letters holds, and how its records go back to their topics, once.

A replay is one producer with one transactional id, the name of its group. Each of its transactions
has some records and the group's offsets after them. A replay that was killed has left a transaction
open, which the next one aborts when it initialises the id; a replay that still runs is fenced by
that. So the offsets that are fetched then say which records were replayed, unless a former
coordinator of the group has answered, which may not know of the latest ones. It cannot accept
offsets. So the one that has accepted the first transaction's offsets is asked for the former ones,
before that transaction is committed.
"""

from __future__ import annotations

import heapq
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, OffsetSpec
from kafka.errors import (
    InvalidProducerEpochError,
    KafkaConfigurationError,
    KafkaError,
    MessageSizeTooLargeError,
    ProducerFencedError,
)
from kafka.protocol.metadata import CoordinatorType
from kafka.structs import OffsetAndMetadata

from eoskafka.dead_letters import PREFIX, Origin
from eoskafka.errors import (
    ConfigurationError,
    DataLossError,
    FencedError,
    OffsetsError,
    RecordError,
    UnreachableError,
)
from eoskafka.groups import Connection, log_offsets, offsets_at, topic_ids

_PORTION = 500
_POLL_MS = 500
_STALL_S = 30.0
# The topic's own limit is to decide.
_MAX_REQUEST_BYTES = 64 << 20
_REQUEST_MS = 30_000
# More than a request may take, and again for the transaction: its records fail before it does.
_MARGIN_MS = 15_000
# Before the id of the topic, in the metadata of the group's offsets.
_MARK = "eoskafka-replay:1:"
# In one message.
_NAMED = 20


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
        _, starts, ends = _log(cluster, topic)
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
    accept_loss: bool = False,
    skip: Collection[tuple[int, int]] = (),
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
        accept_loss: whether to go on if dead letters were deleted before they were replayed.
        skip: partitions and offsets of dead letters that are not written, and count as replayed.
        replayed: is told the number of records of each transaction that was committed.

    Returns:
        how many records were written.

    Raises:
        OffsetsError: the group has no offset of a partition, or a wrong one.
        DataLossError: dead letters were deleted before they were replayed.
        RecordError: a record cannot be replayed, or its topic refuses it.
        ConfigurationError: there is no such topic, or `to` is this topic.
        FencedError: another replay has begun with this group, or a transaction took too long.
        UnreachableError: the brokers do not answer. What was committed is replayed; another call
            continues there.
    """
    if to == topic:
        raise ConfigurationError(
            f"--to names the topic of the dead letters itself, {topic}. Nothing was replayed. Give "
            "another topic"
        )
    look = "what was committed stays, and the next replay continues there"
    with (
        cluster.changing(f"the topics of the dead letters in {topic}", look),
        _fenced(cluster, group),
    ):
        with cluster.admin() as admin:
            # Before the id is initialised, which fences another replay.
            _ids(cluster, admin, topic)
        with _producer(cluster, group) as producer:
            producer.init_transactions()
            # Not before: another replay may have gone beyond these ends until now.
            ids, first, ends = _log(cluster, topic)
            with _consumer(cluster, group_id=group) as consumer:
                committed = _committed(consumer, ends)
                starts = _starts(committed, ids, first, ends, group, from_beginning, accept_loss)
                targets = _Targets(cluster, topic, to)
                _require_replayable(consumer, targets, first, starts, ends, skip)
                confirmation = _Confirmation(cluster, group, committed, ends)
                written = 0
                for portion in _read(consumer, starts, ends):
                    records = {
                        _name(r): targets.record(r)
                        for r in portion
                        if (r.partition, r.offset) not in skip
                    }
                    after = {TopicPartition(r.topic, r.partition): r.offset + 1 for r in portion}
                    _commit(producer, records, _marked(after, ids), group, confirmation)
                    written += len(records)
                    replayed(len(records))
            # Of all partitions, so that the offsets of none expire before the others'.
            _commit(producer, {}, _marked(ends, ids), group, confirmation)
    return written


Offsets = Mapping[TopicPartition, int]
Committed = Mapping[TopicPartition, OffsetAndMetadata]


def _ids(cluster: Connection, admin: KafkaAdminClient, topic: str) -> Mapping[TopicPartition, str]:
    """The partitions of a topic, with its id."""
    found = topic_ids(admin, [topic])
    if not found:
        raise ConfigurationError(
            f"there is no topic {topic} on {cluster.servers}, or this user may not describe it"
        )
    return found


def _log(cluster: Connection, topic: str) -> tuple[Mapping[TopicPartition, str], Offsets, Offsets]:
    """The id, the first offset of each partition, and the end of what can be read now."""
    with cluster.admin() as admin:
        ids = _ids(cluster, admin, topic)
        return (
            ids,
            log_offsets(admin, ids, OffsetSpec.EARLIEST),
            log_offsets(admin, ids, OffsetSpec.LATEST, "read_committed"),
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


def _committed(consumer: KafkaConsumer, partitions: Collection[TopicPartition]) -> Committed:
    # A stable fetch, because this consumer reads committed records only.
    found = {p: consumer.committed(p, metadata=True) for p in partitions}
    return {p: each for p, each in found.items() if each is not None}


def _marked(offsets: Offsets, ids: Mapping[TopicPartition, str]) -> Committed:
    return {p: OffsetAndMetadata(offset, _MARK + ids[p], -1) for p, offset in offsets.items()}


def _starts(
    committed: Committed,
    ids: Mapping[TopicPartition, str],
    first: Offsets,
    ends: Offsets,
    group: str,
    from_beginning: bool,
    accept_loss: bool,
) -> Offsets:
    for p, (offset, metadata, _) in sorted(committed.items()):
        has = f"group {group} has offset {offset} of {p.topic}-{p.partition}"
        if not (metadata or "").startswith(_MARK):
            raise OffsetsError(
                f"{has}, which no replay has committed (its metadata is {metadata!r}). Nothing was "
                "replayed. Give a --group that nothing else uses"
            )
        if metadata != _MARK + ids[p]:
            raise OffsetsError(
                f"{has} as it was before the topic was deleted and created again. Nothing was "
                "replayed. Give another --group"
            )
        if offset > ends[p]:
            raise OffsetsError(
                f"{has}, and the broker says that its log ends at {ends[p]}: the broker may be "
                "behind. Nothing was replayed. Repeat the command in a minute"
            )
    without = sorted(p for p in ends if p not in committed and ends[p] > first[p])
    if without and not from_beginning:
        raise OffsetsError(
            f"group {group} has no offset of {without[0].topic}-{without[0].partition}. Either "
            "nothing of it was replayed yet, or the brokers have deleted the offset since "
            "(offsets.retention.minutes). Nothing was replayed. If nothing of it was replayed "
            "before, give --from-beginning"
        )
    lost = {p: first[p] - each.offset for p, each in committed.items() if each.offset < first[p]}
    if lost and not accept_loss:
        p = min(lost)
        raise DataLossError(
            f"up to {sum(lost.values()):,} dead letters were deleted before group {group} has "
            f"replayed them: it has offset {committed[p].offset} of {p.topic}-{p.partition}, whose "
            f"log begins at {first[p]} (retention.ms, retention.bytes). Nothing was replayed. To "
            "replay the others, give --accept-loss"
        )
    return {p: max(first[p], committed[p].offset if p in committed else 0) for p in ends}


class _Confirmation:
    """Asks the coordinator that accepts offsets for the former ones, before the first commit."""

    def __init__(
        self,
        cluster: Connection,
        group: str,
        committed: Committed,
        partitions: Collection[TopicPartition],
    ) -> None:
        self._cluster = cluster
        self._group = group
        self._committed = committed
        self._partitions = partitions
        self._is_due = True

    def require(self, producer: KafkaProducer) -> None:
        """Call it when the offsets of the transaction were accepted.

        Raises:
            OffsetsError: the offsets from which this replay began are not the group's.
        """
        if not self._is_due:
            return
        # Its id has a prefix, for a connection of its own.
        node = producer._transaction_manager.coordinator(CoordinatorType.GROUP)
        broker = int(str(node).removeprefix("coordinator-"))
        with self._cluster.admin() as admin:
            now = offsets_at(admin, broker, self._group, self._partitions)
        for p in sorted(self._partitions):
            one, other = self._committed.get(p), now.get(p)
            if (one and one[:2]) != (other and other[:2]):
                raise OffsetsError(
                    f"group {self._group} has offset {other.offset if other else None} of "
                    f"{p.topic}-{p.partition}, and this replay began at offset "
                    f"{one.offset if one else None}, which a former coordinator has told it. "
                    "Nothing was replayed. Repeat the command in a minute"
                )
        # From now on nobody else can commit without fencing this producer.
        self._is_due = False


class _Targets:
    """Where the records go."""

    def __init__(self, cluster: Connection, dead_letters: str, to: str) -> None:
        self._cluster = cluster
        self._dead_letters = dead_letters
        self._to = to
        self._partitions: dict[str, int] = {}

    def problem(self, found: Any) -> str:
        """Why this record cannot be written; empty if it can."""
        topic = self._to or Origin.of(found.headers).topic
        if not topic:
            return (
                "it has no headers of a dead letter, so its topic is not known (--to would name "
                "one for all dead letters)"
            )
        if topic == self._dead_letters:
            return "it would be written to the topic of the dead letters itself"
        if found.key is None and found.value is None:
            return "it has neither a key nor a value, and this client cannot write such a record"
        for name, value in _headers(found):
            if value is None:
                return f"its header {name!r} is null, and this client cannot write such a header"
        return ""

    def record(self, found: Any) -> dict[str, Any]:
        """What `KafkaProducer.send` takes."""
        origin = Origin.of(found.headers)
        topic = self._to or origin.topic
        count = self._count(topic)
        is_there = 0 <= origin.partition < count
        return {
            "topic": topic,
            "key": found.key,
            "value": found.value,
            "headers": _headers(found),
            "partition": origin.partition if is_there and not self._to else None,
        }

    def _count(self, topic: str) -> int:
        if topic not in self._partitions:
            with self._cluster.admin() as admin:
                self._partitions[topic] = len(topic_ids(admin, [topic]))
        if not self._partitions[topic]:
            raise ConfigurationError(
                f"there is no topic {topic}, or this user may not describe it. Nothing was "
                "replayed. Create it, or give another one with --to"
            )
        return self._partitions[topic]


def _headers(found: Any) -> list[tuple[str, bytes | None]]:
    """Those of the source's record."""
    return [h for h in found.headers if not h[0].startswith(PREFIX)]


def _name(found: Any) -> str:
    return f"{found.partition}:{found.offset}"


def _require_replayable(
    consumer: KafkaConsumer,
    targets: _Targets,
    first: Offsets,
    starts: Offsets,
    ends: Offsets,
    skip: Collection[tuple[int, int]],
) -> None:
    """Look at all records before the first one is written.

    Raises:
        RecordError: one of them cannot be written, or would be written twice.
    """
    # By the topic and the partition of the source: offsets and timestamps. A topic that was
    # deleted and created again has the same offsets.
    sources: dict[tuple[str, int], set[tuple[int, int]]] = defaultdict(set)
    wrong: dict[str, str] = {}

    def is_repeated(origin: Origin) -> bool:
        if origin.offset < 0:
            return False
        known = sources[origin.topic, origin.partition]
        count = len(known)
        known.add((origin.offset, origin.timestamp_ms))
        return len(known) == count

    for portion in _read(consumer, first, starts):
        for found in portion:
            is_repeated(Origin.of(found.headers))
    for portion in _read(consumer, starts, ends):
        for found in portion:
            if (found.partition, found.offset) in skip:
                continue
            origin = Origin.of(found.headers)
            if problem := targets.problem(found):
                wrong[_name(found)] = problem
            elif is_repeated(origin):
                wrong[_name(found)] = (
                    f"another dead letter has the same record, {origin.topic}-{origin.partition}, "
                    f"offset {origin.offset}, which would be written twice. Several queries write "
                    "to this topic, or a query has made several rows of one record"
                )
            else:
                # Now, because this names a topic that is missing.
                targets.record(found)
    if wrong:
        name, problem = next(iter(wrong.items()))
        listed = " ".join(f"--skip {each}" for each in [*wrong][:_NAMED])
        more = len(wrong) - _NAMED
        raise RecordError(
            f"{len(wrong):,} of the dead letters cannot be replayed, the first one of them that at "
            f"PARTITION:OFFSET {name}: {problem}. Nothing was replayed. To replay the others and "
            f"leave out what cannot be replayed, add {listed}"
            + (f" (and so on: the next attempt names {more:,} more)" if more > 0 else "")
        )


@contextmanager
def _producer(cluster: Connection, group: str) -> Iterator[KafkaProducer]:
    try:
        producer = KafkaProducer(
            bootstrap_servers=cluster.servers.split(","),
            transactional_id=group,
            max_request_size=_MAX_REQUEST_BYTES,
            transaction_timeout_ms=_transaction_ms(cluster),
            delivery_timeout_ms=_transaction_ms(cluster) - _MARGIN_MS,
            **cluster.settings,
        )
    except (KafkaConfigurationError, TypeError, ValueError, AssertionError) as error:
        raise ConfigurationError(f"the client refuses an address or a setting: {error}") from error
    try:
        yield producer
    finally:
        # Aborts what is open, if it still can.
        producer.close(timeout=10)


def _transaction_ms(cluster: Connection) -> int:
    return int(cluster.settings.get("request_timeout_ms", _REQUEST_MS)) + 2 * _MARGIN_MS


def _commit(
    producer: KafkaProducer,
    records: Mapping[str, dict[str, Any]],
    after: Committed,
    group: str,
    confirmation: _Confirmation,
) -> None:
    producer.begin_transaction()
    try:
        sent = [producer.send(**each) for each in records.values()]
        producer.flush()
        for each, (name, record) in zip(sent, records.items(), strict=True):
            try:
                each.get()
            except MessageSizeTooLargeError as error:
                raise RecordError(
                    f"topic {record['topic']} refuses the dead letter at PARTITION:OFFSET {name} "
                    "as too large. Its transaction was aborted, and the ones before it are "
                    "committed. Raise max.message.bytes of the topic, and repeat the command; or "
                    f"leave this dead letter out with --skip {name}"
                ) from error
        producer.send_offsets_to_transaction(after, group)
        confirmation.require(producer)
    except Exception:
        # If it cannot be aborted, the next replay does it.
        with suppress(KafkaError):
            producer.abort_transaction()
        raise
    producer.commit_transaction()


@contextmanager
def _fenced(cluster: Connection, group: str) -> Iterator[None]:
    try:
        yield
    except (ProducerFencedError, InvalidProducerEpochError) as error:
        raise FencedError(
            f"another replay has begun with group {group}, or a transaction took longer than "
            f"{_transaction_ms(cluster) / 1_000:g} s. What this replay had committed stays. If no "
            "other one runs, repeat the command: it continues there"
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
