"""Typed options of a source and a sink, checked before Spark starts.

    payments = Source(bootstrap_servers="broker:9092", subscribe="payments")
    clean = Sink(bootstrap_servers="broker:9092", topic="payments-clean")
    clean.stream(payments.stream(spark), checkpoint="/checkpoints/payments").start()

They are the options of `format("eoskafka")` under Python's names, and `options()` gives them under
Spark's. Names, kinds of values and what is refused come from the table that the connector itself
reads (`spec/options.json`), the messages from its error conditions (`spec/errors.json`).

Importing this module needs the standard library only.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from eoskafka import _spec
from eoskafka.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

__all__ = ["Sink", "Source", "check"]

Named = Literal["earliest", "latest"]
# By topic, and by partition within it.
Offsets = Named | Mapping[str, Named | Mapping[int, int]]
Time = int | datetime
Times = Mapping[str, Mapping[int, Time]]
KafkaSettings = Mapping[str, str | int | float | bool]

_LONG = 2**63 - 1
_INT = 2**31 - 1


# ---- the table


@cache
def _table() -> dict[str, dict[str, Any]]:
    """The options by their names in small letters."""
    return {option["name"].lower(): option for option in _spec.read("options.json")["options"]}


@cache
def _spark_own() -> frozenset[str]:
    """What Spark itself reads of a source's or a sink's options."""
    return frozenset(name.lower() for name in _spec.read("options.json")["spark"])


def _error(condition: str, **values: object) -> ConfigurationError:
    message = _spec.conditions()[condition]["message"]
    for name, value in values.items():
        message = message.replace(f"<{name}>", str(value))
    return ConfigurationError(f"[{condition}] {message}", condition)


# ---- the checks, as the connector makes them


def check(side: Literal["source", "sink"], options: Mapping[str, str]) -> None:
    """Check options as the connector does when a query starts, but for what only a cluster knows.

    Args:
        side: whose they are.
        options: as Spark gets them, `kafka.` settings included; names in any case.

    Raises:
        ConfigurationError: the message is the connector's.
    """
    for given in options:
        _check_name(side, given)
    known = {_table()[n.lower()]["name"]: v for n, v in options.items() if n.lower() in _table()}
    for name, value in known.items():
        if side in _table()[name.lower()]["sides"]:
            _check_value(name, value)
    if not known.get("kafka.bootstrap.servers", "").strip():
        raise _error("EOSKAFKA_OPTION_MISSING", option="kafka.bootstrap.servers", side=side)
    (_check_source if side == "source" else _check_sink)(known)


def _check_name(side: str, given: str) -> None:
    name = given.lower()
    if name in _spark_own() or name.startswith("asyncprogresstracking"):
        return
    option = _table().get(name)
    if option is None:
        if name.startswith("kafka."):
            return
        nearest = min(
            (
                o["name"]
                for o in _table().values()
                if side in o["sides"] and o["status"] == "available"
            ),
            key=lambda known: _distance(known.lower(), name),
        )
        raise _error("EOSKAFKA_UNKNOWN_OPTION", option=given, side=side, nearest=nearest)
    canonical, is_mine = option["name"], side in option["sides"]
    if option["status"] == "refused":
        if is_mine:
            raise _error("EOSKAFKA_OPTION_REFUSED", option=canonical, instead=option["instead"])
    elif not is_mine and not name.startswith("kafka."):
        other = "sink" if side == "source" else "source"
        raise _error("EOSKAFKA_OPTION_WRONG_SIDE", option=canonical, side=side, other=other)


def _distance(a: str, b: str) -> int:
    """Levenshtein's edit distance."""
    row: list[int] = [*range(len(b) + 1)]
    for i, left in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, right in enumerate(b, 1):
            substituted = diagonal + (left != right)
            diagonal, row[j] = row[j], min(substituted, row[j - 1] + 1, row[j] + 1)
    return row[-1]


def _whole(value: str, least: int) -> bool:
    return bool(re.fullmatch(r"[+-]?[0-9]+", value)) and least <= int(value) <= _LONG


def _is_json_object(value: str) -> bool:
    try:
        return isinstance(json.loads(value), dict)
    except ValueError:
        return False


# A kind's check, and what an option of that kind takes, in the connector's words.
_KINDS: dict[str, tuple[Callable[[str], bool], str]] = {
    "positive": (lambda v: _whole(v, 1), "a whole number above 0"),
    "positiveInt": (lambda v: _whole(v, 1), "a whole number above 0"),
    "notNegative": (lambda v: _whole(v, 0), "a whole number, 0 or more"),
    "boolean": (lambda v: v.lower() in ("true", "false"), "true or false"),
    "duration": (
        lambda v: bool(re.fullmatch(r"[0-9]+(us|ms|s|m|min|h|d)?", v.lower())),
        "a time with its unit, such as 90s or 15m",
    ),
    "partitions": (_is_json_object, 'JSON such as {"topic":[0,1]}'),
}


