"""What every benchmark does: rounds of one run of each case, in turn; the first ones are warm-ups.

So whatever else the machine does meets all cases alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from eoskafka.bench.brokers import NEARBY, Brokers
from eoskafka.bench.count import Count
from eoskafka.bench.stage import Machine, Phases, Stage, machine


class _Run(Protocol):
    @property
    def round(self) -> int: ...
    @property
    def count(self) -> Count: ...


Case = TypeVar("Case")
Run = TypeVar("Run", bound=_Run)
_RunTold = TypeVar("_RunTold", bound=_Run, contravariant=True)


@dataclass(frozen=True)
class Result(Generic[Run]):
    """All runs, in their order, and what they were made with.

    Attributes:
        settings: the benchmark's.
        machine: where it ran.
        runs: those of round 0 and below are warm-ups.
        brokers: which ones it ran on.
    """

    settings: Any
    machine: Machine
    runs: tuple[Run, ...]
    brokers: Brokers = NEARBY


class Watcher(Phases, Protocol[_RunTold]):
    """Hears what happens."""

    def ran(self, run: _RunTold) -> None:
        """A run has ended and its output is compared."""


def in_rounds(
    there: Stage,
    settings: Any,
    cases: Iterable[Case],
    run: Callable[[Case, int], Run],
    watcher: Watcher[Run],
    warm_ups: int = 1,
) -> Result[Run]:
    """Run each case so many times untimed, and then `settings.rounds` times.

    Args:
        there: where they run.
        settings: the benchmark's.
        cases: what each round runs, in this order.
        run: runs a case in a round.
        watcher: told of each run.
        warm_ups: rounds that are not timed.
    """
    everything = tuple(cases)
    runs = []
    for number in range(1 - warm_ups, settings.rounds + 1):
        for case in everything:
            runs.append(run(case, number))
            watcher.ran(runs[-1])
    return Result(settings, machine(there.spark), tuple(runs), there.brokers)
