"""The broker and the Spark session that a benchmark's peers share, and a query's run on them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kafka.admin import KafkaAdminClient, NewTopic
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import eoskafka
from eoskafka.bench.errors import BenchError
from eoskafka.bench.peers import BUILT_IN, EOSKAFKA, Peer, peer_jars

PEERS = (BUILT_IN, EOSKAFKA)

# Deleted output would stay on the disk for a minute more, and a round is over sooner.
BROKER_PROPERTIES = {"log.segment.delete.delay.ms": "1000"}

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


@contextmanager
def session(folder: Path) -> Iterator[SparkSession]:
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


def run_to_end(
    spark: SparkSession, peer: Peer, writer: DataStreamWriter
) -> tuple[StreamingQuery, int]:
    """Run one query over the whole input; the query and its time in milliseconds.

    Raises:
        BenchError: the query failed.
    """
    # What the run before has left in the heap is not this one's to clear away.
    spark.sparkContext._jvm.System.gc()  # type: ignore[union-attr]
    began = time.monotonic()
    query = writer.start()
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        raise BenchError(f"the query of {peer.name} failed: {error}") from error
    finally:
        query.stop()
    return query, round((time.monotonic() - began) * 1_000)


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
