"""`make damaged-checkpoints`: what a start does after files of its checkpoint were damaged.

Every cell of `damage.py`, for this connector and the built-in one, on one broker and one session.
It can be interrupted: outcomes are kept in `build`, and a cell whose outcome is that of another
commit is looked at again.

Exit code 0: whatever this connector has not refused is right. 1: otherwise.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import closing
from pathlib import Path

from damage import BUILT_IN, KINDS, LASTS, RIGHT, SPARK, STATEFUL, Cell, cells, damages, outcome
from eoskafka.cluster import LocalCluster
from eoskafka.session import REAL_TIME_CHECK
from streams import Streams, settings, start_session

ROOT = Path(__file__).resolve().parent.parent.parent
STATE = ROOT / "build" / "damaged-checkpoints.json"
REPORT = ROOT / "reports" / "damaged-checkpoints.md"
REFUSALS = (SPARK, "EOSKAFKA_")
AT_ONCE = 3

INTRODUCTION = """# Damaged checkpoints

`make damaged-checkpoints`, with the connector of commit {commit}. A query has run for three
micro-batches, the last of which is done or, with nothing written, open. Files of its checkpoint are
then damaged, more records come, and the query is started again: in real-time mode in the column of
that name, in micro-batches in the others. {count} cells.

N is the last batch that Spark has planned, M the one before it, S the version of the state that the
next batch reads. "Cut" files keep their first half, and "older" ones are those of two batches ago.
"right" means that the output has every record once, or every count right and once. After a refusal
the files are restored and the query is started once more; where nothing else is said, its output is
right then. "Spark's error" is an error of Spark's own. Where an outcome differs, it is given for a
last batch that is *done* and one that is *open*.
"""


def main() -> int:
    """Look at cells until the time is over; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=240, help="stop after so long")
    parser.add_argument("--only", default="", help="cells whose names have this pattern")
    arguments = parser.parse_args()
    limit = time.monotonic() + 60 * arguments.minutes
    commit = _commit()
    found: dict[str, list[str]] = json.loads(STATE.read_text()) if STATE.exists() else {}
    wanted = [
        cell
        for cell in cells(KINDS + BUILT_IN)
        if found.get(str(cell), [""])[0] != commit and re.search(arguments.only, str(cell))
    ]
    if wanted:
        with tempfile.TemporaryDirectory() as name:
            _look(wanted, Path(name), commit, found, limit)
    STATE.parent.mkdir(exist_ok=True)
    everything = [*cells(KINDS + BUILT_IN)]
    left = [cell for cell in everything if str(cell) not in found]
    print(f"{len(everything) - len(left)} of {len(everything)} cells")
    if left:
        return 1
    outcomes = {cell: found[str(cell)][1] for cell in everything}
    REPORT.write_text(report(outcomes, commit), encoding="utf-8")
    return 0 if all(_is_right(cell, outcomes[cell]) for cell in cells(KINDS)) else 1


def _commit() -> str:
    """Of the last change of the connector."""
    command = ["git", "log", "-1", "--format=%h", "--", "jvm-shim/connector/src/main"]
    return subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


def _look(
    wanted: list[Cell], folder: Path, commit: str, found: dict[str, list[str]], limit: float
) -> None:
    """Cells do not know of each other: a few at a time, because queries mostly wait."""
    with LocalCluster(brokers=1, data_dir=folder / "cluster") as cluster:
        spark = start_session(folder)

        def look(number: int, cell: Cell) -> str | None:
            if time.monotonic() > limit:
                return None
            place = folder / str(number)
            place.mkdir()
            with closing(Streams(spark, cluster.bootstrap_servers, place)) as streams:
                return outcome(streams, cell, place)

        try:
            with settings(spark, {REAL_TIME_CHECK: "false"}), ThreadPoolExecutor(AT_ONCE) as pool:
                cells_of = {pool.submit(look, n, cell): cell for n, cell in enumerate(wanted)}
                for done in as_completed(cells_of):
                    _keep(cells_of[done], done, commit, found)
        finally:
            spark.stop()


def _keep(cell: Cell, done: Future[str | None], commit: str, found: dict[str, list[str]]) -> None:
    """Keep an outcome, but not that of a cell that could not be looked at."""
    error = done.exception()
    said = None if error else done.result()
    if error:
        print(f"{cell}: {type(error).__name__}: {error}", flush=True)
    elif said:
        found[str(cell)] = [commit, said]
        print(f"{cell}: {said}", flush=True)
        STATE.parent.mkdir(exist_ok=True)
        STATE.write_text(json.dumps(found, indent=1), encoding="utf-8")


def _is_right(cell: Cell, said: str) -> bool:
    return said == RIGHT or (said.startswith(REFUSALS) and "then" not in said)


def report(outcomes: dict[Cell, str], commit: str) -> str:
    """The page."""
    kinds = KINDS + BUILT_IN
    lines = [
        INTRODUCTION.format(commit=commit, count=len(outcomes)),
        f"| files | {' | '.join(kinds)} |",
        f"|---|{'---|' * len(kinds)}",
    ]
    for damage in damages():
        texts = []
        for kind in kinds:
            said = {
                last: outcomes[cell]
                for last in LASTS
                if (cell := Cell(kind, last, damage)) in outcomes
            }
            alike = len(set(said.values())) == 1 and len(said) == len(LASTS)
            each = [_shown(s) if alike else f"{last}: {_shown(s)}" for last, s in said.items()]
            texts.append("; ".join(each[:1] if alike else each) or "-")
        name = ", ".join(f"`{file}`" for file in damage.files)
        lines.append(f"| {damage.what}: {name} | {' | '.join(texts)} |")
    ours = [outcomes[cell] for cell in cells(KINDS)]
    others = [outcomes[cell] for cell in cells(BUILT_IN)]
    wrong = [said for said in others if said != RIGHT and not said.startswith(SPARK)]
    lines += [
        "",
        f"Of {len(ours)} cells of eoskafka, {ours.count(RIGHT)} are right and"
        f" {sum(said.startswith(REFUSALS) for said in ours)} are refused."
        f" Of {len(others)} of the built-in connector, {others.count(RIGHT)} are right,"
        f" {sum(said == SPARK for said in others)} are refused and right after the files were"
        f" restored, and {len(others) - others.count(RIGHT) - others.count(SPARK)} are neither"
        f" ({len(wrong)} without an error). {' and '.join(STATEFUL)} count records by key; the"
        " others copy them.",
        "",
    ]
    return "\n".join(lines)


def _shown(said: str) -> str:
    return f"`{said}`" if said.startswith("EOSKAFKA_") and " " not in said else said


if __name__ == "__main__":
    sys.exit(main())
