"""`Source` and `Sink`: the options of one query's end as fields with types."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar, Literal

from eoskafka.errors import ConfigurationError
from eoskafka.options.names import option_name, option_value
from eoskafka.options.rules import check

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

Named = Literal["earliest", "latest"]
# By topic, and by partition within it.
Offsets = Named | Mapping[str, Named | Mapping[int, int]]
Time = int | datetime
Times = Mapping[str, Mapping[int, Time]]
KafkaSettings = Mapping[str, str | int | float | bool]


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
        named = {option_name(f.name): f.name for f in dataclasses.fields(self) if f.name != "kafka"}
        values = {name: getattr(self, field_name) for name, field_name in named.items()}
        given = {name: option_value(value) for name, value in values.items() if value is not None}
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
            given[name] = option_value(value)
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
