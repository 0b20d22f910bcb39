"""Records at an even pace, and when each of them comes out.

A producer writes them, each with its number and the time at which it was due; a `read_committed`
reader notes when each comes out. Both are librdkafka in this process, so one clock serves for both,
and a time has both of their ways to the broker in it.
"""

from __future__ import annotations

import struct
import threading
import time
from dataclasses import dataclass

import numpy as np
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from numpy.typing import NDArray

from eoskafka.audit import Fault
from eoskafka.bench.count import Count
from eoskafka.bench.errors import BenchError
from eoskafka.bench.load import produce

_TICK_S = 0.002
# A feeder that falls behind by more than this does not keep the rate that the heading states.
_MOST_BEHIND_S = 1.0
# The longest wait after the last record was sent: an open transaction must end within this time.
_LAST_S = 30.0
# The most records that a reader takes with one reading of the clock.
_AT_ONCE = 1_000
_HEAD = struct.Struct(">QQ")


@dataclass(frozen=True)
class Stream:
    """What is sent.

    Attributes:
        rate: records per second.
        seconds: for how long.
        record_bytes: length of each value, in bytes; at least 16.
        partitions: of input and output topics.
    """

    rate: int
    seconds: int
    record_bytes: int
    partitions: int

    @property
    def records(self) -> int:
        """How many in all."""
        return self.rate * self.seconds


def feed(bootstrap_servers: str, topic: str, stream: Stream) -> None:
    """Write the records; ends when the last one is written.

    Raises:
        BenchError: one was not written, or this machine is too slow for the pace.
    """
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
    rest = bytes(stream.record_bytes - _HEAD.size)
    total = stream.records
    began_ns = time.monotonic_ns()
    sent, most_behind_s = 0, 0.0
    try:
        while sent < total:
            elapsed_ns = time.monotonic_ns() - began_ns
            due = min(total, elapsed_ns * stream.rate // 10**9)
            for n in range(sent, due):
                due_ns = began_ns + n * 10**9 // stream.rate
                value = _HEAD.pack(n, due_ns) + rest
                produce(producer, topic, value, None, n % stream.partitions, delivered)
            if sent < due:
                most_behind_s = max(most_behind_s, elapsed_ns / 1e9 - sent / stream.rate)
            sent = max(sent, due)
            producer.poll(0)
            time.sleep(_TICK_S)
        left = producer.flush(_LAST_S)
    except KafkaException as error:
        raise BenchError(f"the input was not written: {error}") from error
    if failures or left:
        raise BenchError(f"the input was not written: {failures[0] if failures else 'no answer'}")
    if most_behind_s > _MOST_BEHIND_S:
        raise BenchError(
            f"{stream.rate:,} records/s cannot be sent from this machine: some were "
            f"{most_behind_s:.1f} s late. Choose a lower rate."
        )


class Arrivals:
    """When each record has come out first, and whether all have, once.

    Args:
        stream: what is sent.
    """

    def __init__(self, stream: Stream) -> None:
        self._total = stream.records
        self._length = stream.record_bytes
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


class Reader:
    """Reads a topic while it is written to, in a thread of its own; a context manager."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int, into: Arrivals) -> None:
        self._settings = {
            "bootstrap.servers": bootstrap_servers,
            # The client needs a group; nothing joins it or commits to it.
            "group.id": f"{topic}-reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 10,
            "fetch.queue.backoff.ms": 0,
        }
        self._partitions = [TopicPartition(topic, number, 0) for number in range(partitions)]
        self._into = into
        self._ended = threading.Event()
        self._failure: KafkaError | Exception | None = None
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Reader:
        self._consumer = Consumer(self._settings)
        self._consumer.assign(self._partitions)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._consumer.close()

    def _read(self) -> None:
        try:
            self._follow()
        except Exception as error:
            self._failure = error

    def _follow(self) -> None:
        while not self._ended.is_set():
            # The first at once: `consume` waits until it has as many as it was asked for.
            first = self._consumer.poll(0.1)
            now = time.monotonic_ns()
            if first is None:
                continue
            for message in (first, *self._consumer.consume(_AT_ONCE, 0)):
                if (problem := message.error()) is None:
                    self._into.take(message.value() or b"", now)
                elif not problem.retriable():
                    self._failure = problem
                    return

    def wait(self) -> None:
        """Wait until every record has come out, or for long enough; then wait for duplicates.

        Raises:
            BenchError: the output cannot be read.
        """
        deadline = time.monotonic() + _LAST_S
        while not self._into.are_all_there and time.monotonic() < deadline:
            if self._failure is not None:
                raise BenchError(f"the output cannot be read: {self._failure}")
            time.sleep(0.1)
        time.sleep(1)
