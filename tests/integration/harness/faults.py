"""Arms the connector's fault points: see `io.eoskafka.faults.FaultPoint`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from harness import tally
from harness.waiting import until

Point = Literal[
    "before-init",
    "after-init",
    "before-flush",
    "after-flush",
    "after-lease",
    "after-refusal",
    "after-offsets",
    "after-commit",
    "before-last-run",
    "before-settlement",
    "before-join",
    "after-join",
    "before-starts",
    "before-run",
    "before-decision",
    "after-decision",
    "half-rolled-forward",
    "before-log",
]
Action = Literal["kill", "stop", "fail", "slow", "stop-slow"]

_TAKEN = ".taken-by-"


class Faults:
    """The fault points of one application.

    Args:
        folder: that its JVMs were started with, `-Dio.eoskafka.faults=<folder>`.
        tail: what the application said last, for the error of a fault that no task takes.
    """

    def __init__(self, folder: Path, tail: Callable[[], str] = str) -> None:
        self.folder = folder
        self._tail = tail
        folder.mkdir(parents=True, exist_ok=True)

    def arm(self, point: Point, action: Action) -> None:
        """The first process to get to `point` from now on does `action`, once."""
        for taken in self.folder.glob(f"{point}{_TAKEN}*"):
            taken.unlink()
        # Renamed into place: a task must not take a file without its text.
        draft = self.folder / f"{point}.draft"
        draft.write_text(action, encoding="utf-8")
        draft.replace(self.folder / point)

    def taken(self, point: Point) -> int | None:
        """The pid of the JVM that has taken the fault, or None."""
        for file in self.folder.glob(f"{point}{_TAKEN}*"):
            return int(file.name.rpartition("-")[2])
        return None

    def wait_taken(self, point: Point, timeout_s: float = 120) -> int:
        """Wait until a task has got to `point`; the pid of its JVM.

        One that stops there has stopped: a signal to go on that came before would be lost.
        """
        pid = until(lambda: self.taken(point), f"a task at {point}", timeout_s, self._tail)
        action = (self.folder / f"{point}{_TAKEN}{pid}").read_text(encoding="utf-8")
        if action == "kill":
            tally.add("kills", 1)
        elif action == "stop":
            until(lambda: _is_stopped(pid), f"the stop of {pid}", timeout_s)
        return pid

    def clear(self) -> None:
        """Disarm everything and forget what was taken."""
        for file in self.folder.iterdir():
            file.unlink(missing_ok=True)


def _is_stopped(pid: int) -> bool:
    state = subprocess.run(
        ["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return state.stdout.strip().startswith("T")
