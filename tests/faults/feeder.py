"""`Feeder`: keeps adding records to a topic while brokers come and go."""

from __future__ import annotations

import threading
import time
from contextlib import closing

from kafka import KafkaProducer
from kafka.errors import KafkaError

KEYS = 16

_TICK_S = 0.05
_END_TIMEOUT_S = 60.0


class Feeder:
    """Sends numbered records from a thread of its own, until it is closed.

    Record n has one of 16 keys and the value `n`. It is an idempotent producer, so the input has
    each record at most once and those of a key in order; what the input really has is found out by
    reading it.

    Args:
        servers: brokers, past any proxy.
        topic: to send to.
        rate: records per second.
    """

    def __init__(self, servers: str, topic: str, rate: int) -> None:
        self.sent = 0
        self._servers = servers
        self._topic = topic
        self._rate = rate
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
            while not self._stop.wait(_TICK_S):
                due = int((time.monotonic() - began) * self._rate)
                while self.sent < due and not self._stop.is_set():
                    key = b"key-%d" % (self.sent % KEYS)
                    try:
                        producer.send(self._topic, key=key, value=b"%d" % self.sent)
                    except KafkaError:
                        began += _TICK_S  # its buffer is full: later
                        break
                    self.sent += 1
