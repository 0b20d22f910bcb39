"""What a `read_committed` consumer sees of the output while the job runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafka import KafkaConsumer, TopicPartition

_MAX_POLL_RECORDS = 20_000
_POLL_MS = 5


@dataclass(frozen=True)
class State:
    """A moment of a job.

    Attributes:
        seconds: since its input was released.
        inputs: input records in finished batches.
        outputs: output records that a `read_committed` consumer has seen.
        duplicates: those of them whose key it had seen before.
        kills: number of kills so far.
        lost: input records that never came out; None before the end, since they may still come.
    """

    seconds: float
    inputs: int = 0
    outputs: int = 0
    duplicates: int = 0
    kills: int = 0
    lost: int | None = None


class Follower:
    """A consumer of an output topic. It shows how far the job is; the verdict is the audit's."""

    def __init__(self, bootstrap_servers: str, partitions: Sequence[TopicPartition]) -> None:
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap_servers,
            isolation_level="read_committed",
            enable_auto_commit=False,
            check_crcs=False,  # in Python they cost more than everything else
        )
        self._consumer.assign(partitions)
        self._consumer.seek_to_beginning(*partitions)
        self._keys: set[bytes | None] = set()
        self.outputs = 0

    @property
    def duplicates(self) -> int:
        """Records so far whose key came before."""
        return self.outputs - len(self._keys)

    def read(self) -> None:
        """Take what has arrived, without waiting for more."""
        for records in self._consumer.poll(_POLL_MS, _MAX_POLL_RECORDS).values():
            self.outputs += len(records)
            self._keys.update(record.key for record in records)

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()
