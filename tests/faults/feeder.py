"""`Feeder`: keeps adding records to a topic while brokers come and go."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import closing

from harness.transforms import PARTNER
from kafka import KafkaProducer
from kafka.errors import KafkaError

KEYS = 16
# Records between the two of a pair: some seconds, and so several batches. An even number.
_APART = 1_200

_TICK_S = 0.05
_END_TIMEOUT_S = 60.0


class Feeder:
    """Sends numbered records from a thread of its own, until it is closed.

    Record n has one of 16 keys and the value `n`. It is an idempotent producer, so the input has
    each record at most once and those of a key in order; what the input really has is found out by
    reading it.

    In pairs, record n has a partner of its key with the value `n'`: at once if n is even, and 1,200
    records later if it is odd. What a query then does with a partner depends on what it has kept
    of a batch long before.

    Args:
        servers: brokers, past any proxy.
        topic: to send to.
        rate: records per second, without partners.
        in_pairs: whether records have partners.
    """

    def __init__(self, servers: str, topic: str, rate: int, in_pairs: bool = False) -> None:
        self.sent = 0
        self._servers = servers
        self._topic = topic
        self._rate = rate
        self._in_pairs = in_pairs
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def close(self) -> None:
        """Stop sending, and wait until everything that was sent has arrived or failed."""
        self._stop.set()
        self._thread.join(_END_TIMEOUT_S)

    def _run(self) -> None:
        producer = KafkaProducer(
            bootstrap_servers=self._servers, enable_idempotence=True, acks="all", linger_ms=5
        )
        with closing(producer):
            began = time.monotonic()
            records = self._records()
            key, value = next(records)
            while not self._stop.wait(_TICK_S):
                due = int((time.monotonic() - began) * self._rate)
                while self.sent < due and not self._stop.is_set():
                    try:
                        producer.send(self._topic, key=key, value=value)
                    except KafkaError:
                        began += _TICK_S  # its buffer is full: later
                        break
                    key, value = next(records)

    def _records(self) -> Iterator[tuple[bytes, bytes]]:
        """Key and value of each record, without end; `sent` counts the numbers that are done."""
        for number in itertools.count():
            yield _key(number), b"%d" % number
            partner = number if number % 2 == 0 else number - _APART
            if self._in_pairs and partner >= 0:
                yield _key(partner), b"%d" % partner + PARTNER.encode()
            self.sent = number + 1


def _key(number: int) -> bytes:
    return b"key-%d" % (number % KEYS)
