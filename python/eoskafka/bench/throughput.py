"""Rows per second from topic to topic: the connector against Spark's built-in one.

Both run in one warm Spark session (possible since the connector's Kafka client has a package of
its own), on one broker that is started for this, with the defaults of each. Rounds are interleaved
(built-in, eoskafka, built-in, ...), so that whatever else the machine does meets both. Each run
has an output topic and a checkpoint of its own, reads the whole input, and its output is counted
before its time is believed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from eoskafka.bench.count import Count, count
from eoskafka.bench.peers import Peer
from eoskafka.bench.stage import PEERS, Input, Machine, Phases, Stage, machine, stage

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
    given = Input(
        INPUT_TOPIC, settings.partitions, settings.records, settings.record_bytes, settings.keyed
    )
    with stage([given], watcher) as there:
        runs = []
        for number in range(settings.rounds + 1):
            for peer in PEERS:
                runs.append(_run(there, settings, peer, number))
                watcher.ran(runs[-1])
        where = machine(there.spark)
    return Result(settings, where, tuple(runs))


def _run(there: Stage, settings: Settings, peer: Peer, number: int) -> Run:
    name = f"bench-{peer.format}-{number}"
    with there.output(name, settings.partitions):
        rows = there.source(peer, INPUT_TOPIC).select("key", "value")
        query, query_ms = there.run(peer, rows, name)
        counted = count(
            there.bootstrap_servers,
            name,
            records=settings.records,
            record_bytes=settings.record_bytes,
            keyed=settings.keyed,
        )
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
