"""The process of a file system in user space: `python -m faults.volume_calls FOLDER MOUNT STATE`.

`faults.volume` starts it, and says what STATE has. It serves until it is unmounted.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import mfusepy

_STAT = ("st_mode", "st_nlink", "st_size", "st_uid", "st_gid", "st_atime", "st_mtime", "st_ctime")
_DISK = ("f_bsize", "f_frsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree", "f_favail")


class Folder(mfusepy.Operations):  # type: ignore[misc]  # it has no types
    """The calls of the file system, each done in a folder.

    Args:
        folder: where the files are.
        state: for faults and what became of them.
    """

    use_ns = False

    def __init__(self, folder: Path, state: Path) -> None:
        self._folder = folder
        self._state = state
        limits = json.loads((state / "limits.json").read_text(encoding="utf-8"))
        self._sequential_only: bool = limits["sequential_only"]
        self._counting = threading.Lock()
        for name, method in vars(Folder).items():
            if callable(method) and not name.startswith("_"):
                setattr(self, name, partial(self._faulty, name, getattr(self, name)))

    def _faulty(self, op: str, method: Callable[..., Any], *args: Any) -> Any:
        paths = [arg for arg in args[:2] if isinstance(arg, str)]
        fault = self._fault(op, paths)
        if fault is None:
            return method(*args)
        time.sleep(fault["delay_s"])
        if fault["error"] and not fault["done"]:
            raise mfusepy.FuseOSError(fault["error"])
        result = method(*args)
        if fault["error"]:
            raise mfusepy.FuseOSError(fault["error"])
        return result

    def _fault(self, op: str, paths: list[str]) -> dict[str, Any] | None:
        try:
            text = (self._state / "fault.json").read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        fault: dict[str, Any] = json.loads(text)
        if fault["call"] != op or not any(re.search(fault["path"], path) for path in paths):
            return None
        with self._counting:
            hit = self._state / "hit"
            if hit.exists() and len(hit.read_text(encoding="utf-8").splitlines()) >= fault["times"]:
                return None
            self._note("hit", op, paths)
        return fault

    def _note(self, name: str, op: str, paths: list[str]) -> None:
        with (self._state / name).open("a", encoding="utf-8") as file:
            file.write(f"{op} {' '.join(paths)}\n")

    def _refuse(self, op: str, path: str) -> mfusepy.FuseOSError:
        with self._counting:
            self._note("refused", op, [path])
        return mfusepy.FuseOSError(errno.EOPNOTSUPP)

    def _real(self, path: str) -> str:
        return str(self._folder) + path

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        """As stat(2)."""
        stat = os.lstat(self._real(path))
        return {name: getattr(stat, name) for name in _STAT}

    def readdir(self, path: str, fh: int) -> list[str]:
        """The names in a folder."""
        return [".", "..", *os.listdir(self._real(path))]

    def statfs(self, path: str) -> dict[str, int]:
        """As statvfs(3)."""
        stat = os.statvfs(self._real(path))
        return {name: getattr(stat, name) for name in _DISK}

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        """A new file, open for writing."""
        return os.open(self._real(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)

    def open(self, path: str, flags: int) -> int:
        """A file that is there."""
        if self._sequential_only and flags & os.O_APPEND:
            raise self._refuse("append", path)
        return os.open(self._real(path), flags)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        """A piece of a file."""
        return os.pread(fh, size, offset)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        """Put a piece into a file."""
        if self._sequential_only and offset != os.fstat(fh).st_size:
            raise self._refuse("write", path)
        return os.pwrite(fh, data, offset)

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        """Cut a file."""
        if self._sequential_only and length:
            raise self._refuse("truncate", path)
        os.truncate(self._real(path) if fh is None else fh, length)
        return 0

    def fsync(self, path: str, datasync: int, fh: int) -> int:
        """Put a file on the disk."""
        os.fsync(fh)
        return 0

    def release(self, path: str, fh: int) -> int:
        """Close a file."""
        os.close(fh)
        return 0

    def rename(self, old: str, new: str) -> int:
        """Also over a file that is there."""
        os.rename(self._real(old), self._real(new))
        return 0

    def unlink(self, path: str) -> int:
        """Delete a file."""
        os.unlink(self._real(path))
        return 0

    def mkdir(self, path: str, mode: int) -> int:
        """A new folder."""
        os.mkdir(self._real(path), mode)
        return 0

    def rmdir(self, path: str) -> int:
        """Delete an empty folder."""
        os.rmdir(self._real(path))
        return 0

    def chmod(self, path: str, mode: int) -> int:
        """Hadoop's local file system sets modes."""
        os.chmod(self._real(path), mode)
        return 0

    def utimens(self, path: str, times: tuple[float, float] | None = None) -> int:
        """Hadoop's local file system sets times."""
        os.utime(self._real(path), times)
        return 0


def main() -> None:
    """Serve until it is unmounted."""
    folder, mount, state = map(Path, sys.argv[1:4])
    # The kernel keeps nothing, so that each call comes here.
    mfusepy.FUSE(
        Folder(folder, state),
        str(mount),
        foreground=True,
        allow_other=True,
        attr_timeout=0,
        entry_timeout=0,
    )


if __name__ == "__main__":
    main()