def _check_value(name: str, given: str) -> None:
    takes, value = _table()[name.lower()].get("takes", "text"), given.strip()
    if isinstance(takes, list):
        if (value if name.startswith("kafka.") else value.lower()) not in takes:
            words = f"{', '.join(takes[:-1])} or {takes[-1]}" if takes[1:] else takes[0]
            raise _invalid(name, given, words)
    elif takes in _KINDS:
        is_right, words = _KINDS[takes]
        if not is_right(value):
            raise _invalid(name, given, words)
        if takes == "positiveInt" and int(value) > _INT:
            raise _invalid(name, given, f"at most {_INT}")
    elif (takes == "timestamps" or (takes == "offsets" and not _is_named(value))) and (
        not _is_json_object(value)
    ):
        raise _error("EOSKAFKA_BAD_OFFSET_JSON", option=name, json=given)


def _is_named(value: str) -> bool:
    return value.lower() in ("earliest", "latest")


def _invalid(name: str, value: str, takes: str) -> ConfigurationError:
    return _error("EOSKAFKA_OPTION_INVALID", option=name, value=value, takes=takes)


def _check_source(options: Mapping[str, str]) -> None:
    strategies = [n for n in ("subscribe", "subscribePattern", "assign") if n in options]
    if not strategies:
        raise _error(
            "EOSKAFKA_OPTION_MISSING",
            option="subscribe, subscribePattern or assign",
            side="source",
        )
    if len(strategies) > 1:
        raise _invalid(
            strategies[1],
            options[strategies[1]],
            "only one of subscribe, subscribePattern, assign",
        )
    if not options[strategies[0]].replace(",", "").strip():
        raise _invalid(strategies[0], options[strategies[0]], "what is not empty")
    is_shared = options.get("ownership", "").strip().lower() == "shared"
    if is_shared:
        _check_shared(options)
    elif options.get("handover", "").strip().lower() == "true":
        raise _invalid("handover", options["handover"], "true only with ownership=shared")
    elif options.get("kafka.group.protocol", "").strip() == "consumer":
        raise _invalid(
            "kafka.group.protocol",
            options["kafka.group.protocol"],
            "classic, or consumer with ownership=shared: with ownership=exclusive a driver that is"
            " started again takes its place over at once, which the consumer protocol does not"
            " allow before the session of its former member has ended",
        )
    least, most = options.get("minOffsetsPerTrigger"), options.get("maxOffsetsPerTrigger")
    if least and most and int(least) > int(most):
        raise _invalid("minOffsetsPerTrigger", least, "at most maxOffsetsPerTrigger")
    slots, tasks = options.get("slots"), options.get("minPartitions")
    if slots and tasks and int(tasks) > int(slots):
        raise _invalid(
            "minPartitions",
            tasks,
            f"at most the number of slots, which is {int(slots)}; leave slots out to have as many"
            " tasks as minPartitions says",
        )


def _check_shared(options: Mapping[str, str]) -> None:
    if "kafka.group.id" not in options:
        raise _error(
            "EOSKAFKA_OPTION_MISSING",
            option="kafka.group.id, which its drivers share",
            side="source",
        )
    if "assign" in options:
        raise _invalid(
            "ownership",
            options["ownership"],
            "exclusive with assign: a shared group gives out all partitions of a topic",
        )
    for name in ("minPartitions", "maxRecordsPerPartition"):
        if name in options:
            raise _invalid(
                name,
                options[name],
                "no value with ownership=shared, where a partition is read by one task; set slots"
                " for more tasks",
            )


def _check_sink(options: Mapping[str, str]) -> None:
    for name in ("transactionalIdPrefix", "decisionTopic"):
        if name in options and not options[name].strip():
            raise _invalid(name, options[name], "what is not empty")
    # The transactional ids of batch jobs have -job after the prefix, and are recognized by it.
    prefix = options.get("transactionalIdPrefix", "")
    if prefix.endswith("-job"):
        raise _invalid("transactionalIdPrefix", prefix, "a prefix that does not end in -job")
    if "commitIntervalMs" in options and options.get("transactionScope", "").lower() == "epoch":
        raise _invalid(
            "commitIntervalMs",
            options["commitIntervalMs"],
            "no value with transactionScope=epoch, where a batch takes effect as a whole",
        )
    if "registerTopics" in options:
        given = options["registerTopics"]
        topics = [topic.strip() for topic in given.split(",")]
        if not all(topics):
            raise _invalid("registerTopics", given, "names of topics, with commas between them")
        topic = options["topic"].strip() if "topic" in options else None
        if topic is not None and topic not in topics:
            raise _invalid("registerTopics", given, f"the option topic's one too, which is {topic}")


