"""Counts what tests have done, for reports: in the file that `EOSKAFKA_TALLY` names."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Literal

VARIABLE = "EOSKAFKA_TALLY"

What = Literal["kills", "records"]


def add(what: What, count: int) -> None:
    """Count `kills` of processes, or input `records` whose output was compared."""
    if name := os.environ.get(VARIABLE):
        # One short write, so that several test processes can share the file.
        with Path(name).open("a", encoding="utf-8") as file:
            file.write(f"{what} {count}\n")


def totals(file: Path) -> dict[str, int]:
    """What a file has counted."""
    found: Counter[str] = Counter()
    for line in file.read_text(encoding="utf-8").splitlines():
        what, _, count = line.partition(" ")
        found[what] += int(count)
    return dict(found)
