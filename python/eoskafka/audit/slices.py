"""Which records of a topic a proof is about, and a fast reader of them (librdkafka)."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Place
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient, OffsetSpec

from eoskafka.audit.reader import STALL_TIMEOUT_S, UndecidedError, describe_hidden
from eoskafka.errors import ConfigurationError
from eoskafka.groups import Connection, committed, log_offsets, offset_json, topic_ids

_PORTION = 20_000
_POLL_S = 0.5
# What kafka-python and librdkafka call by other names.
_NAMES = {
    "sasl_mechanism": "sasl.mechanism",
    "sasl_plain_username": "sasl.username",
    "sasl_plain_password": "sasl.password",
    "security_protocol": "security.protocol",
    "ssl_cafile": "ssl.ca.location",
    "ssl_certfile": "ssl.certificate.location",
    "ssl_keyfile": "ssl.key.location",
    "ssl_password": "ssl.key.password",
    "client_id": "client.id",
}


@dataclass(frozen=True)
class Slice:
    """Records of one partition.

    Attributes:
        partition: where.
        start: the first offset.
        end: the offset after the last one.
    """

    partition: TopicPartition
    start: int
    end: int


def input_slices(
    cluster: Connection, topics: Collection[str], group: str, starts: Mapping[TopicPartition, int]
) -> tuple[list[Slice], list[Slice]]:
    """What a query must have done, and what it may have done since.

    Args:
        cluster: of the topics.
        topics: the query's input.
        group: whose offsets say how far it has got; empty where it must have done everything.
        starts: where it has begun; else where the log begins.

    Returns:
        the part before the group's offsets, and the part from there to the last stable offset,
        which is empty without a group.

    Raises:
        UndecidedError: a topic or a start is gone, or the group has no offsets there.
        UnreachableError: the brokers do not answer.
    """
    with cluster.looking_at("the input"):
        with cluster.admin() as admin:
            partitions = _partitions(admin, topics)
            stable = log_offsets(admin, partitions, OffsetSpec.LATEST, "read_committed")
            begins = _begins(admin, partitions, starts)
        if not group:
            return [Slice(p, begins[p], stable[p]) for p in partitions], []
        # Those of open transactions are not among them: their input may come out, or not.
        reached = {p: each.offset for p, each in committed(cluster, group).items()}
    if not reached.keys() & set(partitions):
        raise UndecidedError(f"group {group} has no offsets of {', '.join(sorted(topics))}")
    must, may = [], []
    for partition in partitions:
        begin = begins[partition]
        upto = max(begin, reached.get(partition, begin))
        must.append(Slice(partition, begin, upto))
        may.append(Slice(partition, upto, max(upto, stable[partition])))
    return must, may


def output_slices(
    cluster: Connection,
    topics: Collection[str],
    starts: Mapping[TopicPartition, int],
    wait_s: float,
) -> list[Slice]:
    """What `read_committed` consumers see, once nothing that is there now is hidden from them.

    Raises:
        UndecidedError: a topic or a start is gone, or a transaction has been open all the time.
        UnreachableError: the brokers do not answer.
    """
    with cluster.looking_at("the output"), cluster.admin() as admin:
        partitions = _partitions(admin, topics)
        begins = _begins(admin, partitions, starts)
        written = log_offsets(admin, partitions, OffsetSpec.LATEST)
        deadline = time.monotonic() + wait_s
        while True:
            stable = log_offsets(admin, partitions, OffsetSpec.LATEST, "read_committed")
            hidden = {p: (stable[p], written[p]) for p in partitions if stable[p] < written[p]}
            if not hidden:
                return [Slice(p, begins[p], max(begins[p], stable[p])) for p in partitions]
            if time.monotonic() > deadline:
                raise UndecidedError(describe_hidden(admin, hidden, wait_s))
            time.sleep(0.1)


def _partitions(admin: KafkaAdminClient, topics: Collection[str]) -> list[TopicPartition]:
    found = sorted(topic_ids(admin, topics))
    for topic in topics:
        if not any(partition.topic == topic for partition in found):
            raise UndecidedError(f"there is no topic {topic}")
    return found


def _begins(
    admin: KafkaAdminClient,
    partitions: list[TopicPartition],
    starts: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    for partition in starts:
        if partition not in partitions:
            raise ConfigurationError(f"a start is given for {partition}, which is not there")
    begins = log_offsets(admin, partitions, OffsetSpec.EARLIEST)
    gone = {p: start for p, start in starts.items() if start < begins[p]}
    if gone:
        raise UndecidedError(
            f"records from {offset_json(gone)} on are gone: the logs begin at "
            f"{offset_json({p: begins[p] for p in gone})}"
        )
    return {**begins, **starts}


def read(
    cluster: Connection, slices: Collection[Slice], take: Callable[[list[Message]], None]
) -> None:
    """Hand over the committed records of these slices, in portions.

    Within a partition they come in their order.

    Raises:
        UndecidedError: they cannot be read, or reading stalls.
    """
    ends = {
        (each.partition.topic, each.partition.partition): each.end
        for each in slices
        if each.start < each.end
    }
    try:
        consumer = Consumer(_settings(cluster))
    except KafkaException as error:
        raise ConfigurationError(f"librdkafka refuses a setting: {error}") from error
    try:
        consumer.assign([Place(*_key(s), s.start) for s in slices if _key(s) in ends])
        deadline = time.monotonic() + STALL_TIMEOUT_S
        while ends:
            messages = consumer.consume(_PORTION, _POLL_S)
            found = list(_within(messages, ends, consumer))
            if found:
                take(found)
            if messages:
                deadline = time.monotonic() + STALL_TIMEOUT_S
            elif time.monotonic() > deadline:
                topic, partition = sorted(ends)[0]
                raise UndecidedError(
                    f"reading stalled for {STALL_TIMEOUT_S:g} s, before offset "
                    f"{ends[topic, partition]} of {topic}-{partition}"
                )
    finally:
        consumer.close()


def _key(of: Slice) -> tuple[str, int]:
    return of.partition.topic, of.partition.partition


def _within(
    messages: list[Message], ends: dict[tuple[str, int], int], consumer: Consumer
) -> Iterator[Message]:
    """The records before the ends; a partition that has got to its end is left."""
    for message in messages:
        place = str(message.topic()), int(message.partition() or 0)
        end = ends.get(place)
        if end is None:
            continue
        if (problem := message.error()) is None:
            offset = int(message.offset() or 0)
            if offset < end:
                yield message
            if offset < end - 1:
                continue
        elif problem.code() != KafkaError._PARTITION_EOF:
            if problem.retriable():
                continue
            raise UndecidedError(f"{place[0]}-{place[1]} cannot be read: {problem}")
        # Also at the log's end: control records may be the last ones before the slice's.
        del ends[place]
        consumer.incremental_unassign([Place(*place)])


def _settings(cluster: Connection) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, value in cluster.settings.items():
        if name == "ssl_check_hostname":
            if value is False:
                given["ssl.endpoint.identification.algorithm"] = "none"
            continue
        if name not in _NAMES:
            raise ConfigurationError(
                f"verify does not know the setting {name}; it takes {', '.join(sorted(_NAMES))}"
            )
        given[_NAMES[name]] = value
    return {
        **given,
        "bootstrap.servers": cluster.servers,
        # The client needs a group; nothing joins it or commits to it.
        "group.id": "eoskafka-verify",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        # Says when a partition is at its end, also where control records are the last.
        "enable.partition.eof": True,
        "fetch.message.max.bytes": 8 * 1024 * 1024,
    }
