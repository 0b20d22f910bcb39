"""Counts what came out, record by record, with a client that no peer uses (librdkafka).

Every value carries its number and follows from it (`values.py`), so the numbers of all records
that a `read_committed` consumer sees say which input records are missing or there twice, and the
bytes say which were altered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import kafka.errors
import numpy as np
from confluent_kafka import Message
from numpy.typing import NDArray

from eoskafka.audit import Fault, UndecidedError
from eoskafka.audit.reader import STALL_TIMEOUT_S, stable_ends
from eoskafka.audit.slices import Slice
from eoskafka.audit.slices import read as read_slices
from eoskafka.bench.values import FEWEST_BYTES, numbers, values
from eoskafka.brokers.connection import Connection

# Numbers of wrong records that are named.
_NAMED = 3


@dataclass(frozen=True)
class Count:
    """What a topic holds, against what should be there.

    Attributes:
        records: how many a `read_committed` consumer sees.
        faults: number of records per fault; zeros included. A number that came out three times is
            two duplicates.
        examples: what is wrong, in words, for a few numbers.
    """

    records: int
    faults: dict[Fault, int]
    examples: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        """True if every input record came out once, as it was, and nothing else did."""
        return not any(self.faults.values())


def count(
    bootstrap_servers: str,
    topic: str,
    *,
    records: int,
    record_bytes: int,
    keyed: bool,
) -> Count:
    """Read a whole topic and compare it with records 0 to `records` - 1, as `load` writes them.

    Raises:
        UndecidedError: an open transaction hides records, the broker does not answer, or reading
            stalls.
    """
    tally = Tally(record_bytes, keyed)
    read(bootstrap_servers, topic, tally)
    return tally.against(records)


def number_of_records(bootstrap_servers: str, topic: str) -> int:
    """How many records a `read_committed` consumer sees. Raises as `count`."""
    number = _Number()
    read(bootstrap_servers, topic, number)
    return number.records


class _Number:
    def __init__(self) -> None:
        self.records = 0

    def take(self, keys: list[bytes | None], found: list[bytes]) -> None:
        self.records += len(found)


class Taker(Protocol):
    """Is given what a reader finds."""

    def take(self, keys: list[bytes | None], found: list[bytes]) -> None:
        """Take records: their keys and, in the same order, their values."""


class Tally:
    """Takes what a reader finds, in portions, and holds it against what should be there.

    Args:
        record_bytes: length that every value should have, in bytes.
        keyed: whether every key should be its record's number (8 bytes), or no record has one.
    """

    def __init__(self, record_bytes: int, keyed: bool) -> None:
        self._length = record_bytes
        self._keyed = keyed
        self._numbers: list[NDArray[np.uint64]] = []
        self._altered: list[str] = []
        self._altered_count = 0

    def take(self, keys: list[bytes | None], found: list[bytes]) -> None:
        """Take records: their keys and, in the same order, their values."""
        whole = [i for i, value in enumerate(found) if len(value) == self._length]
        if len(whole) < len(found):
            for value in found:
                if len(value) != self._length:
                    self._alter(f"a value of {len(value)} bytes, not {self._length}, came out")
            keys, found = [keys[i] for i in whole], [found[i] for i in whole]
        rows = np.frombuffer(b"".join(found), dtype=np.uint8).reshape(-1, self._length)
        found_numbers = numbers(rows)
        right = (rows == values(found_numbers, self._length)).all(axis=1)
        expected = [value[:FEWEST_BYTES] for value in found] if self._keyed else [None] * len(found)
        if keys != expected:
            right &= np.array([k == e for k, e in zip(keys, expected, strict=True)])
        for number in found_numbers[~right]:
            self._alter(f"record {number} came out with another key or value")
        self._numbers.append(found_numbers[right])

    def _alter(self, example: str) -> None:
        self._altered_count += 1
        if len(self._altered) < _NAMED:
            self._altered.append(example)

    def against(self, records: int) -> Count:
        """The comparison with records 0 to `records` - 1.

        An altered record is counted as such, and its input record as lost: it never came out.
        """
        found = np.concatenate([np.empty(0, dtype=np.uint64), *self._numbers])
        unexpected = found[found >= records]
        times = np.bincount(found[found < records].astype(np.int64), minlength=records)
        lost, doubled = np.flatnonzero(times == 0), np.flatnonzero(times > 1)
        return Count(
            records=len(found) + self._altered_count,
            faults={
                Fault.LOST: len(lost),
                Fault.DUPLICATED: int((times[doubled] - 1).sum()),
                Fault.ALTERED: self._altered_count,
                Fault.UNEXPECTED: len(unexpected),
            },
            examples=(
                *(f"record {n} never came out" for n in lost[:_NAMED]),
                *(f"record {n} came out {times[n]} times" for n in doubled[:_NAMED]),
                *self._altered,
                *(f"record {n} is not in the input" for n in unexpected[:_NAMED]),
            ),
        )


def read(bootstrap_servers: str, topic: str, taker: Taker) -> None:
    """Hand over every committed record of a topic.

    Raises:
        UndecidedError: as `count`.
    """
    try:
        ends = stable_ends(bootstrap_servers, topic, STALL_TIMEOUT_S)
    except kafka.errors.KafkaError as error:
        raise UndecidedError(f"the end offsets of {topic} cannot be read: {error}") from error

    def take(messages: list[Message]) -> None:
        taker.take([m.key() for m in messages], [m.value() or b"" for m in messages])

    slices = [Slice(partition, 0, end) for partition, end in ends.items()]
    read_slices(Connection(bootstrap_servers, {}), slices, take)
