"""Which records of a topic a proof covers, and a fast reader for them (librdkafka).

If the query is running, the order of the requests matters: first the query's progress, then the end
of its output, then the end of its input. Output that exists at the second request was made from
input that exists at the third, and all input before the first has its output by the second.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Place
from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, OffsetSpec
from kafka.structs import OffsetAndMetadata

from eoskafka import properties, stamps
from eoskafka.audit.reader import STALL_TIMEOUT_S, UndecidedError, describe_hidden
from eoskafka.brokers.agreement import WAY_OUT, disagreement_on_ids, former_leader
from eoskafka.brokers.connection import Connection
from eoskafka.brokers.groups import committed
from eoskafka.brokers.topics import log_ends, log_offsets, topic_ids
from eoskafka.errors import ConfigurationError

_PORTION = 5_000
_POLL_S = 0.5
_EARLIEST = -2
Offsets = Mapping[TopicPartition, int]


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


@dataclass(frozen=True)
class Slices:
    """The records that a proof covers.

    Attributes:
        must: input records whose output must exist.
        later: input records after the group's offsets, whose output may exist.
        earlier: input records before the query's start; a former query may have written output for
            them.
        outputs: the output records.
        ids: the topic id for each of their partitions.
    """

    must: list[Slice]
    later: list[Slice]
    earlier: list[Slice]
    outputs: list[Slice]
    ids: Mapping[TopicPartition, str]

    @property
    def everything(self) -> list[Slice]:
        """All of them."""
        return [*self.must, *self.later, *self.earlier, *self.outputs]


def look(
    cluster: Connection,
    *,
    inputs: Collection[str],
    outputs: Collection[str],
    group: str,
    input_starts: Offsets,
    output_starts: Offsets,
    wait_s: float,
) -> Slices:
    """Find out how far a query has got and what has come out.

    Args:
        cluster: the cluster of all the topics.
        inputs: the topics that the query reads; empty if a table has the expected output.
        outputs: the topics that it writes to.
        group: the group whose offsets show its progress; empty if it must have read everything.
        input_starts: where the query began; a topic that is not in it began at offset 0.
        output_starts: where its output begins, in the same form.
        wait_s: how long open transactions may hide output, in seconds.

    Raises:
        UndecidedError: records were deleted, are hidden, or are in a compacted topic; the group
            lacks offsets; or an answer came from a broker that is cut off from the cluster.
        ConfigurationError: a start names a partition or an offset that its topic does not have.
        UnreachableError: the brokers do not answer.
    """
    with cluster.looking_at("the topics", topics="Read"), cluster.admin() as admin:
        # First of all how far it has got.
        before = _partitions(admin, inputs)
        stable, epochs = log_ends(admin, before, "read_committed")
        reached = stable
        if group:
            offsets = {p: o for p, o in committed(cluster, group).items() if p in before}
            _require_of_these_topics(group, offsets, before)
            reached = {p: o.offset for p, o in offsets.items()}
        made = _partitions(admin, outputs)
        ends, output_epochs = _readable(admin, made, wait_s)
        began = _starts(admin, made, output_starts, "--output-from")
        # Last of all what there was to read.
        given = _partitions(admin, inputs)
        starts = _starts(admin, given, input_starts, "--input-from")
        readable = log_offsets(admin, given, OffsetSpec.LATEST, "read_committed")
        first = log_offsets(admin, given, OffsetSpec.EARLIEST)
        for topic in {*inputs, *outputs}:
            _refuse_compacted(admin, topic)
        _require_newest(
            cluster, {**made, **given}, {*inputs, *outputs}, {**epochs, **output_epochs}
        )
    must, later, earlier = [], [], []
    for p in given:
        until = reached.get(p)
        if until is None:
            if group and stable.get(p, 0) > starts[p]:
                raise UndecidedError(
                    f"group {group} has no offset of {_name(p)}, which has records. Check that "
                    "this is the group of the query that reads the topic, and that the query has "
                    "finished its first batch"
                )
            until = starts[p]
        if until > starts[p] and not first[p] <= until <= readable[p]:
            raise UndecidedError(
                f"group {group} stands at {until} in {_name(p)}, whose log has {first[p]} to "
                f"{readable[p]}: the records that it has read were deleted, or the topic was "
                "deleted and created again"
            )
        middle = max(starts[p], until)
        must.append(Slice(p, starts[p], middle))
        later.append(Slice(p, middle, max(middle, readable[p])))
        earlier.append(Slice(p, first[p], starts[p]))
    out = [Slice(p, began[p], max(began[p], ends[p])) for p in made]
    return Slices(must, later, earlier, out, {**made, **given})


def require_same_topics(cluster: Connection, slices: Slices) -> None:
    """Check that the topics are still the ones whose records were read.

    Raises:
        UndecidedError: one was deleted meanwhile, or created again.
        UnreachableError: the brokers do not answer.
    """
    with cluster.looking_at("the topics"), cluster.admin() as admin:
        now = topic_ids(admin, {p.topic for p in slices.ids})
    for partition, id_ in slices.ids.items():
        if now.get(partition) != id_:
            raise UndecidedError(f"topic {partition.topic} was deleted while it was read")


def _partitions(admin: KafkaAdminClient, topics: Collection[str]) -> dict[TopicPartition, str]:
    """With their topics' ids, in order."""
    found = topic_ids(admin, topics)
    for topic in topics:
        if not any(partition.topic == topic for partition in found):
            raise UndecidedError(f"there is no topic {topic}, or this user may not describe it")
    return dict(sorted(found.items()))


