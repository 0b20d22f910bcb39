"""The processes of a job, found by their session.

A job is started as the leader of a session of its own. Whatever it starts stays in that session,
also after its parent was killed; a list of descendants would lose those.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import psutil

from eoskafka.cluster.process import ProcessId
from eoskafka.errors import ClusterError


@dataclass(frozen=True)
class Process:
    """A running process, its parent's pid and its command line."""

    id: ProcessId
    parent: int
    command: str


def of_session(session: int) -> list[Process]:
    """The running processes of a session, in the order of their pids."""
    found = []
    for pid in sorted(psutil.pids()):
        with contextlib.suppress(OSError, psutil.Error, ClusterError):  # it has just ended
            if os.getsid(pid) == session:
                process = psutil.Process(pid)
                command = " ".join(process.cmdline())
                found.append(Process(ProcessId.of(pid), process.ppid(), command))
    return found


def send(processes: Iterable[Process], number: signal.Signals) -> None:
    """Send a signal to those that still run."""
    for process in processes:
        process.id.send(number)


@contextlib.contextmanager
def stopped(processes: Iterable[Process]) -> Iterator[list[Process]]:
    """Stop them (SIGSTOP) while the block runs, then let those that still live go on."""
    held = list(processes)
    try:
        send(held, signal.SIGSTOP)
        yield held
    finally:
        send(held, signal.SIGCONT)