# ---- the classes


def _text(value: object) -> str:
    """A value as Spark's options have it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ConfigurationError(
                f"{value!r} has no time zone, so it is no point in time; give it one, such as "
                "datetime.timezone.utc"
            )
        return str(round(value.timestamp() * 1_000))
    if isinstance(value, timedelta):
        return f"{value // timedelta(milliseconds=1)}ms"
    if isinstance(value, Mapping):
        return json.dumps(_tree(value), separators=(",", ":"))
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ",".join(map(str, value))
    return str(value)


def _tree(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _tree(each) for key, each in value.items()}
    if isinstance(value, datetime):
        return int(_text(value))
    if isinstance(value, Iterable) and not isinstance(value, str):
        return list(value)
    return value


# Fields whose option is not just their name in Spark's way of writing.
_OPTIONS = {
    "bootstrap_servers": "kafka.bootstrap.servers",
    "group_id": "kafka.group.id",
    "group_protocol": "kafka.group.protocol",
    "isolation_level": "kafka.isolation.level",
    "transaction_timeout_ms": "kafka.transaction.timeout.ms",
    "poll_timeout_ms": "kafkaConsumer.pollTimeoutMs",
    "fetch_offset_num_retries": "fetchOffset.numRetries",
    "fetch_offset_retry_interval_ms": "fetchOffset.retryIntervalMs",
}


def _option(field_name: str) -> str:
    """`starting_offsets` is `startingOffsets`."""
    first, *rest = field_name.split("_")
    return _OPTIONS.get(field_name) or first + "".join(word.capitalize() for word in rest)


@dataclass(frozen=True, kw_only=True)
class _Side:
    """What a source and a sink have in common."""

    SIDE: ClassVar[Literal["source", "sink"]]

    bootstrap_servers: str
    # Not shown: it may hold secrets.
    kafka: KafkaSettings = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        options = self.options()
        for name in ("subscribe", "assign"):
            if options.get(name) in ("", "{}"):
                raise ConfigurationError(f"{name} names no topic: the source would read nothing")
        check(self.SIDE, options)

    def options(self) -> dict[str, str]:
        """The options under Spark's names: `spark.readStream.format("eoskafka").options(**...)`."""
        named = {_option(f.name): f.name for f in dataclasses.fields(self) if f.name != "kafka"}
        values = {name: getattr(self, field_name) for name, field_name in named.items()}
        given = {name: _text(value) for name, value in values.items() if value is not None}
        for setting, value in self.kafka.items():
            name = f"kafka.{setting}"
            if value is None:
                raise ConfigurationError(
                    f"{setting} is None in kafka=: leave it out to have the client's default"
                )
            if setting.lower().startswith("kafka."):
                raise ConfigurationError(
                    f"settings in kafka= have Kafka's own names: {setting[6:]!r}, not {setting!r}"
                )
            if name in named:
                raise ConfigurationError(f"{setting} is given as {named[name]}=, not in kafka=")
            given[name] = _text(value)
        return given


