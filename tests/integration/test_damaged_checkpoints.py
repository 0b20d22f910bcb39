"""A checkpoint whose files are damaged: the query is right, or refused; see `damage.py`."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from damage import (
    IDENTITY,
    INITIAL,
    KINDS,
    LAST_RUN,
    LOGS,
    OWN_FILES,
    RIGHT,
    SENT_AT_ONCE,
    SPARK,
    STATE,
    TAKEN_OVER,
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
UNREADABLE = "EOSKAFKA_CHECKPOINT_UNREADABLE"
BEHIND = "EOSKAFKA_GROUP_BEHIND_LOG"
GROUP_AHEAD = "EOSKAFKA_LOG_BEHIND_GROUP"
REFUSED = "EOSKAFKA_REAL_TIME_REFUSED"

# Each of another kind, and with another outcome.
SHORT = {
    Cell("epoch scope", "done", Damage("deleted", ("offsets/N",))),
    Cell("epoch scope", "done", Damage("older", LOGS)),
    Cell("real time", "done", Damage("deleted", ("offsets/N",))),
}
# The connector's files that every start reads, and one that it reads until it has planned a batch.
OF_OURS = {INITIAL, IDENTITY, TOPIC_IDS, *itertools.chain(*OWN_FILES.values())} - {LAST_RUN}
LOST = f"{SENT_AT_ONCE} lost"


def expected(cell: Cell) -> str:
    """What the next start does."""
    kind, last, (what, files) = cell
    if what in ("empty", "cut"):
        return expected_of_a_damaged(cell)
    if what == "surplus":
        return {"epoch scope": BEHIND, "foreachBatch": LOST, "taken over": LOST}.get(kind, RIGHT)
    if files in (("state",), (STATE,)):
        return SPARK
    if files in (("metadata",), ("offsets/M",)):
        return SPARK
    if cell.damage == Damage("deleted", LOGS[:1]):
        return REFUSED if kind == "real time" else SPARK
    is_of_log = (what == "older" and "offsets" in files) or "offsets/N" in files
    if not is_of_log or (what == "deleted" and last == "open"):
        return RIGHT
    if kind in ("epoch scope", "foreachBatch"):
        return NEWER
    if "commits" in files:
        return GROUP_AHEAD if kind == "taken over" else RIGHT
    if what == "deleted" and (last == "written" or "commits/N" in files):
        # The batch is planned anew.
        return RIGHT
    return REFUSED if kind == "real time" else SPARK


def expected_of_a_damaged(cell: Cell) -> str:
    """The same for a file that is empty or cut short."""
    _, last, (_, (file,)) = cell
    if file in OF_OURS:
        # Once it has planned a batch after those of others, their last one does not matter.
        return RIGHT if file == TAKEN_OVER and last == "done" else UNREADABLE
    is_read_by_spark = file in ("metadata", "offsets/N", "offsets/M", STATE) or file == (
        "commits/N" if last == "done" else "commits/M"
    )
    return SPARK if is_read_by_spark else RIGHT


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
