"""What a broker's log segments hold of transactions: which records and offsets were in which one.

A reader of topics does not see that; the producer's id and epoch of each batch tell it, since by
transaction version 2 the epoch moves with each transaction.
"""

from __future__ import annotations

import struct
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatch

_OFFSET_KEYS = (0, 1)
_COMMITTED = 1
_OFFSETS = "__consumer_offsets"
_MARKERS_S = 20.0

# By producer and epoch, and by topic: the kind of marker.
Ends = dict[tuple[int, int], dict[str, int]]


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
    deadline = time.monotonic() + _MARKERS_S
    while True:
        found, ends = _read(data_dir, output, group, source)
        # Markers are written after a commit has been answered.
        open_ = [ident for ident in found if not _has_ended(found[ident], ends, output)]
        if not open_:
            break
        assert time.monotonic() < deadline, f"without a marker: {open_}"
        time.sleep(0.2)
    return [found[ident] for ident in sorted(found) if _COMMITTED in ends[ident].values()]


def _has_ended(transaction: Transaction, ends: Ends, output: str) -> bool:
    """Whether it has the same end wherever it has written something."""
    mine = ends[transaction.producer, transaction.epoch]
    places = [(output, transaction.values), (_OFFSETS, transaction.offsets)]
    kinds = {mine.get(place) for place, has in places if has}
    return len(kinds) == 1 and None not in kinds


def _read(
    data_dir: Path, output: str, group: str, source: str
) -> tuple[dict[tuple[int, int], Transaction], Ends]:
    found: dict[tuple[int, int], Transaction] = {}
    ends: Ends = defaultdict(dict)

    def of(batch: DefaultRecordBatch) -> Transaction:
        ident = batch.producer_id, batch.producer_epoch
        return found.setdefault(ident, Transaction(*ident))

    for topic in (output, _OFFSETS):
        for batch in _batches(data_dir, topic):
            if batch.is_control_batch:
                (marker,) = batch
                # A marker has the epoch after the transaction's, by transaction version 2.
                ident = batch.producer_id, batch.producer_epoch - 1
                ends[ident][topic] = struct.unpack(">hh", marker.key)[1]
            elif batch.is_transactional and topic == output:
                of(batch).values += [record.value for record in batch]
            elif batch.is_transactional:
                for record in batch:
                    if (place := _place(record.key)) is not None and place[:2] == (group, source):
                        of(batch).offsets[place[2]] = struct.unpack_from(">q", record.value, 2)[0]
    return found, ends


def _batches(data_dir: Path, topic: str) -> Iterator[DefaultRecordBatch]:
    # Not `rglob`: it would look into the folders of other topics, which may be about to be deleted.
    of_all, of_one = data_dir.glob(f"*/data/{topic}-*"), data_dir.glob(f"data/{topic}-*")
    for folder in sorted([*of_all, *of_one]):
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