@dataclass(frozen=True, kw_only=True)
class Source(_Side):
    """A source of topics, for a stream or a batch query.

    What is None is left to the connector's default; docs/options.md describes each option.

    Attributes:
        bootstrap_servers: `host:port,...`.
        subscribe: names of topics. One of this, `subscribe_pattern` and `assign`.
        subscribe_pattern: a regular expression that is looked for within names.
        assign: partitions by topic, such as `{"payments": [0, 1]}`.
        starting_offsets: `earliest`, `latest`, or by topic either of these or an offset for each
            partition, where -1 is the latest and -2 the earliest one.
        starting_offsets_by_timestamp: by topic and partition; counts before `starting_offsets`.
            Times are datetimes with a time zone, or milliseconds since 1970.
        starting_offsets_by_timestamp_strategy: where a partition without such a record begins.
        starting_timestamp: for all partitions; counts before the others.
        ending_offsets: where a batch query ends; likewise the two that follow it.
        max_offsets_per_trigger: records of a batch.
        min_offsets_per_trigger: a batch waits for so many, no longer than `max_trigger_delay`.
        min_partitions: tasks of a batch at least.
        max_records_per_partition: offsets of a task at most.
        include_headers: whether there is a column `headers`.
        fail_on_data_loss: whether records that are gone before they were read are an error; False
            goes on without them.
        slots: tasks that share the partitions, each with a transactional producer.
        group_id: the consumer group that holds the truth.
        group_id_prefix: what its name begins with, where it is made from the checkpoint's path.
        group_protocol: `consumer` (KIP-848) with a shared group.
        isolation_level: whether records of open and aborted transactions are hidden.
        ownership: whether other drivers may be in the group.
        handover: with a shared group, take over from the drivers that are there.
        poll_timeout_ms: how long a task waits for a record that must exist.
        fetch_offset_num_retries: how often the driver asks for offsets in all.
        kafka: further settings of the Kafka client, under their own names: `{"security.protocol":
            "SASL_SSL"}`. Never shown, as they may be secret.

    Raises:
        ConfigurationError: a value is wrong, or two do not go together. Nothing was started.
    """

    SIDE = "source"

    subscribe: str | Sequence[str] | None = None
    subscribe_pattern: str | None = None
    assign: Mapping[str, Sequence[int]] | None = None
    starting_offsets: Offsets | None = None
    starting_offsets_by_timestamp: Times | None = None
    starting_offsets_by_timestamp_strategy: Literal["error", "latest"] | None = None
    starting_timestamp: Time | None = None
    ending_offsets: Offsets | None = None
    ending_offsets_by_timestamp: Times | None = None
    ending_timestamp: Time | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay: timedelta | str | None = None
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    include_headers: bool | None = None
    fail_on_data_loss: bool | None = None
    slots: int | None = None
    ownership: Literal["exclusive", "shared"] | None = None
    handover: bool | None = None
    group_id: str | None = None
    group_id_prefix: str | None = None
    group_protocol: Literal["classic", "consumer"] | None = None
    isolation_level: Literal["read_committed", "read_uncommitted"] | None = None
    poll_timeout_ms: int | None = None
    fetch_offset_num_retries: int | None = None
    fetch_offset_retry_interval_ms: int | None = None

    def stream(self, spark: SparkSession) -> DataFrame:
        """A streaming DataFrame; columns as the built-in connector's."""
        return spark.readStream.format("eoskafka").options(**self.options()).load()

    def batch(self, spark: SparkSession) -> DataFrame:
        """What there is when it is read, from the starting to the ending offsets."""
        return spark.read.format("eoskafka").options(**self.options()).load()


@dataclass(frozen=True, kw_only=True)
class Sink(_Side):
    """A sink of records, for a stream or a batch.

    Rows need a column `value` (string or binary), and may have `key`, `topic`, `headers` and
    `partition`. What is None is left to the connector's default.

    Attributes:
        bootstrap_servers: `host:port,...`.
        topic: where every record goes; None: each row names its topic.
        transaction_scope: `task` or `epoch` ask for that one, or an error.
        transactional_id_prefix: what transactional ids begin with, for ACLs.
        transaction_timeout_ms: a task, in epoch scope a batch, must end within it.
        commit_interval_ms: how often a task in task scope commits what it has done so far.
        recovery_reserve_ms: how much of the transaction timeout an epoch's decision leaves for a
            restart, so that one that was decided is committed; a third of it by default.
        decision_topic: where epoch scope keeps its decisions; made if missing.
        write_id: names a batch write, so that its repetition is known.
        register_topics: the only topics that may be written to.
        allow_non_replayable_sources: accept a source such as Spark's `socket`, although a restart
            can then lose records or write them twice.
        kafka: as a source has it.

    Raises:
        ConfigurationError: a value is wrong, or two do not go together. Nothing was started.
    """

    SIDE = "sink"

    topic: str | None = None
    transaction_scope: Literal["auto", "task", "epoch"] | None = None
    transactional_id_prefix: str | None = None
    transaction_timeout_ms: int | None = None
    commit_interval_ms: int | None = None
    recovery_reserve_ms: int | None = None
    decision_topic: str | None = None
    write_id: str | None = None
    register_topics: Sequence[str] | None = None
    allow_non_replayable_sources: bool | None = None

    def stream(self, rows: DataFrame, *, checkpoint: str, mode: str = "append") -> DataStreamWriter:
        """A writer to `start()`, after a `trigger` or a `queryName` if need be.

        Args:
            rows: a streaming DataFrame.
            checkpoint: the query's checkpoint folder, a path or a URL that Spark knows.
            mode: the output mode: `append`, `update` or `complete`.
        """
        writer = rows.writeStream.format("eoskafka").options(**self.options())
        return writer.option("checkpointLocation", checkpoint).outputMode(mode)

    def save(self, rows: DataFrame) -> None:
        """Write the rows of a batch: all of them take effect, or none does.

        The decision is atomic. The rows then become visible to `read_committed` consumers writer by
        writer, usually within milliseconds.
        """
        rows.write.format("eoskafka").options(**self.options()).mode("append").save()
