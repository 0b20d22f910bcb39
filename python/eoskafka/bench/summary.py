"""What the reports of all benchmarks have in common."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Generic

from rich.table import Table

from eoskafka import __version__
from eoskafka.bench.count import Count
from eoskafka.bench.rounds import Result, Run
from eoskafka.cluster.jars import KAFKA_VERSION


@dataclass(frozen=True)
class Spread:
    """Median, least and greatest of some runs."""

    median: float
    least: float
    greatest: float

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Spread | None:
        """Of those that are known; None if there are none."""
        known = [value for value in values if value is not None]
        return cls(statistics.median(known), min(known), max(known)) if known else None


class Summary(Generic[Run]):
    """The runs of a result. Warm-ups (round 0 and below) count only if they were wrong."""

    def __init__(self, result: Result[Run]) -> None:
        self.result = result
        self.wrong = [run for run in result.runs if not run.count.is_right]

    @property
    def holds(self) -> bool:
        """True if no run, the warm-ups included, lost, doubled or altered anything."""
        return not self.wrong

    def timed(self) -> list[Run]:
        """Those of the timed rounds, the wrong ones included."""
        return [run for run in self.result.runs if run.round > 0]

    def where(self) -> str:
        """The end of a heading: which brokers, if they are not one nearby."""
        text = self.result.brokers.text()
        return f"; {text}" if text else ""

    def json_head(self, benchmark: str) -> dict[str, object]:
        """What the JSON of every benchmark begins with."""
        settings = asdict(self.result.settings)
        if "peers" in settings:
            settings["peers"] = [peer.label for peer in self.result.settings.peers]
        return {
            "benchmark": benchmark,
            "holds": self.holds,
            "settings": settings,
            "machine": asdict(self.result.machine),
            "brokers": self.result.brokers.as_json(),
            "versions": {"eoskafka": __version__, "broker": KAFKA_VERSION},
        }


def new_table(first: str, *others: str) -> Table:
    """One whose first column has names, and the others numbers."""
    table = Table(box=None, pad_edge=False)
    table.add_column(first, no_wrap=True)
    for heading in others:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def ratio_of(ours: list[float | None], theirs: list[float | None]) -> Spread | None:
    """The ratio of the medians, and its spread over the rounds in which both have a value."""
    our, their = Spread.of(ours), Spread.of(theirs)
    rounds = Spread.of(a / b for a, b in zip(ours, theirs, strict=False) if a and b)
    if our is None or their is None or rounds is None:
        return None
    return Spread(our.median / their.median, rounds.least, rounds.greatest)


def median_text(spread: Spread | None, form: str) -> str:
    """The median as text; `-` without one."""
    return format(spread.median, form) if spread else "-"


def as_dict(spread: Spread | None) -> dict[str, float] | None:
    """For JSON."""
    return asdict(spread) if spread else None


def round_name(number: int) -> str:
    """A round in words."""
    return f"round {number}" if number > 0 else "warm-up"


def describe_faults(counted: Count) -> str:
    """What is wrong with an output."""
    faults = ", ".join(f"{number:,} {fault.value}" for fault, number in counted.faults.items())
    return "; ".join((faults, *counted.examples))


def count_as_json(counted: Count) -> dict[str, object]:
    """What came out, and a number for each fault."""
    return {
        "out": counted.records,
        **{fault.value: number for fault, number in counted.faults.items()},
        "examples": list(counted.examples),
    }
