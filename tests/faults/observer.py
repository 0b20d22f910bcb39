"""`Observer`: compares a group's offsets with what readers have seen while faults go on."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import closing

from eoskafka.brokers.groups import stable
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from faults.history import Observation
from faults.reader import Reader

_EVERY_S = 0.5
_REQUEST_MS = 5_000
_END_TIMEOUT_S = 30.0


class Observer:
    """Asks for a group's stable offsets from a thread of its own, until it is closed.

    Each time it first notes how much the readers have seen. A transaction that a reader has seen
    has been committed, so the offsets in it are among the stable ones from then on.

    Args:
        servers: brokers, past any proxy.
        group: the query's group.
        topic: the input topic, with `partitions` partitions.
        readers: of the output topics.
    """

    def __init__(
        self, servers: str, group: str, topic: str, partitions: int, readers: Sequence[Reader]
    ) -> None:
        self.observations: list[Observation] = []
        self._servers = servers
        self._group = group
        self._partitions = [TopicPartition(topic, number) for number in range(partitions)]
        self._readers = readers
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin to observe."""
        self._thread.start()

    def close(self) -> None:
        """Stop observing."""
        self._stop.set()
        self._thread.join(_END_TIMEOUT_S)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with closing(
                    KafkaAdminClient(
                        bootstrap_servers=self._servers, request_timeout_ms=_REQUEST_MS
                    )
                ) as admin:
                    while not self._stop.wait(_EVERY_S):
                        self._observe(admin)
            except KafkaError:
                self._stop.wait(_EVERY_S)  # a broker is away

    def _observe(self, admin: KafkaAdminClient) -> None:
        seen = tuple(len(reader.seen) for reader in self._readers)
        offsets, open_ = stable(admin, self._group, self._partitions)
        if not open_:
            found = {partition.partition: each.offset for partition, each in offsets.items()}
            self.observations.append(Observation(seen, found))
