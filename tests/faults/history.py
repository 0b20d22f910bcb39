"""What went in, what readers saw, and what is wrong with it, in Jepsen's words.

Every input record has a value of its own, by which its output is known; outputs of one key are in
the order of their inputs. A reader notes records in the order in which it gets them, and from time
to time how far the last stable offset was.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Anomaly(str, enum.Enum):
    """What can be wrong with a history; the names are those of Jepsen's reports on logs."""

    LOST_WRITE = "lost write"
    """An input has taken effect by the group's offset, and its output is not there at the end."""
    DUPLICATE = "duplicate"
    """The output of one input is there at the end more than once."""
    ABORTED_READ = "aborted read"
    """A reader saw a record that is not there at the end: its transaction was aborted."""
    UNSEEN = "unseen"
    """A record is there at the end, and a reader got past its offset without seeing it."""
    PRECOMMITTED_READ = "precommitted read"
    """A reader saw a record above the last stable offset that it asked for afterwards."""
    NON_MONOTONIC = "non-monotonic"
    """A reader got a record before one that it had seen, or outputs of a key are not in order."""
    INCONSISTENT_OFFSETS = "inconsistent offsets"
    """Two different records were seen at one offset of one partition."""
    UNEXPECTED = "unexpected"
    """A record that is the output of no input."""
    UNCOVERED = "uncovered"
    """A reader saw an output, and the group's stable offset, asked for afterwards, was not beyond
    its input: the two were not in one transaction. Jepsen has no such anomaly."""


class Output(NamedTuple):
    """A record of the output topic."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class Stable(NamedTuple):
    """A reader asked for a partition's last stable offset, and got this."""

    partition: int
    offset: int


class Observation(NamedTuple):
    """A group's stable offsets, and how much readers had seen before they were asked for.

    Attributes:
        seen: the number of records and stable offsets that each reader had noted.
        offsets: by input partition; a partition without an offset is absent.
    """

    seen: tuple[int, ...]
    offsets: Mapping[int, int]


@dataclass
class History:
    """What is known of a run.

    Attributes:
        expected: for each input that has taken effect by the group's offset, in input order, its
            key and the value of its output.
        pending: the same for inputs that may or may not have taken effect.
        readers: for each reader what it saw, in the order in which it saw it.
        final: the whole output, read after everything had come to rest.
        in_order: whether outputs of a key must be in the order of their inputs.
        places: partition and offset of the input of each output, by the output's value.
        observations: of the group, with one number per reader of `readers`.
    """

    expected: Sequence[tuple[bytes, bytes]]
    pending: Sequence[tuple[bytes, bytes]] = ()
    readers: Mapping[str, Sequence[Output | Stable]] = field(default_factory=dict)
    final: Sequence[Output] = ()
    in_order: bool = True
    places: Mapping[bytes, tuple[int, int]] = field(default_factory=dict)
    observations: Sequence[Observation] = ()


@dataclass(frozen=True)
class Finding:
    """One anomaly, and the record that shows it."""

    anomaly: Anomaly
    detail: str

    def __str__(self) -> str:
        return f"{self.anomaly.value}: {self.detail}"


def check(history: History) -> list[Finding]:
    """All anomalies of a history; none is the only good answer."""
    return [
        *_outputs(history),
        *(
            finding
            for name, seen in history.readers.items()
            for finding in _reader(name, seen, history.final)
        ),
        *(
            finding
            for number, (name, seen) in enumerate(history.readers.items())
            for finding in _uncovered(history, name, seen, number)
        ),
    ]


def _outputs(history: History) -> Iterable[Finding]:
    """The final output against the inputs."""
    order = {
        value: number for number, (_, value) in enumerate([*history.expected, *history.pending])
    }
    count: dict[bytes | None, int] = defaultdict(int)
    last: dict[bytes | None, int] = {}
    for record in history.final:
        count[record.value] += 1
        number = order.get(record.value) if record.value is not None else None
        if number is None:
            yield Finding(Anomaly.UNEXPECTED, f"{record} is the output of no input")
        elif count[record.value] > 1:
            yield Finding(Anomaly.DUPLICATE, f"{record} came out before")
        elif history.in_order and number < last.get(record.key, -1):
            yield Finding(Anomaly.NON_MONOTONIC, f"{record} comes after a later one of its key")
        else:
            last[record.key] = number
    for key, value in history.expected:
        if not count[value]:
            yield Finding(Anomaly.LOST_WRITE, f"{value!r} of key {key!r} never came out")


def _reader(
    name: str, seen: Sequence[Output | Stable], final: Sequence[Output]
) -> Iterable[Finding]:
    """What one reader saw, against itself and against the final output."""
    stays = {(record.partition, record.offset): record for record in final}
    position: dict[int, int] = {}
    unstable: dict[int, list[Output]] = defaultdict(list)
    first: dict[int, int] = {}
    got: set[tuple[int, int]] = set()
    for event in seen:
        if isinstance(event, Stable):
            for record in unstable.pop(event.partition, []):
                if record.offset >= event.offset:
                    yield Finding(
                        Anomaly.PRECOMMITTED_READ,
                        f"{name} saw {record} before the stable offset {event.offset} got there",
                    )
            continue
        place = (event.partition, event.offset)
        unstable[event.partition].append(event)
        first.setdefault(event.partition, event.offset)
        got.add(place)
        if event.offset < position.get(event.partition, -1):
            yield Finding(
                Anomaly.NON_MONOTONIC,
                f"{name} saw {event} after offset {position[event.partition] - 1}",
            )
        position[event.partition] = max(position.get(event.partition, -1), event.offset + 1)
        if (there := stays.get(place)) is None:
            yield Finding(Anomaly.ABORTED_READ, f"{name} saw {event}, which is gone")
        elif there != event:
            yield Finding(
                Anomaly.INCONSISTENT_OFFSETS, f"{name} saw {event}, others saw {there} there"
            )
    for place, record in stays.items():
        partition, offset = place
        within = first.get(partition, 0) <= offset < position.get(partition, 0)
        if within and place not in got:
            yield Finding(Anomaly.UNSEEN, f"{name} never saw {record}")


def _uncovered(
    history: History, name: str, seen: Sequence[Output | Stable], number: int
) -> Iterable[Finding]:
    """What one reader saw before the group's stable offsets were asked for, against these."""
    highest: dict[int, tuple[int, Output]] = {}
    done = 0
    for observation in history.observations:
        until = observation.seen[number]
        for event in seen[done:until]:
            place = history.places.get(event.value or b"") if isinstance(event, Output) else None
            if isinstance(event, Output) and place is not None:
                partition, offset = place
                if offset > highest.get(partition, (-1, event))[0]:
                    highest[partition] = (offset, event)
        done = max(done, until)
        for partition, (offset, event) in list(highest.items()):
            if offset >= (stable := observation.offsets.get(partition, 0)):
                yield Finding(
                    Anomaly.UNCOVERED,
                    f"{name} saw {event} of input offset {offset} in partition {partition}, and the"
                    f" stable offset was {stable} afterwards",
                )
                del highest[partition]  # one finding for each
