"""What a broker's log segments hold of transactions: which records and offsets were in which one.

A reader of topics does not see that; the producer's id and epoch of each batch tell it, since by
transaction version 2 the epoch moves with each transaction.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatch

_OFFSET_KEYS = (0, 1)
_COMMITTED = 1


@dataclass
class Transaction:
    """One that was committed.

    Attributes:
        producer: the id.
        epoch: of the producer.
        values: of its records in a topic.
        offsets: that it has committed for a group, by input partition.
    """

    producer: int
    epoch: int
    values: list[bytes] = field(default_factory=list)
    offsets: dict[int, int] = field(default_factory=dict)


def transactions(data_dir: Path, output: str, group: str, source: str) -> list[Transaction]:
    """The committed transactions over a topic and a group's offsets, by producer and epoch.

    Args:
        data_dir: of a cluster of one broker.
        output: the topic.
        group: the group.
        source: the topic whose offsets it commits.
    """
    found: dict[tuple[int, int], Transaction] = {}
    committed: dict[str, set[tuple[int, int]]] = defaultdict(set)

    def of(batch: DefaultRecordBatch) -> Transaction:
        ident = batch.producer_id, batch.producer_epoch
        return found.setdefault(ident, Transaction(*ident))

    for topic in (output, "__consumer_offsets"):
        for batch in _batches(data_dir, topic):
            if batch.is_control_batch:
                (marker,) = batch
                if struct.unpack(">hh", marker.key)[1] == _COMMITTED:
                    # A marker has the epoch after the transaction's, by transaction version 2.
                    committed[topic].add((batch.producer_id, batch.producer_epoch - 1))
            elif batch.is_transactional and topic == output:
                of(batch).values += [record.value for record in batch]
            elif batch.is_transactional:
                for record in batch:
                    if (place := _place(record.key)) is not None and place[:2] == (group, source):
                        of(batch).offsets[place[2]] = struct.unpack_from(">q", record.value, 2)[0]
    for ident, transaction in found.items():
        if transaction.values:
            assert ident in committed[output], f"{transaction} has no marker in {output}"
        if transaction.offsets:
            assert ident in committed["__consumer_offsets"], f"{transaction} has no marker"
    return [found[ident] for ident in sorted(found)]


def _batches(data_dir: Path, topic: str) -> Iterator[DefaultRecordBatch]:
    for folder in sorted(data_dir.rglob(f"{topic}-*")):
        if not folder.is_dir() or not folder.name.removeprefix(f"{topic}-").isdigit():
            continue
        for segment in sorted(folder.glob("*.log")):
            records = MemoryRecords(segment.read_bytes())
            while (batch := records.next_batch()) is not None:
                assert isinstance(batch, DefaultRecordBatch)
                yield batch


def _place(key: bytes | None) -> tuple[str, str, int] | None:
    """Group, topic and partition of a committed offset's key; None of another record's."""
    if key is None or struct.unpack_from(">h", key)[0] not in _OFFSET_KEYS:
        return None
    texts, at = [], 2
    for _ in range(2):
        (length,) = struct.unpack_from(">h", key, at)
        texts.append(key[at + 2 : at + 2 + length].decode())
        at += 2 + length
    return texts[0], texts[1], struct.unpack_from(">i", key, at)[0]