def _require_newest(
    cluster: Connection,
    ids: Mapping[TopicPartition, str],
    topics: Collection[str],
    epochs: Mapping[TopicPartition, int],
) -> None:
    """Refuse what a broker has said that is cut off: it does not know of the latest records."""
    if problem := disagreement_on_ids(cluster, ids, topics) or former_leader(cluster, epochs):
        raise UndecidedError(f"it is not known which records the topics have: {problem}. {WAY_OUT}")


def _require_of_these_topics(
    group: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    ids: Mapping[TopicPartition, str],
) -> None:
    """Refuse offsets of a topic that was deleted, and created again with the same name."""
    for partition, offset in offsets.items():
        stamp = stamps.parse(offset.metadata)
        if stamp is not None and stamp.topic_id != ids[partition]:
            raise UndecidedError(
                f"the offset of group {group} in {_name(partition)} is of a former topic of that "
                "name, so it does not show how much of the current topic was read"
            )


def _readable(
    admin: KafkaAdminClient, partitions: Collection[TopicPartition], wait_s: float
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """The last stable offsets, once they are past all records that the logs have now.

    Returns:
        the offsets, and for each partition the lowest leader epoch in the answers.
    """
    written, first_epochs = log_ends(admin, partitions, "read_uncommitted")
    deadline = time.monotonic() + wait_s
    while True:
        stable, epochs = log_ends(admin, partitions, "read_committed")
        hidden = {p: (stable[p], written[p]) for p in partitions if stable[p] < written[p]}
        if not hidden:
            return stable, {
                p: min(epoch, first_epochs.get(p, epoch)) for p, epoch in epochs.items()
            }
        if time.monotonic() > deadline:
            raise UndecidedError(describe_hidden(admin, hidden, wait_s))
        time.sleep(0.1)


def _starts(
    admin: KafkaAdminClient, partitions: Collection[TopicPartition], given: Offsets, option: str
) -> dict[TopicPartition, int]:
    first = log_offsets(admin, partitions, OffsetSpec.EARLIEST)
    last = log_offsets(admin, partitions, OffsetSpec.LATEST)
    topics = {p.topic for p in given}
    for partition in given:
        if partition not in first:
            raise ConfigurationError(f"{option} names {_name(partition)}, which does not exist")
    starts = {}
    for p in partitions:
        start = given.get(p, _EARLIEST)
        if p not in given and p.topic in topics:
            raise ConfigurationError(f"{option} has no offset of {_name(p)}")
        if p not in given and first[p] > 0:
            raise UndecidedError(
                f"the log of {_name(p)} begins at {first[p]}: what was before is gone. Use "
                "--input-from and --output-from to give the offsets at which the query and its "
                f'output begin ({{"{p.topic}":{{"{p.partition}":{first[p]}}}}}; -2 stands for the '
                "first offset that a log has now)"
            )
        if start == _EARLIEST:
            start = first[p]
        if start < 0 or start > last[p]:
            raise ConfigurationError(
                f"{option} has {start} for {_name(p)}, which ends at {last[p]}"
            )
        if start < first[p]:
            raise UndecidedError(
                f"records of {_name(p)} from {start} on are gone: its log begins at {first[p]}"
            )
        starts[p] = start
    return starts


def _refuse_compacted(admin: KafkaAdminClient, topic: str) -> None:
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    # If the user lacks DescribeConfigs, this client returns the topic without its settings.
    found = admin.describe_configs([resource], config_filter="all")["topic"][topic]
    if "cleanup.policy" not in found:
        raise UndecidedError(
            f"this user may not see whether topic {topic} is compacted. If it is, missing records "
            "prove nothing: grant DescribeConfigs on it"
        )
    if "compact" in found["cleanup.policy"]["value"]:
        raise UndecidedError(
            f"topic {topic} is compacted: Kafka deletes a record from it when a later one has the "
            "same key, so missing records prove nothing"
        )


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def read(
    cluster: Connection, slices: Collection[Slice], take: Callable[[list[Message]], None]
) -> None:
    """Hand over the committed records of these slices, in portions.

    Within a slice they come in their order. No two slices may be of one partition.

    Raises:
        UndecidedError: they cannot be read, or reading stalls.
        ConfigurationError: librdkafka refuses a setting.
    """
    wanted = {_key(each): each for each in slices if each.start < each.end}
    ends = {place: each.end for place, each in wanted.items()}
    said: list[str] = []
    fetched = _Fetched()
    settings = {**_settings(cluster, said), "stats_cb": fetched.take}
    try:
        consumer = Consumer(settings, logger=_quiet())
    except KafkaException as error:
        raise ConfigurationError(f"librdkafka refuses a setting: {error}") from error
    try:
        consumer.assign([Place(*place, each.start) for place, each in wanted.items()])
        deadline = time.monotonic() + STALL_TIMEOUT_S
        while ends:
            left = len(ends)
            found = list(_within(consumer.consume(_PORTION, _POLL_S), ends))
            if found:
                take(found)
            if len(ends) < left:
                gone = [Place(*place) for place in wanted if place not in ends]
                consumer.incremental_unassign(gone)
                wanted = {place: each for place, each in wanted.items() if place in ends}
            if found or len(ends) < left or fetched.has_moved():
                deadline = time.monotonic() + STALL_TIMEOUT_S
            elif time.monotonic() > deadline:
                (topic, partition), end = sorted(ends.items())[0]
                raise UndecidedError(
                    f"no record for {STALL_TIMEOUT_S:g} s, before offset {end} of "
                    f"{topic}-{partition}" + (f": {said[-1]}" if said else "")
                )
    except KafkaException as error:
        raise UndecidedError(f"the topics cannot be read: {error}") from error
    finally:
        consumer.close()


class _Fetched:
    """How far fetching has got; aborted records are fetched, and handed over to nobody."""

    def __init__(self) -> None:
        self._now = self._seen = 0

    def take(self, statistics: str) -> None:
        """Take librdkafka's statistics."""
        topics = json.loads(statistics)["topics"].values()
        partitions = [each for topic in topics for each in topic["partitions"].values()]
        self._now = sum(max(0, each["next_offset"]) for each in partitions)

    def has_moved(self) -> bool:
        """Whether fetching has made progress since the last call."""
        moved, self._seen = self._now != self._seen, self._now
        return moved


def _key(of: Slice) -> tuple[str, int]:
    return of.partition.topic, of.partition.partition


def _within(messages: list[Message], ends: dict[tuple[str, int], int]) -> Iterator[Message]:
    """Yield the records before the ends, and remove the ends of partitions that reach them."""
    for message in messages:
        place = str(message.topic()), int(message.partition() or 0)
        end = ends.get(place)
        if end is None:
            continue
        offset = int(message.offset() or 0)
        if (problem := message.error()) is None:
            if offset < end:
                yield message
            if offset < end - 1:
                continue
        elif problem.code() != KafkaError._PARTITION_EOF:
            raise UndecidedError(f"{place[0]}-{place[1]} cannot be read: {problem}")
        elif offset < end:
            # A broker that has just become the leader may report an earlier end.
            continue
        # Also at the log's end: control records may be the last ones before the slice's.
        del ends[place]


def _quiet() -> logging.Logger:
    """What librdkafka would write to standard error, it also tells as an error."""
    logger = logging.getLogger("eoskafka.librdkafka")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


def _settings(cluster: Connection, said: list[str]) -> dict[str, Any]:
    return {
        **properties.of_librdkafka(cluster.settings),
        "bootstrap.servers": cluster.servers,
        # The client needs a group; nothing joins it or commits to it.
        "group.id": "eoskafka-reader",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        # Says when a partition is at its end, also where control records are the last.
        "enable.partition.eof": True,
        "statistics.interval.ms": 5_000,
        "fetch.message.max.bytes": 4 * 1024 * 1024,
        "queued.max.messages.kbytes": 32 * 1024,
        "error_cb": lambda error: said.append(str(error)),
    }
