"""`Observer`: compares a group's offsets with what readers have seen while faults go on."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import AdminClient

from faults.history import Observation
from faults.reader import Reader

_EVERY_S = 0.5
_REQUEST_S = 10.0
_END_TIMEOUT_S = 30.0


class Observer:
    """Asks for a group's stable offsets from a thread of its own, until it is closed.

    Each time it first notes how much the readers have seen. A transaction that a reader has seen
    has been committed, so the offsets in it are among the stable ones from then on.

    Args:
        servers: brokers, past any proxy.
        group: the query's group.
        topic: the input topic.
        readers: of the output topics.
    """

    def __init__(self, servers: str, group: str, topic: str, readers: Sequence[Reader]) -> None:
        self.observations: list[Observation] = []
        self._group = ConsumerGroupTopicPartitions(group)
        self._topic = topic
        self._readers = readers
        self._admin = AdminClient({"bootstrap.servers": servers, "log_level": "0"})
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
        while not self._stop.wait(_EVERY_S):
            seen = tuple(len(reader.seen) for reader in self._readers)
            try:
                self.observations.append(Observation(seen, self._stable()))
            except KafkaException:
                continue  # a broker is away, or the offsets of an open transaction are in the way

    def _stable(self) -> dict[int, int]:
        asked = self._admin.list_consumer_group_offsets(
            [self._group], require_stable=True, request_timeout=_REQUEST_S
        )
        (answer,) = (future.result() for future in asked.values())
        for place in answer.topic_partitions:
            if place.error:
                raise KafkaException(place.error)
        return {
            place.partition: place.offset
            for place in answer.topic_partitions
            if place.topic == self._topic and place.offset >= 0
        }
