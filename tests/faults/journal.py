"""What a campaign writes down: its faults, enough to repeat them, and what it came to."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from faults.history import Finding

_FILE = "faults.jsonl"


@dataclass(frozen=True)
class Event:
    """A fault, and what readers saw of it.

    Attributes:
        kind: a key of `KINDS`, or two with ` during ` between them.
        target: what the fault hit.
        at_s: when it happened, in seconds from the campaign's start.
        recovery_s: from the fault until a reader saw a record that was sent after it.
        stall_s: from the fault until the query was well again, the longest time in which a reader
            saw no record of some partition. The tasks of a killed driver may still write records
            for a moment; these end the recovery time, but not the stall.
    """

    kind: str
    target: str
    at_s: float
    recovery_s: float
    stall_s: float


@dataclass(frozen=True)
class Journal:
    """The faults of a campaign, enough to repeat them.

    Attributes:
        seed: of the campaign.
        workload: its name.
        events: in the order in which they happened.
    """

    seed: int
    workload: str
    events: tuple[Event, ...]

    @staticmethod
    def append(folder: Path, seed: int, workload: str, event: Event) -> None:
        """Add an event to the journal in `folder`."""
        line = {"seed": seed, "workload": workload, **asdict(event)}
        with (folder / _FILE).open("a", encoding="utf-8") as journal:
            journal.write(json.dumps(line) + "\n")

    @staticmethod
    def read(file: Path) -> Journal:
        """The journal in `file`; ValueError if it has no fault."""
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        if not lines:
            raise ValueError(f"{file} has no fault")
        names = [field.name for field in fields(Event)]
        events = tuple(Event(**{name: line[name] for name in names}) for line in lines)
        return Journal(lines[0]["seed"], lines[0]["workload"], events)


@dataclass(frozen=True)
class Report:
    """The result of a campaign.

    Attributes:
        seed: of the campaign.
        records: the number of input records.
        events: its faults.
        findings: the anomalies; none if every record took effect once.
        longest_stall_s: the longest time in which the reader of the first topic saw no record.
        observations: how often the group's offsets were compared with what readers had seen.
    """

    seed: int
    records: int
    events: tuple[Event, ...]
    findings: tuple[Finding, ...]
    longest_stall_s: float
    observations: int
