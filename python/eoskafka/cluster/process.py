"""Signals to processes that another Python process may have started.

A pid alone does not identify a process: the process may have ended, and its pid may have been
reused. So the start time of a process is kept with its pid, and no signal is sent unless both
match. This time is the kernel's, in clock ticks since boot. `psutil.Process.create_time` adds the
time of the boot, which the kernel derives from the wall clock: after a clock change, a process that
another Python process has recorded would no longer be recognized.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import time
from pathlib import Path

from eoskafka.errors import ClusterError

_POLL_SECONDS = 0.05


@dataclasses.dataclass(frozen=True)
class ProcessId:
    """A pid and when that process started, in the operating system's own words."""

    pid: int
    started: str

    @staticmethod
    def of(pid: int) -> ProcessId:
        """Name the running process `pid`; ClusterError if there is none."""
        started = _start_time(pid)
        if started is None:
            raise ClusterError(f"process {pid} ended as soon as it was started")
        return ProcessId(pid, started)

    def is_alive(self) -> bool:
        """True while this very process runs (a paused one does, a zombie does not)."""
        return _start_time(self.pid) == self.started

    def send(self, number: signal.Signals) -> bool:
        """Send a signal; False, and nothing sent, if the process is gone."""
        if not self.is_alive():
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    def wait(self, timeout_s: float) -> bool:
        """True once the process has ended, False if it still runs after `timeout_s` seconds."""
        deadline = time.monotonic() + timeout_s
        while self.is_alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True


def _start_time(pid: int) -> str | None:
    """When process `pid` started, or None if it does not run."""
    if not Path("/proc/self/stat").exists():
        return _start_time_from_ps(pid)
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # proc(5): the name in parentheses may hold anything; after it come state (field 3) and, as
    # field 22, the start in clock ticks since boot.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields[19]


def _start_time_from_ps(pid: int) -> str | None:
    """The same where there is no /proc (macOS)."""
    command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    state, _, started = answer.stdout.strip().partition(" ")
    return None if not started or state.startswith("Z") else started.strip()
