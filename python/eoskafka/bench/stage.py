"""The brokers and the Spark session that a benchmark's peers share, and their runs on them."""

from __future__ import annotations

import os
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import KafkaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import eoskafka
from eoskafka.bench.errors import BenchError
from eoskafka.bench.load import RUN_RECORDS, load
from eoskafka.bench.peers import Peer, peer_jars
from eoskafka.bench.programs import Program
from eoskafka.cluster import LocalCluster

# A query that has ended, and its time in milliseconds.
Query = tuple[StreamingQuery, int]

# Deleted output would stay on the disk for a minute more, and a round is over sooner.
_BROKER_PROPERTIES = {"log.segment.delete.delay.ms": "1000"}

_SESSION = {
    "spark.app.name": "eoskafka-bench",
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_MASTER = "local[2]"


@dataclass(frozen=True)
class Machine:
    """Where it was measured.

    Attributes:
        cores: that this process may use.
        java: version of Spark's JVM.
        spark: version.
    """

    cores: int
    java: str
    spark: str


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
    run_records: int = RUN_RECORDS


@dataclass(frozen=True)
class Stage:
    """What runs need: brokers with the input, and a session with every peer of Spark in it.

    Attributes:
        bootstrap_servers: of the brokers.
        broker_pid: of the one that was started for this; None on a user's cluster.
        admin: their client.
        spark: the session.
        folder: for checkpoints; deleted in the end.
        prefix: of every topic and group here; ends in a hyphen.
    """

    bootstrap_servers: str
    broker_pid: int | None
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
            program = Program(peer, self.bootstrap_servers, self.folder)
            self._programs[peer] = self._closing.enter_context(program)
        return self._programs[peer]

    def source(self, peer: Peer, topic: str, **options: int | str) -> DataFrame:
        """A stream from the topic's beginning."""
        assert peer.format is not None
        return (
            self.spark.readStream.format(peer.format)
            .option("kafka.bootstrap.servers", self.bootstrap_servers)
            .option("subscribe", self.prefix + topic)
            .option("startingOffsets", "earliest")
            .option("groupIdPrefix", f"{self.prefix}group")
            .options(**_prefixed(peer.clients()["consumer"]))
            .options(**options)
            .load()
        )

    def run(self, peer: Peer, rows: DataFrame, topic: str, mode: str = "append") -> Query:
        """Run one query over the whole input, to this topic; its time in milliseconds too.

        Raises:
            BenchError: the query failed.
        """
        writer = self.writer(peer, rows, topic).outputMode(mode).trigger(availableNow=True)
        began = time.monotonic()
        query = writer.start()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            raise BenchError(f"the query of {peer.label} failed: {error}") from error
        finally:
            query.stop()
        return query, round((time.monotonic() - began) * 1_000)

    def writer(self, peer: Peer, rows: DataFrame, topic: str) -> DataStreamWriter:
        """A query to this topic, to be started at once."""
        assert peer.format is not None
        # What the run before has left in the heap is not this one's to clear away.
        self.spark.sparkContext._jvm.System.gc()  # type: ignore[union-attr]
        return (
            rows.writeStream.format(peer.format)
            .option("kafka.bootstrap.servers", self.bootstrap_servers)
            .option("topic", self.prefix + topic)
            .option("checkpointLocation", str(self.folder / topic))
            .options(**_prefixed(peer.clients()["producer"]))
        )

    @contextmanager
    def output(self, name: str, partitions: int) -> Iterator[str]:
        """A new topic for one run, and its whole name; deleted afterwards."""
        topic = self.prefix + name
        create_topic(self.admin, topic, partitions)
        try:
            yield topic
        finally:
            self.admin.delete_topics([topic])


def _prefixed(settings: dict[str, str]) -> dict[str, str]:
    return {f"kafka.{name}": value for name, value in settings.items()}


@contextmanager
def stage(
    inputs: Iterable[Input],
    watcher: Phases,
    *,
    with_peers: bool = True,
    bootstrap_servers: str | None = None,
) -> Iterator[Stage]:
    """Start everything; whatever happens, nothing of it is left running.

    Args:
        inputs: topics to fill.
        watcher: told what happens.
        with_peers: whether the session needs Spark's built-in connector.
        bootstrap_servers: of a user's cluster, `host:port,...`; None starts a broker.

    Raises:
        JarError: the connector's jar is missing or stale.
        BenchError: a peer cannot be built, or an input cannot be written.
        ConfigurationError: a Spark session runs already in this process.
        ClusterError: the broker does not start.
    """
    eoskafka.jar_path()
    jars = []
    if with_peers:
        watcher.phase("building the peers")
        jars = peer_jars()
    with ExitStack() as closing_all:
        broker_pid = None
        if bootstrap_servers is None:
            watcher.phase("starting a broker")
            cluster = closing_all.enter_context(
                LocalCluster(heap_mb=1024, properties=_BROKER_PROPERTIES)
            )
            bootstrap_servers, broker_pid = cluster.bootstrap_servers, cluster.brokers[0].pid
        admin = closing_all.enter_context(
            closing(KafkaAdminClient(bootstrap_servers=bootstrap_servers))
        )
        prefix = f"eoskafka-bench-{uuid.uuid4().hex[:8]}-"
        closing_all.callback(_remove, admin, prefix)
        folder = Path(
            closing_all.enter_context(tempfile.TemporaryDirectory(prefix="eoskafka-bench-"))
        )
        for each in inputs:
            watcher.phase(f"loading {each.records:,} records of {each.record_bytes:,} bytes")
            create_topic(admin, prefix + each.topic, each.partitions)
            load(
                bootstrap_servers,
                prefix + each.topic,
                partitions=each.partitions,
                records=each.records,
                record_bytes=each.record_bytes,
                keyed=each.keyed,
                run_records=each.run_records,
            )
        watcher.phase("starting Spark")
        spark = closing_all.enter_context(_session(folder, jars))
        there = Stage(bootstrap_servers, broker_pid, admin, spark, folder, prefix)
        closing_all.enter_context(there._closing)
        yield there


def _remove(admin: KafkaAdminClient, prefix: str) -> None:
    """Every topic and group of a benchmark: a user's cluster keeps nothing of it."""
    with suppress(KafkaError):
        if topics := [topic for topic in admin.list_topics() if topic.startswith(prefix)]:
            admin.delete_topics(topics)
        groups = [group["group_id"] for group in admin.list_groups()]
        if own := [group for group in groups if group.startswith(prefix)]:
            admin.delete_groups(own)


@contextmanager
def _session(folder: Path, jars: list[Path]) -> Iterator[SparkSession]:
    """A session with every peer of Spark in it."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(_MASTER)
    for key, value in _SESSION.items():
        builder = builder.config(key, value)
    builder = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    if jars:
        builder = builder.config("spark.jars", ",".join(str(jar) for jar in jars))
    spark = eoskafka.configure(builder).getOrCreate()
    # Spark repeats for each query what has no bearing on it.
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def create_topic(admin: KafkaAdminClient, name: str, partitions: int) -> None:
    """One that is ready to be written to, replicated as the cluster does it."""
    admin.create_topics([NewTopic(name, partitions, -1)])
    admin.wait_for_topics([name])


def machine(spark: SparkSession) -> Machine:
    """This one."""
    system = spark.sparkContext._jvm.System  # type: ignore[union-attr]
    return Machine(
        cores=len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1,
        java=system.getProperty("java.version"),
        spark=spark.version,
    )
