"""The brokers and the Spark session that a benchmark's peers share, and their runs on them."""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Protocol

from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import KafkaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import eoskafka
from eoskafka._jar import build_properties
from eoskafka.audit import UndecidedError
from eoskafka.bench.brokers import NEARBY, Addresses, Brokers, running
from eoskafka.bench.errors import BenchError
from eoskafka.bench.load import RUN_RECORDS, load
from eoskafka.bench.peers import Peer, peer_jars
from eoskafka.bench.programs import RUN_TIMEOUT_S, Program

# Of a broker besides its inputs' partitions: jars, outputs, connections of a thousand producers.
_OTHER_FILES = 6_000
# A controller takes no more than 10,000 records in one request.
_MOST_AT_ONCE = 4_000
# For thousands of partitions on one busy machine: a budget, not a measure.
_TOPIC_S = 120.0

_SESSION = {
    "spark.app.name": "eoskafka-bench",
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # All batches of a run, not the last hundred.
    "spark.sql.streaming.numRecentProgressUpdates": "100000",
    # For the clients' own metrics, which are asked for by reflection.
    "spark.driver.extraJavaOptions": "--add-exports="
    "java.management/com.sun.jmx.mbeanserver=ALL-UNNAMED",
}
_DIGEST_CHARS = 12
# Of real-time mode: Spark's default.
_BATCH = "5 minutes"
CORES = 2
_MASTER = f"local[{CORES}]"


@dataclass(frozen=True)
class Machine:
    """Where it was measured, and with what.

    Attributes:
        cores: that this process may use.
        java: version of Spark's JVM.
        spark: version.
        connector: the beginning of a digest of the sources that the connector's jar is built from.
        date: of the end, in UTC.
    """

    cores: int
    java: str
    spark: str
    connector: str
    date: str


class Phases(Protocol):
    """Hears what happens."""

    def phase(self, text: str) -> None:
        """The next thing begins."""


