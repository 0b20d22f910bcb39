"""`Streams`: queries in this process, on one Spark session and one broker that tests share.

For tests about what a query may be and where it starts. What needs processes to kill is in
`harness`.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from eoskafka.audit import UndecidedError, read_committed
from eoskafka.brokers.connection import COORDINATOR_COMES, until_elected
from eoskafka.cli import app
from harness.waiting import until, until_ended
from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, MemberToRemove, NewTopic, OffsetSpec
from kafka.structs import OffsetAndMetadata
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

# A query of these tests takes one or two seconds; two busy cores may need ten times that.
QUERY_S = 60
# Who everybody is to a local cluster.
USER = "User:ANONYMOUS"

# A new broker makes the offsets topic at the first request, and loads it.
Options = Mapping[str, bool | float | int | str | None]

# A task that reads values of this length with these settings has fetched only the first few of
# them when it hands out the first record.
LARGE = "x" * 1_000
SMALL_FETCHES = {
    "kafka.max.partition.fetch.bytes": 20_000,
    "kafka.fetch.max.bytes": 20_000,
    "kafka.max.poll.records": 10,
}


class Streams:
    """Topics, queries and what came of them. Use topics, groups and checkpoints of your own.

    Args:
        spark: the shared session.
        servers: the shared broker.
        folder: for checkpoints; of one test.
        form: Spark's name of the connector that sources and sinks have: ours or `kafka`.
    """

    def __init__(
        self, spark: SparkSession, servers: str, folder: Path, form: str = "eoskafka"
    ) -> None:
        self.spark = spark
        self.servers = servers
        self.folder = folder
        self.form = form
        self.admin = KafkaAdminClient(bootstrap_servers=servers)
        self._producer = self._new_producer()
        self._counter = itertools.count()
        self._started: list[StreamingQuery] = []

    def close(self) -> None:
        """Stop this test's queries and close connections; topics stay."""
        for query in self._started:
            query.stop()
        self._producer.close()
        self.admin.close()

    # ---- topics

    def topic(self, partitions: int = 2, records: int = 0) -> str:
        """A new topic with records `0`..`records-1`, spread evenly."""
        name = f"t{uuid.uuid4().hex[:10]}"
        self.create(name, partitions)
        self.send(name, *range(records))
        return name

    def create(self, name: str, partitions: int, settings: Mapping[str, str] | None = None) -> None:
        """A topic with this name and settings, ready to be written to."""
        self.admin.create_topics([NewTopic(name, partitions, 1, topic_configs=settings)])
        self.admin.wait_for_topics([name])

    def delete(self, name: str) -> None:
        """Remove a topic, and wait until it is gone."""
        self.admin.delete_topics([name])
        until(lambda: name not in self.admin.list_topics(), f"the end of {name}", 20)

    def add_partitions(self, topic: str, count: int) -> None:
        """Let the topic have this many partitions, ready to be written to."""
        # kafka-python 3.0.0 sends an empty list where Kafka is to choose the brokers.
        new = count - self._count(topic)
        self.admin.create_partitions({topic: {"count": count, "assignments": [[1]] * new}})
        until(lambda: self._count(topic) == count, f"{count} partitions of {topic}", 20)
        # It would learn of them within minutes.
        self._producer.close()
        self._producer = self._new_producer()

    def _count(self, topic: str) -> int:
        return len(self.admin.describe_topics([topic])[0]["partitions"])

    def _new_producer(self) -> KafkaProducer:
        return KafkaProducer(bootstrap_servers=self.servers, linger_ms=5)

    def send(
        self, topic: str, *numbers: int, partition: int | None = None, at_ms: int | None = None
    ) -> None:
        """Records with key `k<number>` and value `<number>`, to one partition or all in turn.

        Args:
            at_ms: their timestamp, in milliseconds since 1970; None: now.
        """
        count = len(self._producer.partitions_for(topic) or ()) if partition is None else 0
        for place, number in enumerate(numbers):
            self._producer.send(
                topic,
                key=f"k{number}".encode(),
                value=str(number).encode(),
                partition=place % count if partition is None else partition,
                timestamp_ms=at_ms,
            )
        self._producer.flush()

    def send_values(self, topic: str, *values: str, partition: int = 0) -> None:
        """Records with these values and no keys, to one partition."""
        for value in values:
            self._producer.send(topic, value=value.encode(), partition=partition)
        self._producer.flush()

    @contextmanager
    def open_transaction(self, topic: str, *numbers: int) -> Iterator[None]:
        """Records that stay uncommitted inside the block; then they are aborted."""
        name = f"open-{uuid.uuid4().hex}"
        producer = KafkaProducer(bootstrap_servers=self.servers, transactional_id=name)
        with closing(producer):
            producer.init_transactions()
            producer.begin_transaction()
            for number in numbers:
                producer.send(topic, value=str(number).encode())
            producer.flush()
            yield
            producer.abort_transaction()
        until_ended(self.servers, name)

    def values(self, topic: str) -> list[str]:
        """The values of all committed records, sorted; null is `-`."""
        return sorted(
            "-" if record.value is None else record.value.decode()
            for record in read_committed(self.servers, topic)
        )

    def numbers(self, topic: str) -> list[int]:
        """As `values`, of records that were sent with `send`."""
        return sorted(map(int, self.values(topic)))

    def wait_written(self, topic: str, numbers: range, query: StreamingQuery) -> None:
        """Wait until these numbers, each once, are in the output of a query that runs on."""

        def are_there() -> bool:
            assert query.isActive, query.exception()
            try:
                return self.numbers(topic) == [*numbers]
            except UndecidedError:
                return False

        until(are_there, f"{numbers} in the output", QUERY_S)

    def ends(self, topic: str, partitions: int = 2) -> dict[int, int]:
        """The end of each partition's log."""
        wanted = {TopicPartition(topic, p): OffsetSpec.LATEST for p in range(partitions)}
        found = self.admin.list_partition_offsets(wanted)
        return {tp.partition: offset.offset for tp, offset in found.items()}

    def job(self, partitions: int = 2, records: int = 0) -> Job:
        """A query from a new topic to another one, with a group and a checkpoint of its own."""
        topic = self.topic(partitions, records)
        return Job(self, topic, self.topic(), self.group(), self.checkpoint())

    # ---- groups

    def group(self) -> str:
        """A new group's name."""
        return f"g{uuid.uuid4().hex[:10]}"

    def committed(self, group: str, topic: str) -> dict[int, OffsetAndMetadata]:
        """What the group has committed, with its stamps, by partition."""
        offsets = until_elected(lambda: self.admin.list_group_offsets([group]))[group]
        return {
            tp.partition: offset
            for tp, offset in offsets.items()
            if tp.topic == topic and offset.offset >= 0
        }

    def offsets(self, group: str, topic: str) -> dict[int, int]:
        """What the group has committed, by partition."""
        return {p: offset.offset for p, offset in self.committed(group, topic).items()}

    def set_offsets(self, group: str, topic: str, offsets: Mapping[int, tuple[int, str]]) -> None:
        """Commit offsets and metadata as another application would; the group has no member."""
        wanted = {
            TopicPartition(topic, p): OffsetAndMetadata(offset, metadata, -1)
            for p, (offset, metadata) in offsets.items()
        }

        def commit() -> bool:
            try:
                self.admin.alter_group_offsets(group, wanted)
                there = self.offsets(group, topic)
            except COORDINATOR_COMES:
                return False
            # This client does not tell of a partition that the coordinator has refused.
            return all(there.get(p) == offset for p, (offset, _) in offsets.items())

        until(commit, f"a coordinator for {group}", 30)

    def wait_empty(self, group: str) -> None:
        """Wait until the group's static member has gone: its session lasts after a stop."""
        until(lambda: not self.members(group), f"the end of {group}'s members", 60)

    def remove_members(self, group: str) -> None:
        """End the membership that a stopped driver leaves for its successor to take over."""
        gone = [MemberToRemove(group_instance_id=member) for member in self.members(group)]
        if gone:
            self.admin.remove_group_members(group, gone)
        self.wait_empty(group)

    def members(self, group: str) -> list[str]:
        """The instance ids of a group's members."""
        described = until_elected(lambda: self.admin.describe_groups([group]))[group]
        return [member["group_instance_id"] for member in described["members"]]

    # ---- queries

    def checkpoint(self) -> Path:
        """A new checkpoint's folder."""
        return self.folder / f"checkpoint{next(self._counter)}"

    def source(self, topic: str | None = None, options: Options | None = None) -> DataFrame:
        """A stream from the topic's beginning, or from what the options say."""
        given = {
            "kafka.bootstrap.servers": self.servers,
            "startingOffsets": "earliest",
            **({"subscribe": topic} if topic else {}),
            **(options or {}),
        }
        return self.spark.readStream.format(self.form).options(**given).load()

    def batch(self, topic: str | None = None, options: Options | None = None) -> DataFrame:
        """A batch query over the topic, or over what the options say."""
        given = {
            "kafka.bootstrap.servers": self.servers,
            **({"subscribe": topic} if topic else {}),
            **(options or {}),
        }
        return self.spark.read.format(self.form).options(**given).load()

    def save(
        self,
        rows: DataFrame,
        topic: str | None,
        options: Options | None = None,
        mode: str = "append",
    ) -> None:
        """Write rows in one batch."""
        given = {
            "kafka.bootstrap.servers": self.servers,
            **({"topic": topic} if topic else {}),
            **(options or {}),
        }
        rows.write.format(self.form).mode(mode).options(**given).save()

    def sink(
        self,
        rows: DataFrame,
        topic: str | None,
        checkpoint: Path | None = None,
        options: Options | None = None,
        mode: str = "append",
    ) -> DataStreamWriter:
        """Everything that is there now, to a topic; `start` it or give it to `run`."""
        given = {
            "kafka.bootstrap.servers": self.servers,
            "checkpointLocation": str(checkpoint or self.checkpoint()),
            **({"topic": topic} if topic else {}),
            **(options or {}),
        }
        return (
            rows.writeStream.format(self.form)
            .options(**given)
            .outputMode(mode)
            .trigger(availableNow=True)
        )

    def start(self, writer: DataStreamWriter) -> StreamingQuery:
        """Start a query that ends with the test at the latest."""
        query = writer.start()
        self._started.append(query)
        return query

    def start_held(self, writer: DataStreamWriter, reached: str) -> StreamingQuery:
        """Start a query, and wait until a task of it rests that sets this property; see `held`."""
        query = self.start(writer)
        properties = self.spark._jvm.System  # type: ignore[union-attr]
        until(lambda: properties.getProperty(reached) is not None, "a task's rest", QUERY_S)
        return query

    def run(self, writer: DataStreamWriter, timeout_s: int = QUERY_S) -> StreamingQuery:
        """Run a query to its end; StreamingQueryException if it fails."""
        query = self.start(writer)
        if not query.awaitTermination(timeout_s):
            query.stop()
            raise TimeoutError(f"not done within {timeout_s} s: {query.lastProgress}")
        return query

    def finished(self, query: StreamingQuery, output: str) -> list[int]:
        """Let a query without end process all there is, stop it, and return its whole output.

        For outputs that were already as a test wants them: duplicates may come later.
        """
        query.processAllAvailable()
        query.stop()
        # Waits until no transaction is open in the topic.
        return self.numbers(output)

    def copy(
        self,
        source: str,
        target: str,
        checkpoint: Path | None = None,
        options: Options | None = None,
    ) -> StreamingQuery:
        """Run key and value from topic to topic, to the end of what is there now."""
        rows = self.source(source, options).select("key", "value")
        return self.run(self.sink(rows, target, checkpoint))

    def failure(self, writer: DataStreamWriter) -> str:
        """Run a query that must fail, and return its error."""
        try:
            self.run(writer)
        except StreamingQueryException as error:
            return str(error)
        raise AssertionError("the query did not fail")

    def succeed(self, writer: DataStreamWriter) -> None:
        """Run a query of which the test says that it does not fail."""
        try:
            self.run(writer)
        except StreamingQueryException as error:
            raise AssertionError(f"the query failed: {error}") from error


