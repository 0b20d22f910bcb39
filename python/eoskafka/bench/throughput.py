"""Rows per second from topic to topic, and what they cost in CPU time and memory.

All peers run on the same brokers with the same input. Those in Spark share one session (which is
possible because the connector's Kafka client has a package of its own). Each other peer has a JVM
that is kept between runs, so that all are warm. Rounds are interleaved (one run of each, then
again), so that other load on the machine affects all of them. Each run has an output topic and a
checkpoint or group of its own and reads the whole input. Its time counts only after its output has
been checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import DataFrame

from eoskafka.audit import Fault
from eoskafka.audit.compare import FAULTS
from eoskafka.bench.brokers import NEARBY, Brokers
from eoskafka.bench.count import Count, count, number_of_records
from eoskafka.bench.peers import EOSKAFKA, LIMITS, PEERS, READ_ONLY, Peer
from eoskafka.bench.rounds import Result, Watcher, in_rounds
from eoskafka.bench.stage import Input, Stage, batches, stage
from eoskafka.bench.usage import Usage, measured

INPUT_TOPIC = "input"


@dataclass(frozen=True)
class Settings:
    """What to measure.

    Attributes:
        records: in the input topic.
        record_bytes: length of each value, in bytes.
        partitions: of the input topic and of every output topic.
        rounds: timed runs of each peer.
        warm_ups: untimed runs of each before: Java compiles in the first few.
        keyed: whether records have keys (8 bytes, all different).
        plan: between source and sink: `identity` (a select of key and value), or `pandas`
            (`mapInPandas` of a function that returns what it is given).
        peers: who takes part, in this order.
        limits: whether to measure reading and writing alone too.
        slots: of eoskafka's source; None for its default.
    """

    records: int
    record_bytes: int
    partitions: int
    rounds: int
    warm_ups: int = 1
    keyed: bool = False
    plan: str = "identity"
    peers: tuple[Peer, ...] = PEERS
    limits: bool = True
    slots: int | None = None


@dataclass(frozen=True)
class Run:
    """One run of one peer over the whole input.

    Attributes:
        peer: whose; or one of the two limits.
        round: 0 and below are warm-ups.
        batches: micro-batches with input; 0 for a peer without such.
        ms: what rows per second are computed from. In Spark `durationMs.triggerExecution`, summed
            over the query's micro-batches with input: planning, reading, writing and both of
            Spark's log entries. Else from where the peer's clients were ready to the end of its
            last transaction.
        usage: of the peer's JVM and its children, from the start of the run to its end and, after
            it, a full garbage collection.
        broker_cpu_s: of the broker meanwhile; None on a user's cluster.
        count: what the output topic holds.
    """

    peer: Peer
    round: int
    batches: int
    ms: float
    usage: Usage
    broker_cpu_s: float | None
    count: Count

    @property
    def rows_per_s(self) -> float | None:
        """Input rows per second; None for a run that was wrong: it has no time."""
        if not self.count.is_right or self.ms == 0:
            return None
        return self.count.records * 1_000 / self.ms


def measure(settings: Settings, watcher: Watcher[Run], brokers: Brokers = NEARBY) -> Result[Run]:
    """Run the benchmark; whatever happens, nothing that it started is left running.

    Args:
        settings: what to measure.
        watcher: told what happens.
        brokers: where to measure it.

    Raises:
        JarError: the connector's jar is missing or stale.
        BenchError: a peer cannot be built or run.
        ConfigurationError: a Spark session runs already in this process.
        ClusterError: the broker does not start.
        UndecidedError: an output topic cannot be read to its end.
    """
    given = Input(
        INPUT_TOPIC, settings.partitions, settings.records, settings.record_bytes, settings.keyed
    )
    everyone = (*settings.peers, *(LIMITS if settings.limits else ()))
    with_peers = not all(peer.is_ours for peer in everyone)
    with stage([given], watcher, with_peers=with_peers, brokers=brokers) as there:
        return in_rounds(
            *(there, settings, everyone, partial(_run, there, settings), watcher),
            warm_ups=settings.warm_ups,
        )


def _run(there: Stage, settings: Settings, peer: Peer, number: int) -> Run:
    name = f"{peer.id}-{number}"
    with there.output(name, settings.partitions) as topic:
        if peer.format is not None:
            rows = _plan(there, settings, peer)
            with _used(there, there.spark_pid) as (own, broker):
                query = there.run(peer, rows, name)
            durations = [batch.durationMs for batch in batches(query)]
            ms = float(sum(each["triggerExecution"] for each in durations))
        else:
            program = there.program(peer)
            durations = []
            with _used(there, program.pid) as (own, broker):
                ms = program.run(there.prefix + INPUT_TOPIC, topic, topic)
        counted = _count(there, settings, peer, topic)
    return Run(
        peer=peer,
        round=number,
        batches=len(durations),
        ms=ms,
        usage=own,
        broker_cpu_s=broker.cpu_s if broker else None,
        count=counted,
    )


def _plan(there: Stage, settings: Settings, peer: Peer) -> DataFrame:
    options = {"slots": settings.slots} if settings.slots and peer == EOSKAFKA else {}
    rows = there.source(peer, INPUT_TOPIC, **options).select("key", "value")

    # Here, so that Spark's workers are sent the function and need not import this module.
    def same(frames: Iterator[Any]) -> Iterator[Any]:
        yield from frames

    if settings.plan == "pandas":
        return rows.mapInPandas(same, "key binary, value binary")
    return rows


@contextmanager
def _used(there: Stage, pid: int) -> Iterator[tuple[Usage, Usage | None]]:
    """What a peer uses in the block, and the broker."""
    with measured(pid) as own:
        if there.addresses.pid is None:
            yield own, None
        else:
            with measured(there.addresses.pid) as broker:
                yield own, broker


def _count(there: Stage, settings: Settings, peer: Peer, topic: str) -> Count:
    if peer in LIMITS:
        # Reading has counted for itself, and writing repeats a sample: its number must be right.
        found = settings.records
        if peer != READ_ONLY:
            found = number_of_records(there.addresses.direct, topic)
        return Count(
            found,
            {
                **dict.fromkeys(FAULTS, 0),
                Fault.LOST: max(0, settings.records - found),
                Fault.UNEXPECTED: max(0, found - settings.records),
            },
            (),
        )
    return count(
        there.addresses.direct,
        topic,
        records=settings.records,
        record_bytes=settings.record_bytes,
        keyed=settings.keyed,
    )
