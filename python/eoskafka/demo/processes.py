"""The processes of a job, found by their session.

A job is started as the leader of a session of its own. Whatever it starts stays in that session,
also after its parent was killed; a list of descendants would lose those.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

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
    for pid in sorted(_all_pids()):
        with contextlib.suppress(OSError, ValueError, ClusterError):  # it has just ended
            if os.getsid(pid) == session:
                found.append(Process(ProcessId.of(pid), *_parent_and_command(pid)))
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


def _all_pids() -> list[int]:
    if Path("/proc/self/stat").exists():
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    listed = subprocess.run(["ps", "-A", "-o", "pid="], capture_output=True, text=True, check=True)
    return [int(pid) for pid in listed.stdout.split()]


def _parent_and_command(pid: int) -> tuple[int, str]:
    folder = Path(f"/proc/{pid}")
    if folder.exists():
        # proc(5): after the name in parentheses come the state and the parent's pid.
        parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
        command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    else:
        shown = ["ps", "-o", "ppid=,command=", "-p", str(pid)]
        listed = subprocess.run(shown, capture_output=True, text=True, check=False).stdout
        parent, _, command = listed.strip().partition(" ")
    return int(parent), command
