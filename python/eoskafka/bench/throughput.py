"""Rows per second from topic to topic: the connector against Spark's built-in one.

Both run in one warm Spark session (possible since the connector's Kafka client has a package of
its own), on one broker that is started for this, with the defaults of each. Rounds are interleaved
(built-in, eoskafka, built-in, ...), so that whatever else the machine does meets both. Each run
has an output topic and a checkpoint of its own, reads the whole input, and its output is counted
before its time is believed.
"""

from __future__ import annotations

import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kafka.admin import KafkaAdminClient
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import eoskafka
from eoskafka.bench.count import Count, count
from eoskafka.bench.load import load
from eoskafka.bench.peers import Peer, peer_jars
from eoskafka.bench.stage import (
    BROKER_PROPERTIES,
    PEERS,
    Machine,
    Phases,
    create_topic,
    machine,
    run_to_end,
    session,
)
from eoskafka.cluster import LocalCluster

INPUT_TOPIC = "bench-input"


@dataclass(frozen=True)
class Settings:
    """What to measure.

    Attributes:
        records: in the input topic.
        record_bytes: length of each value, in bytes.
        partitions: of the input topic and of every output topic.
        rounds: timed runs of each peer, after one untimed run each.
        keyed: whether records have keys (8 bytes, all different).
    """

    records: int
    record_bytes: int
    partitions: int
    rounds: int
    keyed: bool = False


@dataclass(frozen=True)
class Run:
    """One run of one peer over the whole input.

    Attributes:
        peer: whose.
        round: 0 is the warm-up.
        batches: micro-batches with input.
        trigger_ms: Spark's `durationMs.triggerExecution`, summed over the query's micro-batches:
            planning, reading, writing and both of Spark's log entries.
        add_batch_ms: Spark's `durationMs.addBatch`, likewise: reading and writing alone.
        query_ms: by our own clock from `start()` until the query has terminated; besides the above
            it has the query's start, such as joining the group.
        count: what the output topic holds.
    """

    peer: Peer
    round: int
    batches: int
    trigger_ms: int
    add_batch_ms: int
    query_ms: int
    count: Count

    @property
    def rows_per_s(self) -> float | None:
        """Input rows per second of `trigger_ms`; None for a run that was wrong: it has no time."""
        if not self.count.is_right or self.trigger_ms == 0:
            return None
        return self.count.records * 1_000 / self.trigger_ms


@dataclass(frozen=True)
class Result:
    """All runs, in their order, and what they were made with."""

    settings: Settings
    machine: Machine
    runs: tuple[Run, ...]


class Watcher(Phases, Protocol):
    """Hears what happens."""

    def ran(self, run: Run) -> None:
        """A run has ended and its output is counted."""


def measure(settings: Settings, watcher: Watcher) -> Result:
    """Run the benchmark; whatever happens, nothing that it started is left running.

    Raises:
        JarError: the connector's jar is missing or stale.
        BenchError: a peer cannot be built or run.
        ConfigurationError: a Spark session runs already in this process.
        ClusterError: the broker does not start.
        UndecidedError: an output topic cannot be read to its end.
    """
    eoskafka.jar_path()
    watcher.phase("building the peers")
    peer_jars()
    watcher.phase("starting a broker")
    with (
        LocalCluster(properties=BROKER_PROPERTIES) as cluster,
        closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as admin,
        tempfile.TemporaryDirectory(prefix="eoskafka-bench-") as folder,
    ):
        watcher.phase(f"loading {settings.records:,} records of {settings.record_bytes} bytes")
        create_topic(admin, INPUT_TOPIC, settings.partitions)
        load(
            cluster.bootstrap_servers,
            INPUT_TOPIC,
            partitions=settings.partitions,
            records=settings.records,
            record_bytes=settings.record_bytes,
            keyed=settings.keyed,
        )
        watcher.phase("starting Spark")
        with session(Path(folder)) as spark:
            bench = _Bench(settings, cluster.bootstrap_servers, admin, spark, Path(folder))
            runs = []
            for number in range(settings.rounds + 1):
                for peer in PEERS:
                    runs.append(bench.run(peer, number))
                    watcher.ran(runs[-1])
            where = machine(spark)
    return Result(settings, where, tuple(runs))


class _Bench:
    def __init__(
        self,
        settings: Settings,
        bootstrap_servers: str,
        admin: KafkaAdminClient,
        spark: SparkSession,
        folder: Path,
    ) -> None:
        self._settings = settings
        self._bootstrap_servers = bootstrap_servers
        self._admin = admin
        self._spark = spark
        self._folder = folder

    def run(self, peer: Peer, number: int) -> Run:
        name = f"bench-{peer.format}-{number}"
        create_topic(self._admin, name, self._settings.partitions)
        try:
            query, query_ms = self._copy(peer, name)
            counted = count(
                self._bootstrap_servers,
                name,
                records=self._settings.records,
                record_bytes=self._settings.record_bytes,
                keyed=self._settings.keyed,
            )
        finally:
            self._admin.delete_topics([name])
        batches = [p.durationMs for p in query.recentProgress if p.numInputRows > 0]
        return Run(
            peer=peer,
            round=number,
            batches=len(batches),
            trigger_ms=sum(batch["triggerExecution"] for batch in batches),
            add_batch_ms=sum(batch["addBatch"] for batch in batches),
            query_ms=query_ms,
            count=counted,
        )

    def _copy(self, peer: Peer, topic: str) -> tuple[StreamingQuery, int]:
        """Run one query over the whole input; the query and its time in milliseconds."""
        rows = (
            self._spark.readStream.format(peer.format)
            .option("kafka.bootstrap.servers", self._bootstrap_servers)
            .option("subscribe", INPUT_TOPIC)
            .option("startingOffsets", "earliest")
            .load()
            .select("key", "value")
        )
        writer = (
            rows.writeStream.format(peer.format)
            .option("kafka.bootstrap.servers", self._bootstrap_servers)
            .option("topic", topic)
            .option("checkpointLocation", str(self._folder / topic))
            .trigger(availableNow=True)
        )
        return run_to_end(self._spark, peer, writer)
