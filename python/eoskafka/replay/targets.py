"""The topic to which each dead letter goes, and which dead letters cannot go there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from kafka import KafkaConsumer

from eoskafka.brokers.connection import Connection
from eoskafka.brokers.topics import topic_ids
from eoskafka.dead_letters import Origin
from eoskafka.errors import ConfigurationError, RecordError
from eoskafka.replay.records import Offsets, TopicLog, place, read, source_headers

# Dead letters in one message.
_NAMED = 20


class Targets:
    """Where the records go."""

    def __init__(self, cluster: Connection, dead_letters: str, to: str) -> None:
        """`dead_letters` is the topic to replay; `to` is the topic for all, or empty."""
        self._cluster = cluster
        self._dead_letters = dead_letters
        self._to = to
        self._partition_counts: dict[str, int] = {}

    def problem(self, record: Any) -> str:
        """Why this dead letter cannot be written; empty if it can."""
        topic = self._to or Origin.of(record.headers).topic
        if not topic:
            return (
                "it has no headers of a dead letter, so its topic is not known (--to would name "
                "one for all dead letters)"
            )
        if topic == self._dead_letters:
            return "it would be written to the topic of the dead letters itself"
        if record.key is None and record.value is None:
            return "it has neither a key nor a value, and this client cannot write such a record"
        for name, value in source_headers(record):
            if value is None:
                return f"its header {name!r} is null, and this client cannot write such a header"
        return ""

    def send_arguments(self, record: Any) -> dict[str, Any]:
        """What `KafkaProducer.send` takes for this dead letter.

        Raises:
            ConfigurationError: there is no such topic.
        """
        origin = Origin.of(record.headers)
        topic = self._to or origin.topic
        # For another topic, too: this names one that is missing.
        count = self._partition_count(topic)
        keeps_partition = not self._to and 0 <= origin.partition < count
        return {
            "topic": topic,
            "key": record.key,
            "value": record.value,
            "headers": source_headers(record),
            "partition": origin.partition if keeps_partition else None,
        }

    def _partition_count(self, topic: str) -> int:
        if topic not in self._partition_counts:
            with self._cluster.admin() as admin:
                self._partition_counts[topic] = len(topic_ids(admin, [topic]))
        if not self._partition_counts[topic]:
            raise ConfigurationError(
                f"there is no topic {topic}, or this user may not describe it. Nothing was "
                "replayed. Create it, or give another one with --to"
            )
        return self._partition_counts[topic]


class _SeenSources:
    """The records of sources whose dead letters were seen."""

    def __init__(self) -> None:
        # By the topic and the partition of the source: offsets and timestamps. A topic that was
        # deleted and created again has the same offsets.
        self._seen: dict[tuple[str, int], set[tuple[int, int]]] = defaultdict(set)

    def is_repeated(self, origin: Origin) -> bool:
        """Whether a dead letter of this record was seen; from now on it was."""
        if origin.offset < 0:
            return False
        seen = self._seen[origin.topic, origin.partition]
        count = len(seen)
        seen.add((origin.offset, origin.timestamp_ms))
        return len(seen) == count


def require_replayable(
    consumer: KafkaConsumer,
    targets: Targets,
    log: TopicLog,
    starts: Offsets,
    is_skipped: Callable[[Any], bool],
) -> None:
    """Look at all records before the first one is written.

    Args:
        consumer: reads the topic of the dead letters.
        targets: where they go.
        log: of that topic.
        starts: where the replay begins; what is before it was replayed.
        is_skipped: whether a record is not written.

    Raises:
        RecordError: one of them cannot be written, or would be written twice.
        ConfigurationError: a topic is missing.
    """
    sources = _SeenSources()
    problems: dict[str, str] = {}
    for portion in read(consumer, log.starts, starts):
        for record in portion:
            sources.is_repeated(Origin.of(record.headers))
    for portion in read(consumer, starts, log.ends):
        for record in portion:
            if is_skipped(record):
                continue
            origin = Origin.of(record.headers)
            if problem := targets.problem(record):
                problems[place(record)] = problem
            elif sources.is_repeated(origin):
                problems[place(record)] = (
                    "another dead letter was made from the same record, "
                    f"{origin.topic}-{origin.partition}, offset {origin.offset}, so this record "
                    "would be written twice. Several queries write to this topic, or a query has "
                    "made several rows of one record"
                )
            else:
                # Now, because this names a topic that is missing.
                targets.send_arguments(record)
    if problems:
        raise RecordError(_refusal(problems))


def _refusal(problems: dict[str, str]) -> str:
    first, problem = next(iter(problems.items()))
    options = " ".join(f"--skip {each}" for each in [*problems][:_NAMED])
    unnamed = len(problems) - _NAMED
    return (
        f"{len(problems):,} of the dead letters cannot be replayed; the first one is at "
        f"PARTITION:OFFSET {first}: {problem}. Nothing was replayed. To skip these dead letters "
        f"and replay the others, add {options}"
        + (f" (there are {unnamed:,} more, which the next attempt names)" if unnamed > 0 else "")
    )
