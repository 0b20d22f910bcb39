"""Reads a topic as a `read_committed` consumer sees it, from its beginning to a fixed end.

The end is the last stable offset when the brokers are asked. If an open transaction keeps it below
the high watermark, some hidden records may still be committed or aborted. The outcome is then
unknown: the reader raises an `UndecidedError`, and there is no verdict.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import NamedTuple

from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient, OffsetSpec
from kafka.errors import KafkaError
from kafka.protocol.consumer import IsolationLevel

from eoskafka.errors import EosKafkaError

# A transaction ends within its timeout at the latest, but a proof should not wait a minute for a
# crashed producer. It reports the open transactions instead.
STABLE_TIMEOUT_S = 10.0
# Between two polls that bring anything; a broker that recovers its log needs some seconds.
STALL_TIMEOUT_S = 30.0

_REQUEST_TIMEOUT_MS = 10_000
_POLL_MS = 500
# Large fetches: kafka-python's cost is per request and per record, not per byte.
_MAX_POLL_RECORDS = 20_000
_PARTITION_FETCH_BYTES = 8 * 1024 * 1024


class UndecidedError(EosKafkaError):
    """What the topics hold cannot be decided now: unreachable, or hidden by an open transaction."""


class Record(NamedTuple):
    """A record and its place in its topic."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


def read_committed(
    bootstrap_servers: str,
    topic: str,
    *,
    stable_timeout_s: float = STABLE_TIMEOUT_S,
    stall_timeout_s: float = STALL_TIMEOUT_S,
) -> Iterator[Record]:
    """Yield all committed records of all partitions, in offset order within each partition.

    Args:
        bootstrap_servers: `host:port,...`.
        topic: its name; it must exist.
        stable_timeout_s: how long open transactions may take to end, in seconds.
        stall_timeout_s: the longest time without a new record or a new position, in seconds.

    Raises:
        UndecidedError: an open transaction hides records, the brokers do not answer, or reading
            stalls.
    """
    try:
        ends = stable_ends(bootstrap_servers, topic, stable_timeout_s)
        yield from _read(bootstrap_servers, ends, stall_timeout_s)
    except KafkaError as error:
        raise UndecidedError(
            f"topic {topic} cannot be read from {bootstrap_servers}: "
            f"{type(error).__name__}: {error}"
        ) from error


def _read(
    bootstrap_servers: str, ends: Mapping[TopicPartition, int], stall_timeout_s: float
) -> Iterator[Record]:
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap_servers,
        isolation_level="read_committed",
        enable_auto_commit=False,
        max_partition_fetch_bytes=_PARTITION_FETCH_BYTES,
        request_timeout_ms=_REQUEST_TIMEOUT_MS,
        bootstrap_timeout_ms=_REQUEST_TIMEOUT_MS,
        # In Python the checksum costs two thirds of the time, and every value is compared anyway.
        check_crcs=False,
    )
    with closing(consumer):
        consumer.assign(list(ends))
        consumer.seek_to_beginning(*ends)
        unread = {partition for partition, end in ends.items() if end > 0}
        before = -1
        deadline = time.monotonic() + stall_timeout_s
        while unread:
            for partition, records in consumer.poll(_POLL_MS, _MAX_POLL_RECORDS).items():
                for r in records:
                    if r.offset < ends[partition]:
                        yield Record(r.partition, r.offset, r.key, r.value)
            # Positions, not the last record's offset: aborted records and transaction markers at
            # the end of a partition are passed over without being handed out.
            positions = {partition: consumer.position(partition) for partition in ends}
            unread = {p for p in unread if positions[p] < ends[p]}
            if sum(positions.values()) > before:
                before = sum(positions.values())
                deadline = time.monotonic() + stall_timeout_s
            elif unread and time.monotonic() > deadline:
                waiting = ", ".join(
                    f"{p.topic}-{p.partition} at {positions[p]} of {ends[p]}"
                    for p in sorted(unread)
                )
                raise UndecidedError(f"reading stalled for {stall_timeout_s:g} s: {waiting}")


def stable_ends(bootstrap_servers: str, topic: str, timeout_s: float) -> dict[TopicPartition, int]:
    """Wait until no open transaction hides records; the end of each partition.

    Raises UndecidedError after `timeout_s` seconds, and KafkaError if the brokers do not answer.
    """
    admin = KafkaAdminClient(
        bootstrap_servers=bootstrap_servers,
        request_timeout_ms=_REQUEST_TIMEOUT_MS,
        bootstrap_timeout_ms=_REQUEST_TIMEOUT_MS,
    )
    with closing(admin):
        partitions = _partitions(admin, topic)
        deadline = time.monotonic() + timeout_s
        while True:
            # In this order: a record written in between is then seen as hidden, never missed.
            stable = _latest(admin, partitions, IsolationLevel.READ_COMMITTED)
            written = _latest(admin, partitions, IsolationLevel.READ_UNCOMMITTED)
            hidden = {p: (stable[p], written[p]) for p in partitions if stable[p] < written[p]}
            if not hidden:
                return stable
            if time.monotonic() > deadline:
                raise UndecidedError(describe_hidden(admin, hidden, timeout_s))
            time.sleep(0.1)


def _partitions(admin: KafkaAdminClient, topic: str) -> list[TopicPartition]:
    (description,) = admin.describe_topics([topic])
    if description["error_code"] != 0:
        raise UndecidedError(
            f"topic {topic} cannot be described (Kafka's error code {description['error_code']}): "
            "does it exist?"
        )
    return [TopicPartition(topic, p["partition_index"]) for p in description["partitions"]]


def _latest(
    admin: KafkaAdminClient, partitions: list[TopicPartition], isolation: IsolationLevel
) -> dict[TopicPartition, int]:
    found = admin.list_partition_offsets(
        dict.fromkeys(partitions, OffsetSpec.LATEST), isolation_level=isolation
    )
    return {partition: found[partition].offset for partition in partitions}


def describe_hidden(
    admin: KafkaAdminClient, hidden: Mapping[TopicPartition, tuple[int, int]], waited_s: float
) -> str:
    """Which records are hidden, from the stable offset to the end, and by whom."""
    places = "; ".join(
        f"{p.topic}-{p.partition} from offset {stable} to {end - 1}"
        for p, (stable, end) in sorted(hidden.items())
    )
    listed = admin.list_transactions(state_filters=["Ongoing", "PrepareCommit", "PrepareAbort"])
    ids = [t.transactional_id for transactions in listed.values() for t in transactions]
    open_over = sorted(
        f"{name} (producer {t.producer_id}, epoch {t.producer_epoch}, "
        f"timeout {t.transaction_timeout_ms} ms)"
        for name, t in admin.describe_transactions(ids).items()
        if not hidden.keys().isdisjoint(t.topic_partitions)
    )
    return (
        f"after {waited_s:g} s an open transaction still hides records in {places}. "
        f"Open transactions: {', '.join(open_over) or 'none that the coordinators know'}. "
        "Repeat the command when they have ended."
    )
