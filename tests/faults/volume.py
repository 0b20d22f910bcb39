"""A file system in user space (FUSE) over a folder, with limits and with faults.

It stands for what checkpoints are put on besides a local disk. With `sequential_only` it has the
limits that Databricks documents for Unity Catalog volumes: a file is written once, from its start
to its end; nothing is appended to a file, and nothing is written in the middle of one.

The file system runs in a process of its own (`volume_calls.py`). Faults are handed over in files of
a folder: `Volume.fail` writes `fault.json`, and each call that it hits adds a line to `hit`. Each
call that a limit refuses adds a line to `refused`.

It needs root, /dev/fuse and libfuse 3 (Debian's package fuse3).
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

from harness.waiting import until

MOUNT_S = 20.0


class Volume:
    """A mounted file system; a context manager that unmounts it.

    Args:
        folder: an empty folder for everything: `on` is the mount point in it.
        sequential_only: refuse what volumes of Unity Catalog refuse.
    """

    def __init__(self, folder: Path, *, sequential_only: bool = False) -> None:
        self.on = folder / "mount"
        self.behind = folder / "behind"
        self._state = folder / "state"
        for each in (self.on, self.behind, self._state):
            each.mkdir(parents=True)
        self._log = folder / "volume.log"
        (self._state / "limits.json").write_text(json.dumps({"sequential_only": sequential_only}))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Volume:
        command = [sys.executable, "-m", "faults.volume_calls", self.behind, self.on, self._state]
        path = os.pathsep.join(sys.path)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*map(str, command)], stderr=log, stdout=log, env={**os.environ, "PYTHONPATH": path}
            )

        def mounted() -> bool:
            ended = self._process is not None and self._process.poll() is not None
            assert not ended, f"no file system: {self._log.read_text()}"
            return os.path.ismount(self.on)

        until(mounted, "a mounted file system", MOUNT_S)
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process is not None
        # Lazily: a process that is still to be killed may have files of it open.
        subprocess.run(["umount", "--lazy", str(self.on)], check=False)
        try:
            self._process.wait(MOUNT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def fail(
        self,
        call: str,
        path: str,
        *,
        times: int = 1,
        error: int = errno.EIO,
        delay_s: float = 0.0,
        done: bool = False,
    ) -> None:
        """From now on calls fail.

        Args:
            call: a method of `Folder`, such as `write` or `rename`.
            path: a regular expression that is searched for in the path, or a new path of `rename`.
            times: so many of them, and then none.
            error: the error number; 0: the call only takes longer.
            delay_s: how long each of them takes first.
            done: the call has its effect all the same, and only its answer is an error.
        """
        for name in ("hit", "fault.json"):
            (self._state / name).unlink(missing_ok=True)
        fault = {"call": call, "path": path, "times": times, "error": error}
        fault.update(delay_s=delay_s, done=done)
        new = self._state / "fault.new"
        new.write_text(json.dumps(fault), encoding="utf-8")
        new.rename(self._state / "fault.json")

    def hits(self) -> list[str]:
        """The calls that failed or were slow since the last `fail`, with their paths."""
        return self._lines("hit")

    def refused(self) -> list[str]:
        """The calls that a limit has refused, with their paths."""
        return self._lines("refused")

    def _lines(self, name: str) -> list[str]:
        file = self._state / name
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else []
