"""What a comparison has found."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from eoskafka.audit.reader import Record

# Enough to see a pattern; the counts are complete.
NAMED_PER_FAULT = 5


class Fault(str, enum.Enum):
    """What can be wrong with a record."""

    LOST = "lost"
    DUPLICATED = "duplicated"
    ALTERED = "altered"
    UNEXPECTED = "unexpected"


@dataclass(frozen=True)
class Finding:
    """One record that is wrong.

    Attributes:
        record: for `LOST` the input record, for every other fault the output record.
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
class Report:
    """The outcome of a comparison.

    Attributes:
        inputs: number of input records.
        outputs: number of output records.
        faults: number of records per fault, complete; zeros included.
        findings: at most `NAMED_PER_FAULT` records of each fault.
    """

    inputs: int
    outputs: int
    faults: dict[Fault, int]
    findings: tuple[Finding, ...]

    @property
    def is_exactly_once(self) -> bool:
        """True if every input record has taken effect once, and nothing else is there."""
        return not any(self.faults.values())


class Wrong(str, enum.Enum):
    """What can be wrong."""

    LOST = "lost"
    DUPLICATED = "duplicated"
    UNEXPECTED = "unexpected"
    REORDERED = "reordered"


@dataclass(frozen=True)
class Example:
    """One record that is wrong, for `LOST` the input's, else the output's.

    Attributes:
        topic: of the record; empty for a row of an expected table.
        partition: of the record.
        offset: of the record; of a row its number.
        key: of the record, as text; None where it has none or was not read again.
    """

    fault: Wrong
    topic: str
    partition: int
    offset: int
    key: str | None = None

    def __str__(self) -> str:
        where = f"{self.topic}-{self.partition}, offset" if self.topic else "expected row"
        key = "" if self.key is None else f", key {self.key!r}"
        return f"{self.fault.value}: {where} {self.offset}{key}"


@dataclass(frozen=True)
class Verdict:
    """The outcome.

    Attributes:
        inputs: records that had to come out.
        optional: records that may have: after the group's offsets, or before the query's start.
        outputs: records that came out.
        faults: number of records per fault, complete; zeros included. `REORDERED` are those that
            came out just after a later one of the same key, both from one partition to one.
        ordered: number of records whose order was looked at: those with an id that only they have
            and the same key in input and output.
        alike: input records that share their id with others, and are not the same records: whether
            one of them is lost where another is there twice cannot be told.
        examples: at most `NAMED_PER_FAULT` of each fault.
    """

    inputs: int
    optional: int
    outputs: int
    faults: dict[Wrong, int]
    ordered: int
    alike: int
    examples: tuple[Example, ...]

    @property
    def is_exactly_once(self) -> bool:
        """True if every record came out once, and nothing else did; the order aside."""
        return not any(n for fault, n in self.faults.items() if fault is not Wrong.REORDERED)

    @property
    def holds(self) -> bool:
        """True if nothing is wrong."""
        return not any(self.faults.values())
