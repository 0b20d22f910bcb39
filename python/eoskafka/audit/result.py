"""What a comparison has found, with either engine.

`compare` looks at whole records, so a `Finding` has the record. It does not check their order.
`verify` keeps digests only. So an `Example` says where the record is, and a record whose value is
wrong counts as one that is lost and one that is unexpected.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Generic, TypeVar

from eoskafka.audit.reader import Record

# Enough to see a pattern; the counts are complete.
NAMED_PER_FAULT = 5


class Fault(str, enum.Enum):
    """What can be wrong with a record: `ALTERED` for `compare`, `REORDERED` for `verify` alone."""

    LOST = "lost"
    DUPLICATED = "duplicated"
    ALTERED = "altered"
    UNEXPECTED = "unexpected"
    REORDERED = "reordered"


@dataclass(frozen=True)
class Finding:
    """One record that is wrong.

    Attributes:
        fault: what is wrong with it.
        record: for `LOST` the input record, for every other fault the output record.
        detail: what that means, as a sentence without its end.
    """

    fault: Fault
    record: Record
    detail: str

    def __str__(self) -> str:
        topic = "input" if self.fault is Fault.LOST else "output"
        key = None if self.record.key is None else self.record.key.decode(errors="backslashreplace")
        return (
            f"{self.fault.value}: key {key!r} ({topic} partition {self.record.partition}, "
            f"offset {self.record.offset}): {self.detail}"
        )


@dataclass(frozen=True)
class Example:
    """The place of one record that is wrong: for `LOST` the input record, else the output record.

    Attributes:
        fault: what is wrong with it.
        topic: of the record; empty for a row of an expected table.
        partition: of the record.
        offset: of the record; of a row its number.
        key: of the record, as text; None if it has no key or was not read again.
    """

    fault: Fault
    topic: str
    partition: int
    offset: int
    key: str | None = None

    def __str__(self) -> str:
        where = f"{self.topic}-{self.partition}, offset" if self.topic else "expected row"
        key = "" if self.key is None else f", key {self.key!r}"
        return f"{self.fault.value}: {where} {self.offset}{key}"


@dataclass(frozen=True)
class _Result:
    """What both engines find.

    Attributes:
        inputs: number of input records that had to come out.
        outputs: number of output records.
        faults: number of records for each fault that the engine looks for, zeros included.
    """

    inputs: int
    outputs: int
    faults: dict[Fault, int]

    @property
    def is_exactly_once(self) -> bool:
        """True if each input record came out once and nothing else did, in any order."""
        return not any(n for fault, n in self.faults.items() if fault is not Fault.REORDERED)


@dataclass(frozen=True)
class Report(_Result):
    """The outcome of `compare`.

    Attributes:
        findings: at most `NAMED_PER_FAULT` records of each fault.
    """

    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Verdict(_Result):
    """The outcome of `verify`.

    Attributes:
        optional: number of input records that may, but need not, have come out: those after the
            group's offsets, or before the query's start.
        ordered: number of records whose order was checked: those whose id is unique, and whose key
            is the same in input and output. A record is `REORDERED` if it came out directly after
            a later record of its key, with both read from one partition and written to one.
        alike: number of required input records that share their id with input records that are
            different or optional. If one of these were lost and another one came out in its place,
            the comparison would not notice.
        dead_letters: number of input records that came out as dead letters; these are not among
            `outputs`.
        examples: at most `NAMED_PER_FAULT` of each fault.
    """

    optional: int
    ordered: int
    alike: int
    dead_letters: int
    examples: tuple[Example, ...]

    @property
    def holds(self) -> bool:
        """True if nothing is wrong, the order included."""
        return not any(self.faults.values())


Named = TypeVar("Named", Finding, Example)


class Tally(Generic[Named]):
    """Counts the records of each fault, and keeps the first few of each."""

    def __init__(self, faults: Collection[Fault]) -> None:
        self._faults = faults
        self._counts: Counter[Fault] = Counter()
        self.named: list[Named] = []

    def room(self, fault: Fault) -> int:
        """How many more records of a fault will be kept."""
        return NAMED_PER_FAULT - sum(each.fault is fault for each in self.named)

    def count(self, fault: Fault, records: int) -> None:
        """Count this many records of a fault."""
        self._counts[fault] += records

    def name(self, record: Named) -> None:
        """Keep a record that was counted, if there is room for it."""
        if self.room(record.fault) > 0:
            self.named.append(record)

    def add(self, record: Named) -> None:
        """Count a record, and keep it if there is room for it."""
        self.count(record.fault, 1)
        self.name(record)

    def counts(self) -> dict[Fault, int]:
        """The number of records for each fault, zeros included."""
        return {fault: self._counts[fault] for fault in self._faults}
