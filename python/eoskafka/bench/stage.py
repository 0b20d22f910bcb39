"""The broker and the Spark session that a benchmark's peers share, and a query's run on them."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kafka.admin import KafkaAdminClient, NewTopic
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import eoskafka
from eoskafka.bench.errors import BenchError
from eoskafka.bench.load import load
from eoskafka.bench.peers import BUILT_IN, EOSKAFKA, Peer, peer_jars
from eoskafka.cluster import LocalCluster

PEERS = (BUILT_IN, EOSKAFKA)
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


@dataclass(frozen=True)
class Stage:
    """What runs need: a broker with the input, and a session with every peer in it.

    Attributes:
        bootstrap_servers: of the broker.
        admin: its client.
        spark: the session.
        folder: for checkpoints; deleted in the end.
    """

    bootstrap_servers: str
    admin: KafkaAdminClient
    spark: SparkSession
    folder: Path

    def source(self, peer: Peer, topic: str, **options: int) -> DataFrame:
        """A stream from the topic's beginning."""
        return (
            self.spark.readStream.format(peer.format)
            .option("kafka.bootstrap.servers", self.bootstrap_servers)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .options(**options)
            .load()
        )

    def run(self, peer: Peer, rows: DataFrame, topic: str, mode: str = "append") -> Query:
        """Run one query over the whole input, to this topic; its time in milliseconds too.

        Raises:
            BenchError: the query failed.
        """
        writer = (
            rows.writeStream.format(peer.format)
            .option("kafka.bootstrap.servers", self.bootstrap_servers)
            .option("topic", topic)
            .option("checkpointLocation", str(self.folder / topic))
            .outputMode(mode)
            .trigger(availableNow=True)
        )
        # What the run before has left in the heap is not this one's to clear away.
        self.spark.sparkContext._jvm.System.gc()  # type: ignore[union-attr]
        began = time.monotonic()
        query = writer.start()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            raise BenchError(f"the query of {peer.name} failed: {error}") from error
        finally:
            query.stop()
        return query, round((time.monotonic() - began) * 1_000)

    @contextmanager
    def output(self, name: str, partitions: int) -> Iterator[None]:
        """A new topic for one run; deleted afterwards."""
        create_topic(self.admin, name, partitions)
        try:
            yield
        finally:
            self.admin.delete_topics([name])


@contextmanager
def stage(inputs: Iterable[Input], watcher: Phases) -> Iterator[Stage]:
    """Start everything; whatever happens, nothing of it is left running.

    Raises:
        JarError: the connector's jar is missing or stale.
        BenchError: a peer cannot be built.
        ConfigurationError: a Spark session runs already in this process.
        ClusterError: the broker does not start.
    """
    eoskafka.jar_path()
    watcher.phase("building the peers")
    peer_jars()
    watcher.phase("starting a broker")
    with (
        LocalCluster(properties=_BROKER_PROPERTIES) as cluster,
        closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as admin,
        tempfile.TemporaryDirectory(prefix="eoskafka-bench-") as folder,
    ):
        for each in inputs:
            watcher.phase(f"loading {each.records:,} records of {each.record_bytes} bytes")
            create_topic(admin, each.topic, each.partitions)
            load(
                cluster.bootstrap_servers,
                each.topic,
                partitions=each.partitions,
                records=each.records,
                record_bytes=each.record_bytes,
                keyed=each.keyed,
            )
        watcher.phase("starting Spark")
        with _session(Path(folder)) as spark:
            yield Stage(cluster.bootstrap_servers, admin, spark, Path(folder))


@contextmanager
def _session(folder: Path) -> Iterator[SparkSession]:
    """A session with every peer in it."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(_MASTER)
    for key, value in _SESSION.items():
        builder = builder.config(key, value)
    builder = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    builder = builder.config("spark.jars", ",".join(str(jar) for jar in peer_jars()))
    spark = eoskafka.configure(builder).getOrCreate()
    # Spark repeats for each query what has no bearing on it.
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def create_topic(admin: KafkaAdminClient, name: str, partitions: int) -> None:
    """One that is ready to be written to."""
    admin.create_topics([NewTopic(name, partitions, 1)])
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