class Job(NamedTuple):
    """One query from topic to topic, to be started again and again."""

    streams: Streams
    input: str
    output: str
    group: str
    checkpoint: Path

    def run(self, **options: Any) -> StreamingQuery:
        """Process everything that is there now."""
        return self.streams.run(self.writer(**options))

    def in_epoch_scope(self) -> DataStreamWriter:
        """The query, not started, in epoch scope."""
        return self.writer().option("transactionScope", "epoch")

    def failure(self, **options: Any) -> str:
        """Start it, see it fail, and return the error."""
        return self.streams.failure(self.writer(**options))

    def writer(
        self, plan: Callable[[DataFrame], DataFrame] | None = None, **options: Any
    ) -> DataStreamWriter:
        """The query, not started.

        Args:
            plan: what it does; None: key and value as they are.
            options: of the source; those of the sink are the writer's own.
        """
        rows = self.streams.source(self.input, {"kafka.group.id": self.group, **options})
        return self.streams.sink((plan or kv)(rows), self.output, self.checkpoint)

    def send(self, *numbers: int, partition: int | None = None) -> None:
        """Add to the input."""
        self.streams.send(self.input, *numbers, partition=partition)

    def written(self) -> list[int]:
        """What is in the output, sorted."""
        return self.streams.numbers(self.output)

    def offsets(self) -> dict[int, int]:
        """The group's."""
        return self.streams.offsets(self.group, self.input)

    def leave(self) -> None:
        """End the membership of the stopped query, so that its offsets can be changed."""
        self.streams.remove_members(self.group)

    def tamper(self, offsets: Mapping[int, int], metadata: str | None = None) -> None:
        """Set the group's offsets, with the stamps that are there or with this metadata."""
        self.leave()
        there = self.streams.committed(self.group, self.input)
        self.streams.set_offsets(
            self.group,
            self.input,
            {
                p: (o, there[p].metadata if metadata is None else metadata)
                for p, o in offsets.items()
            },
        )


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run `eoskafka` with these arguments; its exit code, its output and its messages."""
    try:
        code = app.run(arguments)
    except SystemExit as ended:
        code = int(str(ended.code))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def kv(rows: DataFrame) -> DataFrame:
    """Key and value only."""
    return rows.select("key", "value")


def read(streams: Streams, options: Options) -> list[int]:
    """Everything that a source with these options reads now."""
    output = streams.topic()
    streams.run(streams.sink(kv(streams.source(options=options)), output))
    return streams.numbers(output)


def held(rows: DataFrame, reached: str, at: int = 0, rest_ms: int = 3_000) -> DataFrame:
    """Rows whose task rests at an offset, having set a Java property.

    Not in Python: the sockets on the way there hold megabytes of rows that were read.
    """
    rest = f"""
        concat(java_method('java.lang.System', 'setProperty', '{reached}', 'yes'),
               java_method('java.lang.Thread', 'sleep', cast({rest_ms} as bigint)))
    """
    value = f"""
        if(offset = {at}, regexp_replace({rest}, '^.*$', '{at}'),
           rtrim('x', cast(value as string)))
    """
    return rows.selectExpr("key", f"{value} as value")
