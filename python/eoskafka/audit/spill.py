"""Stores more entries of records than fit into memory, on disk, in buckets that do fit."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from eoskafka.audit.reader import UndecidedError

# Files that one of these has open at once; a process may have some hundreds.
_MOST_BUCKETS = 64
# Working on a bucket (sorting, comparing) takes about so many times its size.
_WORK = 6


class Spill:
    """Entries in buckets by one of their fields, whose values are spread evenly.

    Entries with the same value are in the same bucket. The files have no names, so that nothing is
    left of them, however the process ends.
    """

    def __init__(
        self,
        folder: Path | None,
        dtype: np.dtype[Any],
        by: str,
        memory: int,
        too_many: str,
        *,
        divisor: int = 1,
        expected: int = 0,
    ) -> None:
        """
        Args:
            folder: a folder for the files; None for the system's.
            dtype: the type of an entry.
            by: the field that chooses the bucket, an unsigned 64-bit number.
            memory: the memory that one bucket may take while it is processed, in bytes.
            too_many: advice for the error if the entries with one value do not fit into memory.
            divisor: values are divided by it before their remainder chooses the bucket.
            expected: the expected number of entries, if it is known.
        """
        self._folder, self._dtype, self._by = folder, dtype, by
        self._memory, self._too_many, self._divisor = memory, too_many, divisor
        self._most = max(1, memory // (_WORK * dtype.itemsize))
        # Half full on average.
        self._buckets = int(np.clip(2 * expected // self._most + 1, 1, _MOST_BUCKETS))
        self._closing = ExitStack()
        self._files: list[IO[bytes]] = [
            self._closing.enter_context(tempfile.TemporaryFile(dir=folder))  # noqa: SIM115
            for _ in range(self._buckets)
        ]

    def add(self, entries: NDArray[Any]) -> None:
        """Take entries, of the `dtype` given."""
        bucket = entries[self._by] // np.uint64(self._divisor) % np.uint64(self._buckets)
        order = np.argsort(bucket, kind="stable")
        ends = np.searchsorted(bucket[order], np.arange(self._buckets), side="right")
        begin = 0
        for file, end in zip(self._files, ends, strict=True):
            if end > begin:
                file.write(entries[order[begin:end]].tobytes())
            begin = end

    def __iter__(self) -> Iterator[NDArray[Any]]:
        """One bucket after another, each once; one that is too large is split again.

        Raises:
            UndecidedError: entries with one value are more than fit into memory.
        """
        for file in self._files:
            size = file.tell() // self._dtype.itemsize
            file.seek(0)
            if size <= self._most:
                yield np.frombuffer(file.read(), dtype=self._dtype)
            else:
                yield from self._split(file, size)
            file.truncate(0)

    def _split(self, file: IO[bytes], size: int) -> Iterator[NDArray[Any]]:
        divisor = self._divisor * self._buckets
        if divisor >= 2**63:
            raise UndecidedError(
                f"{size:,} records have the same id or key, but only {self._most:,} fit into "
                f"memory: {self._too_many}"
            )
        with Spill(
            *(self._folder, self._dtype, self._by, self._memory, self._too_many),
            divisor=divisor,
            expected=max(size, self._most),
        ) as finer:
            while portion := file.read(self._most * self._dtype.itemsize):
                finer.add(np.frombuffer(portion, dtype=self._dtype))
            yield from finer

    def __enter__(self) -> Spill:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()
