"""Milliseconds from a record's way in to its way out, at a steady rate.

A producer writes records at an even pace, each with the time of its sending; a `read_committed`
reader notes when each comes out. Both are librdkafka in this process, so one clock serves for both,
and the time has both of their ways to the broker in it, the same for every peer. Queries run
without a trigger, one micro-batch after another. Every record must come out once.
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from numpy.typing import NDArray
from pyspark.errors import StreamingQueryException

from eoskafka.audit import Fault
from eoskafka.bench.count import Count
from eoskafka.bench.errors import BenchError
from eoskafka.bench.peers import EOSKAFKA, PEERS, STREAMS, Peer
from eoskafka.bench.stage import Machine, Phases, Stage, machine, stage

# The plain loop commits when it likes: its latency is a setting, not a property.
TAKING_PART = (*(peer for peer in PEERS if peer.format is not None), STREAMS)

_TICK_S = 0.005
# After the last record was sent: an open transaction ends within it, or something is wrong.
_LAST_S = 30.0
_START_S = 60.0
_HEAD = struct.Struct(">QQ")


@dataclass(frozen=True)
class Settings:
    """What to measure.

    Attributes:
        rate: records per second.
        seconds: of each timed run, after `warm_up_s`.
        warm_up_s: seconds at the same rate that are not timed.
        record_bytes: length of each value, in bytes; at least 16.
        partitions: of input and output topics.
        rounds: runs of each peer.
        peers: who takes part.
    """

    rate: int
    seconds: int
    warm_up_s: int
    record_bytes: int
    partitions: int
    rounds: int
    peers: tuple[Peer, ...] = TAKING_PART


@dataclass(frozen=True)
class Run:
    """One run of one peer.

    Attributes:
        peer: whose.
        round: from 1.
        p50_ms: median over all timed records.
        p99_ms: 99th percentile.
        greatest_ms: of the slowest record.
        batch_ms: median of Spark's `durationMs.triggerExecution` over batches with input; None for
            a peer that is not in Spark.
        durations_ms: medians of the other parts of Spark's `durationMs`, by name.
        count: what came out.
    """

    peer: Peer
    round: int
    p50_ms: float
    p99_ms: float
    greatest_ms: float
    batch_ms: float | None
    durations_ms: dict[str, float]
    count: Count


@dataclass(frozen=True)
class Result:
    """All runs, in their order, and what they were made with."""

    settings: Settings
    machine: Machine
    runs: tuple[Run, ...]


class Watcher(Phases, Protocol):
    """Hears what happens."""

    def ran(self, run: Run) -> None:
        """A run has ended and its output is compared."""


def measure(settings: Settings, watcher: Watcher, bootstrap_servers: str | None = None) -> Result:
    """Run the benchmark. Arguments and errors are those of `throughput.measure`."""
    with_peers = set(settings.peers) != {EOSKAFKA}
    with stage([], watcher, with_peers=with_peers, bootstrap_servers=bootstrap_servers) as there:
        runs = []
        for number in range(1, settings.rounds + 1):
            for peer in settings.peers:
                runs.append(_run(there, settings, peer, number))
                watcher.ran(runs[-1])
        where = machine(there.spark)
    return Result(settings, where, tuple(runs))


def _run(there: Stage, settings: Settings, peer: Peer, number: int) -> Run:
    name = f"{peer.id}-{number}"
    source = f"{name}-in"
    with (
        there.output(source, settings.partitions) as input_topic,
        there.output(name, settings.partitions) as output_topic,
    ):
        durations: dict[str, float] = {}
        reader = _Arrivals(there.bootstrap_servers, output_topic, settings)
        with _running(there, peer, source, name, durations), reader:
            _feed(there.bootstrap_servers, input_topic, settings)
            reader.wait()
    latencies = reader.latencies_ms()[settings.warm_up_s * settings.rate :]
    p50, p99, greatest = np.nanpercentile(latencies, [50, 99, 100])
    return Run(
        peer=peer,
        round=number,
        p50_ms=float(p50),
        p99_ms=float(p99),
        greatest_ms=float(greatest),
        batch_ms=durations.pop("triggerExecution", None),
        durations_ms=durations,
        count=reader.count(),
    )


@contextmanager
def _running(
    there: Stage, peer: Peer, source: str, name: str, durations: dict[str, float]
) -> Iterator[None]:
    """The peer copies while the block runs; then `durations` has the medians of its batches."""
    if peer.format is None:
        with there.program(peer).following(
            there.prefix + source, there.prefix + name, there.prefix + name
        ):
            yield
        return
    rows = there.source(peer, source).select("key", "value")
    query = there.writer(peer, rows, name).start()
    try:
        deadline = time.monotonic() + _START_S
        while not query.recentProgress:
            if time.monotonic() > deadline or not query.isActive:
                raise BenchError(f"the query of {peer.label} has not begun in {_START_S:g} s")
            time.sleep(0.05)
        yield
        batches = [p.durationMs for p in query.recentProgress if p.numInputRows > 0]
    except StreamingQueryException as error:
        raise BenchError(f"the query of {peer.label} failed: {error}") from error
    finally:
        query.stop()
    for part in batches[-1] if batches else ():
        durations[part] = float(np.median([batch.get(part, 0) for batch in batches]))


def _feed(bootstrap_servers: str, topic: str, settings: Settings) -> None:
    """Write records at an even pace; each has its number and the time of its sending."""
    producer = Producer(
        {"bootstrap.servers": bootstrap_servers, "linger.ms": 0, "enable.idempotence": True}
    )
    rest = bytes(settings.record_bytes - _HEAD.size)
    total = settings.rate * (settings.warm_up_s + settings.seconds)
    began = time.monotonic()
    sent = 0
    while sent < total:
        due = min(total, int((time.monotonic() - began) * settings.rate))
        for n in range(sent, due):
            value = _HEAD.pack(n, time.monotonic_ns()) + rest
            producer.produce(topic, value, partition=n % settings.partitions)
        sent = max(sent, due)
        producer.poll(0)
        time.sleep(_TICK_S)
    if producer.flush(_LAST_S):
        raise BenchError("the input was not written")


class _Arrivals:
    """Reads a topic while it is written to, in a thread of its own."""

    def __init__(self, bootstrap_servers: str, topic: str, settings: Settings) -> None:
        self._total = settings.rate * (settings.warm_up_s + settings.seconds)
        self._length = settings.record_bytes
        self._times: NDArray[np.int64] = np.zeros(self._total, dtype=np.int64)
        self._latencies: NDArray[np.float64] = np.full(self._total, np.nan)
        self._unexpected = 0
        self._altered = 0
        self._ended = threading.Event()
        self._failure: KafkaError | None = None
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                # The client needs a group; nothing joins it or commits to it.
                "group.id": f"{topic}-reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 10,
                "fetch.queue.backoff.ms": 0,
            }
        )
        self._consumer.assign(
            [TopicPartition(topic, partition, 0) for partition in range(settings.partitions)]
        )
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> _Arrivals:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._consumer.close()

    def _read(self) -> None:
        while not self._ended.is_set():
            for message in self._consumer.consume(1_000, 0.01):
                now = time.monotonic_ns()
                if (problem := message.error()) is not None:
                    if not problem.retriable():
                        self._failure = problem
                        return
                    continue
                self._take(message.value() or b"", now)

    def _take(self, value: bytes, now: int) -> None:
        if len(value) != self._length:
            self._altered += 1
            return
        n, sent = _HEAD.unpack_from(value)
        if n >= self._total:
            self._unexpected += 1
            return
        self._times[n] += 1
        if self._times[n] == 1:
            self._latencies[n] = (now - sent) / 1e6

    def wait(self) -> None:
        """Until every record has come out, or long enough; and a while for a second one of it."""
        deadline = time.monotonic() + _LAST_S
        while not self._times.all() and time.monotonic() < deadline:
            if self._failure is not None:
                raise BenchError(f"the output cannot be read: {self._failure}")
            time.sleep(0.1)
        time.sleep(1)

    def latencies_ms(self) -> NDArray[np.float64]:
        """Of every record by its number; NaN for one that did not come."""
        return self._latencies

    def count(self) -> Count:
        """What came out."""
        return Count(
            int(self._times.sum()) + self._altered + self._unexpected,
            {
                Fault.LOST: int((self._times == 0).sum()),
                Fault.DUPLICATED: int((self._times[self._times > 1] - 1).sum()),
                Fault.ALTERED: self._altered,
                Fault.UNEXPECTED: self._unexpected,
            },
            (),
        )
