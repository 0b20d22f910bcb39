"""Milliseconds from a record's way in to its way out, at a steady rate.

A producer writes records at an even pace, each with the time at which it was due; a
`read_committed` reader notes when each comes out. Both are librdkafka in this process, so one clock
serves for both, and the time has both of their ways to the broker in it, the same for every peer.
Queries run without a trigger, one micro-batch after another, or in real-time mode with Spark's own
length of a batch, five minutes: no run has a batch's end in it. All that commit at an interval have
the same one. Every record must come out once.
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial

import numpy as np
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from numpy.typing import NDArray
from pyspark.sql.streaming.query import StreamingQuery

from eoskafka.audit import Fault
from eoskafka.bench.count import Count
from eoskafka.bench.errors import BenchError
from eoskafka.bench.load import produce
from eoskafka.bench.peers import (
    BUILT_IN_REAL_TIME,
    EOSKAFKA,
    LOOP,
    PEERS,
    REAL_TIME,
    Peer,
)
from eoskafka.bench.rounds import Result, Watcher, in_rounds
from eoskafka.bench.stage import Stage, batches, stage

# The plain loop commits when it likes: its latency is a setting, not a property.
TAKING_PART = (
    *(peer for peer in PEERS if peer.name != LOOP.name),
    *(BUILT_IN_REAL_TIME, REAL_TIME),
)

_BATCH = "5 minutes"

_TICK_S = 0.005
# Behind its pace by more than this, a feeder has not sent what the heading says.
_MOST_BEHIND_S = 1.0
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
        rounds: timed runs of each peer, after one untimed run each.
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
        round: 0 is the warm-up.
        p50_ms: median over all timed records.
        p99_ms: 99th percentile.
        greatest_ms: of the slowest record.
        batch_ms: median of Spark's `durationMs.triggerExecution` over timed batches with input;
            None for a peer that is not in Spark.
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


def measure(
    settings: Settings, watcher: Watcher[Run], bootstrap_servers: str | None = None
) -> Result[Run]:
    """Run the benchmark. Arguments and errors are those of `throughput.measure`."""
    with_peers = set(settings.peers) != {EOSKAFKA}
    with stage([], watcher, with_peers=with_peers, bootstrap_servers=bootstrap_servers) as there:
        return in_rounds(there, settings, settings.peers, partial(_run, there, settings), watcher)


def _run(there: Stage, settings: Settings, peer: Peer, number: int) -> Run:
    name = f"{peer.id}-{number}"
    source = f"{name}-in"
    with (
        there.output(source, settings.partitions) as input_topic,
        there.output(name, settings.partitions) as output_topic,
    ):
        durations: dict[str, list[int]] = {}
        arrivals = Arrivals(settings)
        reader = _Reader(there.bootstrap_servers, output_topic, settings.partitions, arrivals)
        with _running(there, peer, source, name, settings.warm_up_s, durations), reader:
            _feed(there.bootstrap_servers, input_topic, settings)
            reader.wait()
    latencies = arrivals.latencies_ms()[settings.warm_up_s * settings.rate :]
    p50, p99, greatest = np.percentile(latencies, [50, 99, 100])
    medians = {part: float(np.median(each)) for part, each in durations.items()}
    return Run(
        peer=peer,
        round=number,
        p50_ms=float(p50),
        p99_ms=float(p99),
        greatest_ms=float(greatest),
        batch_ms=medians.pop("triggerExecution", None),
        durations_ms=medians,
        count=arrivals.count(),
    )


@contextmanager
def _running(
    there: Stage,
    peer: Peer,
    source: str,
    name: str,
    warm_up_s: int,
    durations: dict[str, list[int]],
) -> Iterator[None]:
    """The peer copies while the block runs; then `durations` has what its timed batches took."""
    if peer.format is None:
        with there.program(peer).following(
            there.prefix + source, there.prefix + name, there.prefix + name
        ):
            yield
        return
    writer = there.writer(peer, there.source(peer, source).select("key", "value"), name)
    if peer.real_time:
        writer = writer.outputMode("update").trigger(realTime=_BATCH)  # type: ignore[call-overload]
    query = writer.start()
    try:
        deadline = time.monotonic() + _START_S
        # In real-time mode there is no report before a batch's end.
        while not (query.recentProgress or peer.real_time):
            _require_alive(peer, query)
            if time.monotonic() > deadline:
                raise BenchError(f"the query of {peer.label} has not begun in {_START_S:g} s")
            time.sleep(0.05)
        timed_from = datetime.now(timezone.utc) + timedelta(seconds=warm_up_s)
        yield
        _require_alive(peer, query)
        for batch in batches(query):
            began = datetime.fromisoformat(batch.timestamp.replace("Z", "+00:00"))
            if began >= timed_from:
                for part, ms in batch.durationMs.items():
                    durations.setdefault(part, []).append(ms)
    finally:
        query.stop()
        there.clear_heap()


def _require_alive(peer: Peer, query: StreamingQuery) -> None:
    if (error := query.exception()) is not None:
        raise BenchError(f"the query of {peer.label} failed: {error}")


def _feed(bootstrap_servers: str, topic: str, settings: Settings) -> None:
    """Write records at an even pace; each has its number and the time at which it was due."""
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "linger.ms": 0,
            "enable.idempotence": True,
            "delivery.report.only.error": True,
        }
    )
    rest = bytes(settings.record_bytes - _HEAD.size)
    total = settings.rate * (settings.warm_up_s + settings.seconds)
    began_ns = time.monotonic_ns()
    sent, most_behind_s = 0, 0.0
    while sent < total:
        elapsed_ns = time.monotonic_ns() - began_ns
        due = min(total, elapsed_ns * settings.rate // 10**9)
        for n in range(sent, due):
            due_ns = began_ns + n * 10**9 // settings.rate
            value = _HEAD.pack(n, due_ns) + rest
            produce(producer, topic, value, None, n % settings.partitions, delivered)
        if sent < due:
            most_behind_s = max(most_behind_s, elapsed_ns / 1e9 - sent / settings.rate)
        sent = max(sent, due)
        producer.poll(0)
        time.sleep(_TICK_S)
    left = producer.flush(_LAST_S)
    if failures or left:
        raise BenchError(f"the input was not written: {failures[0] if failures else 'no answer'}")
    if most_behind_s > _MOST_BEHIND_S:
        raise BenchError(
            f"{settings.rate:,} records/s cannot be sent from here: some were "
            f"{most_behind_s:.1f} s late. Choose a lower --rate."
        )


class Arrivals:
    """When each record has come out first, and whether all have, once.

    Args:
        settings: of the run.
    """

    def __init__(self, settings: Settings) -> None:
        self._total = settings.rate * (settings.warm_up_s + settings.seconds)
        self._length = settings.record_bytes
        self._times: NDArray[np.int64] = np.zeros(self._total, dtype=np.int64)
        self._latencies: NDArray[np.float64] = np.full(self._total, np.nan)
        self._unexpected = 0
        self._altered = 0

    def take(self, value: bytes, now_ns: int) -> None:
        """Take a record that came out at a time of `time.monotonic_ns`."""
        if len(value) != self._length:
            self._altered += 1
            return
        n, sent = _HEAD.unpack_from(value)
        if n >= self._total:
            self._unexpected += 1
            return
        self._times[n] += 1
        if self._times[n] == 1:
            self._latencies[n] = (now_ns - sent) / 1e6

    @property
    def are_all_there(self) -> bool:
        """Whether every record has come out."""
        return bool(self._times.all())

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


class _Reader:
    """Reads a topic while it is written to, in a thread of its own."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int, into: Arrivals) -> None:
        self._into = into
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
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> _Reader:
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
                if (problem := message.error()) is None:
                    self._into.take(message.value() or b"", now)
                elif not problem.retriable():
                    self._failure = problem
                    return

    def wait(self) -> None:
        """Until every record has come out, or long enough; and a while for a second one of it."""
        deadline = time.monotonic() + _LAST_S
        while not self._into.are_all_there and time.monotonic() < deadline:
            if self._failure is not None:
                raise BenchError(f"the output cannot be read: {self._failure}")
            time.sleep(0.1)
        time.sleep(1)
