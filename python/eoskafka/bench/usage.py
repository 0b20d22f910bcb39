"""CPU time and memory of processes while something runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

# Between two looks at the memory: a JVM's changes slowly.
_LOOK_S = 0.1


@dataclass
class Usage:
    """What a process and its children have used, once the block has ended.

    Attributes:
        cpu_s: CPU seconds, user and system.
        peak_bytes: the most resident memory seen, looked at ten times a second; pages that
            processes share count for each.
    """

    cpu_s: float = 0.0
    peak_bytes: int = 0


@contextmanager
def measured(pid: int) -> Iterator[Usage]:
    """Measure a process of this machine, and its children, while the block runs."""
    usage = Usage()
    root = psutil.Process(pid)
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(_LOOK_S):
            usage.peak_bytes = max(usage.peak_bytes, sum(map(_memory, _tree(root))))

    looker = threading.Thread(target=look, daemon=True)
    before = sum(map(_cpu_s, _tree(root)))
    looker.start()
    try:
        yield usage
    finally:
        usage.cpu_s = sum(map(_cpu_s, _tree(root))) - before
        ended.set()
        looker.join()


def _tree(root: psutil.Process) -> list[psutil.Process]:
    try:
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _cpu_s(process: psutil.Process) -> float:
    """Its own, and that of its children that have ended."""
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    ended = getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    return float(times.user + times.system + ended)


def _memory(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0
