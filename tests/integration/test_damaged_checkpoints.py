"""A checkpoint whose files are damaged: the query is right, or refused; see `damage.py`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from damage import (
    IDENTITY,
    KINDS,
    LOGS,
    RIGHT,
    SINK,
    SPARK,
    STATE,
    TOPIC_IDS,
    Cell,
    Damage,
    cells,
    outcome,
    prepare,
    start,
)
from harness.versions import needs_real_time
from streams import Streams

NEWER = "EOSKAFKA_DECISION_NEWER"
OTHER_PLAN = "EOSKAFKA_DECISION_OTHER_PLAN"
UNREADABLE = "EOSKAFKA_CHECKPOINT_UNREADABLE"
BEHIND = "EOSKAFKA_GROUP_BEHIND_LOG"

# Each of another kind, and with another outcome.
SHORT = {
    Cell("epoch scope", "open", Damage("deleted", ("commits/M",))),
    Cell("epoch scope", "done", Damage("deleted", ("offsets/N",))),
    Cell("epoch scope", "done", Damage("older", LOGS)),
}


def expected(cell: Cell) -> str:
    """What the next start does."""
    kind, last, (what, files) = cell
    by_log = kind in ("epoch scope", "foreachBatch")
    is_damaged = what in ("empty", "cut")
    if is_damaged and {IDENTITY, TOPIC_IDS, SINK}.intersection(files):
        return UNREADABLE
    if files in (("metadata",), ("offsets/M",)) or cell.damage == Damage("deleted", LOGS[:1]):
        return SPARK
    if what == "deleted" and "offsets/N" in files:
        if last == "open":
            return RIGHT
        if kind == "foreachBatch" and "commits/N" in files:
            # The batch is planned anew, with more records than it was decided with.
            return OTHER_PLAN
        return NEWER if by_log else RIGHT if "commits/N" in files else SPARK
    if what == "older" and "offsets" in files:
        return NEWER if by_log else RIGHT if "commits" in files else SPARK
    if is_damaged and files in (
        (f"commits/{'N' if last == 'done' else 'M'}",),
        ("offsets/N",),
        (STATE,),
    ):
        return SPARK
    return RIGHT


def cases() -> Iterator[Any]:
    """Everything in a long run."""
    for cell in cells(KINDS):
        marks = [] if cell in SHORT else [pytest.mark.slow]
        if cell.kind == "real time":
            marks.append(needs_real_time)
        yield pytest.param(cell, marks=marks, id=str(cell))


@pytest.mark.parametrize("cell", [*cases()])
def test_a_damaged_checkpoint_is_right_or_refused(
    streams: Streams, tmp_path: Path, cell: Cell
) -> None:
    assert outcome(streams, cell, tmp_path) == expected(cell)


@pytest.mark.parametrize(
    ("kind", "found"), [("task scope", RIGHT), ("epoch scope", BEHIND)], ids=KINDS[:2]
)
def test_a_surplus_file_of_a_done_batch(
    streams: Streams, tmp_path: Path, kind: str, found: str
) -> None:
    # As a restore makes it that copies one folder later than the other.
    queries = prepare(streams, kind, "open", tmp_path)
    done = queries.checkpoint / "commits"
    last = queries.last_batch()
    shutil.copy(done / str(last - 1), done / str(last))
    assert start(queries, tmp_path / "whole") == found
    assert queries.verdict() == RIGHT
