"""Entries of records that are too many for memory, on disk in buckets that are not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eoskafka.audit.reader import UndecidedError

# Two of these have their files open at once, and a process may have a thousand.
_MOST_BUCKETS = 200
# Working on a bucket (sorting, comparing) takes about so many times its size.
_WORK = 6


class Spill:
    """Entries in buckets by one of their fields, whose values are spread evenly.

    Entries with the same value are in the same bucket. Files are removed by `close`, which the
    end of a `with` block calls.
    """

    def __init__(
        self, folder: Path, name: str, dtype: np.dtype[Any], by: str, expected: int, memory: int
    ) -> None:
        """
        Args:
            folder: for the files.
            name: what they begin with.
            dtype: of an entry.
            by: the field, an unsigned number of 64 bits.
            expected: number of entries; a guess.
            memory: that a bucket may take while it is worked on, in bytes.
        """
        self._dtype = dtype
        self._by = by
        self._most = max(1, memory // (_WORK * dtype.itemsize))
        # Half full on average.
        self.buckets = int(np.clip(2 * expected // self._most + 1, 1, _MOST_BUCKETS))
        self._closing = ExitStack()
        self._files = [
            self._closing.enter_context((folder / f"{name}-{number}").open("w+b"))
            for number in range(self.buckets)
        ]

    def add(self, entries: NDArray[Any]) -> None:
        """Take entries, of the `dtype` given."""
        bucket = entries[self._by] % np.uint64(self.buckets)
        order = np.argsort(bucket, kind="stable")
        ends = np.searchsorted(bucket[order], np.arange(self.buckets), side="right")
        begin = 0
        for file, end in zip(self._files, ends, strict=True):
            if end > begin:
                file.write(entries[order[begin:end]].tobytes())
            begin = end

    def __iter__(self) -> Iterator[NDArray[Any]]:
        """One bucket after another, each read once.

        Raises:
            UndecidedError: one is larger than the memory it may take.
        """
        for file in self._files:
            size = file.tell() // self._dtype.itemsize
            if size > self._most:
                raise UndecidedError(
                    f"{size:,} records have so few different values of what they are told apart "
                    f"by that they do not fit into memory at once (up to {self._most:,} do): give "
                    "--memory, or tell them apart by something else"
                )
            file.seek(0)
            yield np.frombuffer(file.read(), dtype=self._dtype)
            file.truncate(0)

    def close(self) -> None:
        """Close the files; their folder is the caller's."""
        self._closing.close()

    def __enter__(self) -> Spill:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
