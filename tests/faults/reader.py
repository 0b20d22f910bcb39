"""`Reader`: a `read_committed` consumer that notes what it sees while faults go on."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from itertools import pairwise

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from faults.history import Output, Stable

_POLL_MS = 200
_STABLE_EVERY_S = 1.0
_END_TIMEOUT_S = 30.0
_REQUEST_TIMEOUT_MS = 5_000


class Reader:
    """Reads a topic from its beginning in a thread of its own, until it is closed.

    When a broker fails, a new consumer goes on where the last one was: a client that gives up is
    no anomaly.

    Args:
        servers: brokers, past any proxy.
        topic: with `partitions` partitions.
    """

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        self.seen: list[Output | Stable] = []
        self.longest_stall_s = 0.0
        self._servers = servers
        self._partitions = [TopicPartition(topic, p) for p in range(partitions)]
        self._next = dict.fromkeys(self._partitions, 0)
        self._values: dict[bytes | None, float] = {}
        self._times: dict[int, list[float]] = {p: [] for p in range(partitions)}
        self._moved = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._moved = time.monotonic()
        self._thread.start()

    def close(self) -> None:
        """Stop reading."""
        self._stop.set()
        self._thread.join(_END_TIMEOUT_S)

    def saw(self, value: bytes) -> float | None:
        """When it saw a record with this value (`time.monotonic`), or None."""
        return self._values.get(value)

    def count(self) -> int:
        """How many different values it has seen."""
        return len(self._values)

    def has_all_since(self, moment: float) -> bool:
        """Whether a record of every partition has come since then (`time.monotonic`)."""
        return all(times and times[-1] > moment for times in self._times.values())

    def longest_gap_s(self, began: float, ended: float) -> float:
        """The longest time between two moments in which no record of some partition came."""
        gaps = [0.0]
        for times in self._times.values():
            within = [began, *(time for time in times if began < time < ended), ended]
            gaps += [later - earlier for earlier, later in pairwise(within)]
        return max(gaps)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with closing(
                    KafkaConsumer(
                        bootstrap_servers=self._servers,
                        isolation_level="read_committed",
                        enable_auto_commit=False,
                        auto_offset_reset="none",
                        request_timeout_ms=_REQUEST_TIMEOUT_MS,
                    )
                ) as consumer:
                    self._read(consumer)
            except KafkaError:
                self._stop.wait(_POLL_MS / 1_000)

    def _read(self, consumer: KafkaConsumer) -> None:
        consumer.assign(self._partitions)
        for partition, offset in self._next.items():
            consumer.seek(partition, offset)
        asked = 0.0
        while not self._stop.is_set():
            for partition, records in consumer.poll(_POLL_MS).items():
                for record in records:
                    found = Output(record.partition, record.offset, record.key, record.value)
                    self._note(found, time.monotonic())
                self._next[partition] = records[-1].offset + 1
            if time.monotonic() > asked + _STABLE_EVERY_S:
                for partition, offset in consumer.end_offsets(self._partitions).items():
                    self.seen.append(Stable(partition.partition, offset))
                asked = time.monotonic()

    def _note(self, record: Output, now: float) -> None:
        self.seen.append(record)
        self._values.setdefault(record.value, now)
        self._times[record.partition].append(now)
        self.longest_stall_s = max(self.longest_stall_s, now - self._moved)
        self._moved = now