@dataclass(frozen=True)
class Input:
    """An input topic: records 0 to `records` - 1, as `load` writes them."""

    topic: str
    partitions: int
    records: int
    record_bytes: int
    keyed: bool = False

    @property
    def run_records(self) -> int:
        """Records in a row that go to one partition: few enough that each partition gets some."""
        return max(1, min(RUN_RECORDS, self.records // self.partitions))


@dataclass(frozen=True)
class Stage:
    """What runs need: brokers with the input, and a session with every peer of Spark in it.

    Attributes:
        brokers: which ones these are.
        addresses: where they are.
        admin: their client.
        spark: the session.
        folder: for checkpoints; deleted in the end.
        prefix: of every topic and group here; ends in a hyphen.
    """

    brokers: Brokers
    addresses: Addresses
    admin: KafkaAdminClient
    spark: SparkSession
    folder: Path
    prefix: str
    _programs: dict[Peer, Program] = field(default_factory=dict)
    _closing: ExitStack = field(default_factory=ExitStack)

    @property
    def spark_pid(self) -> int:
        """Of the session's JVM."""
        gateway = self.spark.sparkContext._gateway
        assert gateway is not None
        return int(gateway.proc.pid)

    def program(self, peer: Peer) -> Program:
        """The JVM of a peer that is not in Spark; started when it is first asked for."""
        if peer not in self._programs:
            program = Program(peer, self.addresses.of_peers, self.folder)
            self._programs[peer] = self._closing.enter_context(program)
        return self._programs[peer]

    def source(self, peer: Peer, topic: str, **options: int | str) -> DataFrame:
        """A stream from the topic's beginning."""
        assert peer.format is not None
        return (
            self.spark.readStream.format(peer.format)
            .option("kafka.bootstrap.servers", self.addresses.of_peers)
            .option("subscribe", self.prefix + topic)
            .option("startingOffsets", "earliest")
            .option("groupIdPrefix", f"{self.prefix}group")
            .options(**_prefixed(peer.clients()["consumer"]))
            .options(**options)
            .load()
        )

    def run(self, peer: Peer, rows: DataFrame, topic: str, mode: str = "append") -> StreamingQuery:
        """Run one query over the whole input, to this topic.

        Raises:
            BenchError: the query failed.
        """
        writer = self.writer(peer, rows, topic).outputMode(mode).trigger(availableNow=True)
        query = writer.start()
        try:
            if not query.awaitTermination(int(RUN_TIMEOUT_S)):
                raise BenchError(
                    f"the query of {peer.label} has not ended within {RUN_TIMEOUT_S:g} s"
                )
        except StreamingQueryException as error:
            raise BenchError(f"the query of {peer.label} failed: {error}") from error
        finally:
            query.stop()
            self.clear_heap()
        return query

    @contextmanager
    def running(
        self, peer: Peer, source: str, topic: str, options: dict[str, str]
    ) -> Iterator[StreamingQuery]:
        """A query without end, from topic to topic, while the block runs: one micro-batch after
        another, or in real-time mode. eoskafka's group has the name of the output.
        """
        group = {"kafka.group.id": self.prefix + topic} if peer.is_ours else {}
        rows = self.source(peer, source, **group).select("key", "value")
        writer = self.writer(peer, rows, topic).options(**options)
        if peer.real_time:
            writer = writer.outputMode("update").trigger(realTime=_BATCH)  # type: ignore[call-overload]
        query = writer.start()
        try:
            yield query
        finally:
            query.stop()
            self.clear_heap()

    def producer_metric(self, group: str, name: str) -> float:
        """A metric of Kafka's client, added up over the producers of a group's running query.

        Raises:
            BenchError: it has none.
        """
        jvm = self.spark.sparkContext._jvm
        assert jvm is not None
        beans = jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
        names = beans.queryNames(
            jvm.javax.management.ObjectName("kafka.producer:type=producer-metrics,*"), None
        )
        own = [each for each in names if f"-{group}-" in str(each)]
        if not own:
            raise BenchError(f"no producer of group {group} has metrics")
        return sum(float(beans.getAttribute(each, name)) for each in own)

    def clear_heap(self) -> None:
        """Collect the garbage of a run, so that the next run does not have to."""
        self.spark.sparkContext._jvm.System.gc()  # type: ignore[union-attr]

    def writer(self, peer: Peer, rows: DataFrame, topic: str) -> DataStreamWriter:
        """A query to this topic."""
        assert peer.format is not None
        return (
            rows.writeStream.format(peer.format)
            .option("kafka.bootstrap.servers", self.addresses.of_peers)
            .option("topic", self.prefix + topic)
            .option("checkpointLocation", str(self.folder / topic))
            .options(**_prefixed(peer.clients()["producer"]))
        )

    @contextmanager
    def output(self, name: str, partitions: int) -> Iterator[str]:
        """A new topic for one run, and its whole name; deleted afterwards."""
        topic = self.prefix + name
        create_topic(self.admin, topic, partitions)
        yield topic
        # After a failure everything is removed together.
        self.admin.delete_topics([topic])


def batches(query: StreamingQuery) -> list[StreamingQueryProgress]:
    """The micro-batches of a query that had input, in their order."""
    return [progress for progress in query.recentProgress if progress.numInputRows > 0]


def commits_ms(progress: Iterable[StreamingQueryProgress]) -> list[int]:
    """How long the sink took to commit each micro-batch; empty for a sink that does not say it."""
    found = (each.sink.metrics.get("commitLatencyMs") for each in progress)
    return [int(ms) for ms in found if ms is not None]


def planning_ms(durations: Mapping[str, int]) -> int:
    """What a micro-batch took besides reading and writing, and Spark's two log entries."""
    others = ("addBatch", "walCommit", "commitOffsets")
    return durations["triggerExecution"] - sum(durations[each] for each in others)


def records_read(query: StreamingQuery) -> int:
    """Records up to where a query has read, from the beginning of its only source's topics."""
    last = query.lastProgress
    if last is None or not last.sources[0].endOffset:
        return 0
    topics = json.loads(last.sources[0].endOffset).values()
    return sum(offset for partitions in topics for offset in partitions.values())


def _prefixed(settings: dict[str, str]) -> dict[str, str]:
    return {f"kafka.{name}": value for name, value in settings.items()}


@contextmanager
def stage(
    inputs: Collection[Input],
    watcher: Phases,
    *,
    with_peers: bool = True,
    brokers: Brokers = NEARBY,
    spark_conf: Mapping[str, str] | None = None,
) -> Iterator[Stage]:
    """Start everything; whatever happens, nothing of it is left running.

    Args:
        inputs: topics to fill.
        watcher: told what happens.
        with_peers: whether the session needs Spark's built-in connector.
        brokers: where it runs.
        spark_conf: further settings of the session.

    Raises:
        JarError: the connector's jar is missing or stale.
        BenchError: a peer cannot be built, the brokers refuse something, or an input cannot be
            written.
        UndecidedError: the brokers do not answer.
        ConfigurationError: a Spark session runs already in this process.
        ClusterError: the broker does not start.
    """
    eoskafka.jar_path()
    jars = []
    if with_peers:
        watcher.phase("building the peers")
        jars = peer_jars()
    with ExitStack() as closing_all:
        if brokers.servers is None:
            _require_files(sum(each.partitions for each in inputs))
            watcher.phase("starting the brokers")
        addresses = closing_all.enter_context(running(brokers))
        admin = closing_all.enter_context(closing(_admin(addresses.direct)))
        prefix = f"eoskafka-bench-{uuid.uuid4().hex[:8]}-"
        closing_all.callback(_remove, admin, prefix)
        folder = Path(
            closing_all.enter_context(tempfile.TemporaryDirectory(prefix="eoskafka-bench-"))
        )
        for each in inputs:
            watcher.phase(f"loading {each.records:,} records of {each.record_bytes:,} bytes")
            create_topic(admin, prefix + each.topic, each.partitions)
            load(
                addresses.direct,
                prefix + each.topic,
                partitions=each.partitions,
                records=each.records,
                record_bytes=each.record_bytes,
                keyed=each.keyed,
                run_records=each.run_records,
            )
        watcher.phase("starting Spark")
        spark = closing_all.enter_context(_session(folder, jars, spark_conf or {}))
        there = Stage(brokers, addresses, admin, spark, folder, prefix)
        closing_all.enter_context(there._closing)
        yield there


def _admin(bootstrap_servers: str) -> KafkaAdminClient:
    try:
        return KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    except KafkaError as error:
        raise UndecidedError(f"no broker answers at {bootstrap_servers}: {error}") from error


def _remove(admin: KafkaAdminClient, prefix: str) -> None:
    """Every topic and group of a benchmark: a user's cluster keeps nothing of it."""
    left = []
    try:
        topics = [topic for topic in admin.list_topics() if topic.startswith(prefix)]
        if topics:
            admin.delete_topics(topics)
    except KafkaError as error:
        left.append(f"topics ({error})")
    try:
        groups = [group["group_id"] for group in admin.list_groups()]
        own = [group for group in groups if group.startswith(prefix)]
        answers = admin.delete_groups(own) if own else {}
        left += [f"group {group} ({answers[group]})" for group in own if answers[group] != "OK"]
    except KafkaError as error:
        left.append(f"groups ({error})")
    if left:
        print(f"not removed, of {prefix}...: {'; '.join(left)}", file=sys.stderr)


def _require_files(partitions: int) -> None:
    """A broker holds a file open for each partition, and another one for each connection."""
    _, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY != allowed < partitions + _OTHER_FILES:
        raise BenchError(
            f"on this machine a process can have {allowed:,} files open (ulimit -Hn), but a broker "
            f"with {partitions:,} partitions needs {partitions + _OTHER_FILES:,}: raise the limit, "
            "or ask for fewer partitions"
        )


@contextmanager
def _session(folder: Path, jars: list[Path], conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session with every peer of Spark in it."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Python workers are other processes, and need this one's packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(_MASTER)
    for key, value in {**_SESSION, **conf}.items():
        builder = builder.config(key, value)
    builder = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    if jars:
        builder = builder.config("spark.jars", ",".join(str(jar) for jar in jars))
    spark = eoskafka.configure(builder, real_time=True).getOrCreate()
    # Spark repeats irrelevant messages for each query, and logs an error when a batch in real-time
    # mode is stopped. If a query fails, pyspark raises an exception anyway.
    spark.sparkContext.setLogLevel("FATAL")
    try:
        yield spark
    finally:
        spark.stop()


def create_topic(admin: KafkaAdminClient, name: str, partitions: int) -> None:
    """One that is ready to be written to, replicated as the cluster does it."""
    try:
        admin.create_topics([NewTopic(name, min(partitions, _MOST_AT_ONCE), -1)])
        for total in range(2 * _MOST_AT_ONCE, partitions + _MOST_AT_ONCE, _MOST_AT_ONCE):
            admin.create_partitions({name: min(total, partitions)})
    except KafkaError as error:
        raise BenchError(f"topic {name} cannot be created: {error}") from error
    deadline = time.monotonic() + _TOPIC_S
    while len(_led(admin, name)) < partitions:
        if time.monotonic() > deadline:
            raise BenchError(f"topic {name} did not get its {partitions:,} partitions in time")
        time.sleep(0.1)


def _led(admin: KafkaAdminClient, name: str) -> list[int]:
    """The partitions of a topic that can be written to."""
    try:
        (found,) = admin.describe_topics([name])
    except KafkaError:
        return []
    return [each["partition_index"] for each in found["partitions"] if each["leader_id"] >= 0]


def machine(spark: SparkSession) -> Machine:
    """This one."""
    system = spark.sparkContext._jvm.System  # type: ignore[union-attr]
    return Machine(
        cores=len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1,
        java=system.getProperty("java.version"),
        spark=spark.version,
        connector=build_properties(eoskafka.jar_path())["sources"][:_DIGEST_CHARS],
        date=datetime.now(timezone.utc).date().isoformat(),
    )
