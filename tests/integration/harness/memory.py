"""`MemoryLimit`: a limit on the memory of processes, as the container of a pod has it."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from harness.waiting import until

_END_S = 30.0
_ROOT = Path("/sys/fs/cgroup/memory")


def is_possible() -> bool:
    """Whether this user may make groups of version 1, whose limits include all child processes."""
    return os.access(_ROOT / "memory.limit_in_bytes", os.F_OK) and os.access(_ROOT, os.W_OK)


class MemoryLimit:
    """Until the block ends, by when its processes must have ended.

    Args:
        mib: of all its processes together.
    """

    def __init__(self, mib: int) -> None:
        self._mib = mib
        self._group = _ROOT / f"eos{uuid.uuid4().hex[:6]}"

    def __enter__(self) -> MemoryLimit:
        self._group.mkdir()
        (self._group / "memory.limit_in_bytes").write_text(f"{self._mib}m")
        return self

    def __exit__(self, *error: object) -> None:
        until(self._remove, "the end of the processes", _END_S)

    def _remove(self) -> bool:
        try:
            self._group.rmdir()
        except OSError:  # one of them is still there
            return False
        return True

    def command(self, words: list[str]) -> list[str]:
        """A command whose process, and all that it starts, have the limit."""
        enter = f'echo $$ > {self._group}/cgroup.procs && exec "$@"'
        return ["sh", "-c", enter, "sh", *words]

    def kills(self) -> int:
        """How many processes the kernel has killed because of the limit."""
        said = (self._group / "memory.oom_control").read_text()
        return int(dict(line.split() for line in said.splitlines())["oom_kill"])
