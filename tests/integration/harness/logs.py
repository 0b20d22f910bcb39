"""Spark's logs in a checkpoint, as a crash or a restored copy leaves them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def last_batches(log: Path) -> list[Path]:
    """The batch files of one of Spark's logs, in order."""
    return sorted((f for f in log.iterdir() if f.name.isdigit()), key=lambda f: int(f.name))


def forget(batches: Sequence[Path]) -> None:
    """Delete batch files, and their checksums, which Hadoop keeps beside them."""
    for batch in batches:
        batch.unlink()
        (batch.parent / f".{batch.name}.crc").unlink(missing_ok=True)


def forget_last_batch(checkpoint: Path) -> None:
    """The last batch runs again, as after a crash before Spark has logged it."""
    forget(last_batches(checkpoint / "commits")[-1:])
