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

    An attribute that is None has the connector's default; docs/options.md describes each option.

    Attributes:
        bootstrap_servers: the brokers' addresses, `host:port,...`.
        subscribe: the names of the topics. Give one of this, `subscribe_pattern` and `assign`.
        subscribe_pattern: a regular expression that is searched for in the names of topics.
        assign: the partitions of each topic, such as `{"payments": [0, 1]}`.
        starting_offsets: `earliest` or `latest`, for all topics or for each topic; or an offset for
            each partition of a topic, where -1 is the latest and -2 the earliest offset.
        starting_offsets_by_timestamp: a time for each partition of a topic: a datetime with a time
            zone, or milliseconds since 1970. It takes precedence over `starting_offsets`.
        starting_offsets_by_timestamp_strategy: what happens if a partition has no record at or
            after its starting time: `error`, or `latest` to begin at its end.
        starting_timestamp: one time for all partitions. It takes precedence over the other two.
        ending_offsets: where a batch query ends, in the form of `starting_offsets`.
        ending_offsets_by_timestamp: where a batch query ends, as a time for each partition.
        ending_timestamp: where a batch query ends, as one time for all partitions.
        max_offsets_per_trigger: the largest number of offsets that a batch reads.
        max_offsets_per_partition: the largest number of offsets that a batch reads of each
            partition of a topic.
        min_offsets_per_trigger: a batch waits until it has this number of offsets to read.
        max_trigger_delay: the longest time that a batch waits for `min_offsets_per_trigger`.
        min_partitions: the smallest number of tasks of a batch.
        max_records_per_partition: the largest number of offsets that a task reads.
        include_headers: whether there is a column `headers`.
        fail_on_data_loss: whether the query fails if records were deleted before it has read them;
            with False it skips them.
        slots: the number of tasks that read the partitions.
        ownership: `exclusive`, or `shared` if several drivers divide the partitions.
        handover: with `ownership="shared"`, take over from the drivers that are in the group.
        group_id: the consumer group that holds the query's offsets.
        group_id_prefix: the text with which the group's name begins if `group_id` is None.
        group_protocol: `classic`, or `consumer` (KIP-848) with `ownership="shared"`.
        isolation_level: whether the records of open and aborted transactions are hidden.
        poll_timeout_ms: how many milliseconds a task waits for a record that must exist.
        fetch_offset_num_retries: how many times the driver asks the brokers for offsets before the
            query fails.
        fetch_offset_retry_interval_ms: how many milliseconds it waits in between.
        kafka: further settings of the Kafka client, without the prefix `kafka.`:
            `{"security.protocol": "SASL_SSL"}`. They are never shown, because they may be secret.

    Raises:
        ConfigurationError: a value is wrong, or two options exclude each other; nothing was
            started.
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
    max_offsets_per_partition: int | None = None
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
        """A streaming DataFrame with the columns of the built-in connector."""
        return spark.readStream.format("eoskafka").options(**self.options()).load()

    def batch(self, spark: SparkSession) -> DataFrame:
        """A DataFrame of the records from the starting to the ending offsets."""
        return spark.read.format("eoskafka").options(**self.options()).load()


@dataclass(frozen=True, kw_only=True)
class Sink(_Side):
    """A sink of records, for a stream or a batch.

    Rows need a column `value` (string or binary), and may have `key`, `topic`, `headers` and
    `partition`. An attribute that is None has the connector's default; docs/options.md describes
    each option.

    Attributes:
        bootstrap_servers: the brokers' addresses, `host:port,...`.
        topic: the topic of every record. If it is None, each row must name its topic.
        transaction_scope: `task` or `epoch` require that scope, and `auto` chooses one.
        transactional_id_prefix: the text with which transactional ids begin, for ACLs.
        transaction_timeout_ms: the brokers abort a transaction that is open for longer. In task
            scope, a task must commit within this time; in epoch scope, a batch must be decided.
        commit_interval_ms: how often, in milliseconds, a task in task scope commits what it has
            processed so far.
        recovery_reserve_ms: how much of the transaction timeout must be left for a restart when a
            batch in epoch scope is decided; a third of the timeout by default.
        decision_topic: the topic in which epoch scope records its decisions.
        write_id: a name for a batch write, so that its rows are not written twice if it is
            repeated.
        register_topics: the only topics that may be written to.
        allow_non_replayable_sources: accept a source such as Spark's `socket`, although a restart
            can then lose records or write them twice.
        kafka: further settings of the Kafka client, as in a `Source`.

    Raises:
        ConfigurationError: a value is wrong, or two options exclude each other; nothing was
            started.
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
