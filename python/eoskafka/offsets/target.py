"""The offsets that a user asks for: by name, by time, or one by one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient, OffsetSpec, OffsetTimestamp

from eoskafka import _json
from eoskafka.brokers.topics import names_of
from eoskafka.errors import ConfigurationError, OffsetsError
from eoskafka.offsets.model import Position

# A time in 1973, in milliseconds: a smaller number is in seconds, or is a date.
_EARLIEST_MS = 100_000_000_000
_MOST_DIGITS = 19


@dataclass(frozen=True)
class Target:
    """Where offsets are to go; one of these."""

    spec: OffsetSpec | None = None
    timestamp: int | None = None
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    by_topic: Mapping[str, OffsetSpec] = field(default_factory=dict)

    @staticmethod
    def parse(text: str) -> Target:
        named = {"earliest": OffsetSpec.EARLIEST, "latest": OffsetSpec.LATEST}
        given = text.strip()
        if given.lower() in named:
            return Target(spec=named[given.lower()])
        if given.startswith("{"):
            try:
                return Target.parse_json(given, named)
            except (ValueError, AttributeError, TypeError) as error:
                raise ConfigurationError(
                    f"{given} is not JSON with offsets: {error}. Write them as "
                    '{"topic":{"0":23,"1":-1}} or {"topic":"earliest"}; -2 is earliest, -1 latest'
                ) from error
        if given.isascii() and given.isdecimal():
            # More digits than a time has; Python refuses to read thousands of them.
            if len(given) > _MOST_DIGITS or not _EARLIEST_MS <= int(given) < 2**63:
                raise ConfigurationError(
                    f"{given} is not a plausible time in milliseconds since 1970. If it is in "
                    "seconds, or a date, write it as 2026-11-21T09:30:00Z"
                )
            return Target(timestamp=int(given))
        try:
            moment = datetime.fromisoformat(given.replace("Z", "+00:00"))
        except ValueError as error:
            raise ConfigurationError(
                f"{given!r} is not a position: give earliest, latest, a time such as "
                "2026-11-21T09:30:00Z or milliseconds since 1970, or JSON with offsets"
            ) from error
        if moment.tzinfo is None:
            raise ConfigurationError(
                f"{given!r} has no time zone: write {moment.isoformat()}Z for UTC, or "
                f"{moment.isoformat()}+01:00"
            )
        return Target(timestamp=int(moment.timestamp() * 1_000))

    @staticmethod
    def parse_json(text: str, named: Mapping[str, OffsetSpec]) -> Target:
        offsets, by_topic = {}, {}
        for topic, partitions in _json.parse(text).items():
            if isinstance(partitions, str):
                if partitions not in named:
                    raise ValueError(f"{partitions!r} is neither earliest nor latest")
                by_topic[topic] = named[partitions]
                continue
            if not partitions:
                raise ValueError(f"no partition of {topic} is named")
            for partition, offset in partitions.items():
                if type(offset) is not int or not -2 <= offset < 2**63:
                    raise ValueError(f"{offset!r} is not an offset")
                if not (partition.isascii() and partition.isdecimal()) or int(partition) >= 2**31:
                    raise ValueError(f"{partition!r} is not a partition")
                offsets[TopicPartition(topic, int(partition))] = offset
        if not offsets and not by_topic:
            raise ValueError("no partition is named")
        return Target(offsets=offsets, by_topic=by_topic)

    def of(
        self,
        admin: KafkaAdminClient,
        partitions: Sequence[TopicPartition],
        log: Mapping[TopicPartition, Position],
    ) -> dict[TopicPartition, int]:
        """The offset for each of these partitions."""
        missing = sorted(set(self.offsets) - set(partitions))
        if missing:
            raise OffsetsError(f"the cluster has no {names_of(missing)}. Nothing was changed")
        if self.timestamp is not None:
            wanted = {p: OffsetTimestamp(self.timestamp) for p in partitions}
            found = admin.list_partition_offsets(wanted) if wanted else {}
            return {
                p: each.offset if each.offset >= 0 else _latest(log[p]) for p, each in found.items()
            }
        return {p: self._by_name(p, log[p]) for p in partitions}

    def _by_name(self, partition: TopicPartition, log: Position) -> int:
        offset = self.offsets.get(partition)
        spec = self.by_topic.get(partition.topic, self.spec)
        if offset == -2 or (offset is None and spec is OffsetSpec.EARLIEST):
            return log.log_start
        if offset == -1 or offset is None:
            return _latest(log)
        if not log.log_start <= offset <= log.end:
            raise OffsetsError(
                f"{names_of([partition])} has the offsets {log.log_start} to {log.end}, and not "
                f"{offset}. Nothing was changed"
            )
        return offset


def _latest(log: Position) -> int:
    """The end of the log, or the group's offset if later: a query may read uncommitted records."""
    if log.committed is None or not log.is_same_topic:
        return log.end
    if log.committed > log.end + log.open_records:
        # A former leader may have answered, whose log ends earlier.
        raise OffsetsError(
            f"the group is at offset {log.committed} of {log.topic}-{log.partition}, and the "
            f"broker says that its log ends at {log.end + log.open_records}: the broker may be "
            "behind. Nothing was changed. Repeat the command in a minute. If records were really "
            "lost, give the offset as JSON"
        )
    return max(log.end, log.committed)


def is_chosen(partition: TopicPartition, target: Target, topics: Collection[str]) -> bool:
    """Whether a partition is to be moved: one that the target names, else one of these topics."""
    if topics_named(target):
        return is_named(partition, target)
    return not topics or partition.topic in topics


def is_named(partition: TopicPartition, target: Target) -> bool:
    """Whether the target names this partition or its topic."""
    return partition in target.offsets or partition.topic in target.by_topic


def topics_named(target: Target) -> set[str]:
    """The topics that the target names."""
    return {partition.topic for partition in target.offsets} | set(target.by_topic)
