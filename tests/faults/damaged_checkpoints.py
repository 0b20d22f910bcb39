"""`make damaged-checkpoints`: what a start does after files of its checkpoint were damaged.

Every cell of `damage.py`, for this connector and the built-in one, on one broker and one session.
It can be interrupted: outcomes are kept in `build`. A cell whose outcome is that of another commit
is looked at again, after those that have none.

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
from collections import Counter, defaultdict
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path

import pyspark
from damage import (
    BUILT_IN,
    KINDS,
    LASTS,
    RIGHT,
    SPARK,
    STATEFUL,
    Cell,
    Damage,
    cells,
    damages,
    outcome,
)
from eoskafka.cluster import LocalCluster
from eoskafka.cluster.jars import KAFKA_VERSION
from eoskafka.session import REAL_TIME_CHECK
from sessions import settings, start_session
from streams import Streams

ROOT = Path(__file__).resolve().parent.parent.parent
STATE = ROOT / "build" / "damaged-checkpoints.json"
REPORT = ROOT / "reports" / "damaged-checkpoints.md"
REFUSALS = (SPARK, "EOSKAFKA_")
AT_ONCE = 6
# A function of `foreachBatch` may write nothing, so nothing shows that a batch was not run; and the
# built-in connector may have run a batch that it has planned.
KNOWN = tuple(
    Cell(kind, "open", Damage("surplus", ("commits/N",))) for kind in ("foreachBatch", "taken over")
)

INTRODUCTION = """# Damaged checkpoints

`make damaged-checkpoints`. A query has run for four micro-batches and is stopped. Files of its
checkpoint are then damaged, more records come, and the query is started again: in real-time mode in
the column of that name, in micro-batches in the others. One broker, one Spark session.

| | |
|---|---|
| cells | {cells} |
| right | {right} |
| refused, and right after the files were restored | {refused} |
| known exceptions | {known} |
| cells of the built-in connector, beside these | {others} |
| connector | {commits} |
| Spark | {spark} |
| broker | {broker} |
| date | {date} |

N is the last batch that Spark has planned, M the one before it, S the version of the state that
the next batch reads. "Cut" files keep their first half, "older" ones are those of three batches
ago, and a "surplus" one is a copy of M's. "Right" means that the output has every record once, or
every count right and once. "Spark's error" is an error of Spark's own. After each error the files
are restored, and the query is started once more; where nothing else is said, its output is right
then.

Where outcomes differ, they are given for what had become of batch N: it was *done*, *open*
(planned, and nothing of it written), or *written* (all of it, as after a crash before Spark could
log it as done; not for the built-in sink, which is at-least-once and writes such a batch again).
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
    everything = [*cells(KINDS + BUILT_IN)]
    wanted = [
        cell
        for cell in everything
        if found.get(str(cell), [""])[0] != commit and re.search(arguments.only, str(cell))
    ]
    wanted.sort(key=lambda cell: str(cell) in found)
    if wanted:
        with tempfile.TemporaryDirectory() as name:
            _look(wanted, Path(name), commit, found, limit)
    left = [cell for cell in everything if str(cell) not in found]
    print(f"{len(everything) - len(left)} of {len(everything)} cells")
    if left:
        return 1
    outcomes = {cell: found[str(cell)][1] for cell in everything}
    commits = Counter(found[str(cell)][0] for cell in everything)
    REPORT.write_text(report(outcomes, commits), encoding="utf-8")
    return 0 if all(_is_right(outcomes[cell]) for cell in cells(KINDS) if cell not in KNOWN) else 1


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


def _is_right(said: str) -> bool:
    return said == RIGHT or (said.startswith(REFUSALS) and "then" not in said)


def report(outcomes: dict[Cell, str], commits: Counter[str]) -> str:
    """The page.

    Args:
        commits: of the connector, with how many cells were looked at with each.
    """
    kinds = KINDS + BUILT_IN
    ours = [outcomes[cell] for cell in cells(KINDS)]
    others = [outcomes[cell] for cell in cells(BUILT_IN)]
    lines = [
        INTRODUCTION.format(
            cells=len(ours),
            right=ours.count(RIGHT),
            refused=sum(_is_right(said) and said != RIGHT for said in ours),
            known=len(KNOWN),
            others=len(others),
            commits=", ".join(
                commit if len(commits) == 1 else f"{commit} ({count} cells)"
                for commit, count in commits.most_common()
            ),
            spark=pyspark.__version__,
            broker=KAFKA_VERSION,
            date=datetime.now(timezone.utc).date().isoformat(),
        ),
        f"| files | {' | '.join(kinds)} |",
        f"|---|{'---|' * len(kinds)}",
    ]
    for damage in damages():
        texts = []
        for kind in kinds:
            by_outcome: dict[str, list[str]] = defaultdict(list)
            for last in LASTS:
                if (cell := Cell(kind, last, damage)) in outcomes:
                    by_outcome[_shown(outcomes[cell])].append(last)
            if len(by_outcome) > 1:
                each = [f"{', '.join(lasts)}: {said}" for said, lasts in by_outcome.items()]
            else:
                each = [*by_outcome]
            texts.append("; ".join(each) or "-")
        name = ", ".join(f"`{file}`" for file in damage.files)
        lines.append(f"| {damage.what}: {name} | {' | '.join(texts)} |")
    wrong = [said for said in others if said != RIGHT and not said.startswith(SPARK)]
    known = " and ".join(f"*{cell}* ({outcomes[cell]})" for cell in KNOWN)
    lines += [
        "",
        f"The known exceptions are {known}; [restarts.md](../docs/restarts.md) says why. Of the"
        f" {len(others)} cells of the built-in connector {others.count(RIGHT)} are right,"
        f" {others.count(SPARK)} are refused and right after the files were restored, and"
        f" {len(others) - others.count(RIGHT) - others.count(SPARK)} are neither; {len(wrong)} of"
        f" those had no error. *{STATEFUL[0]}* and *{STATEFUL[1]}* count records by key; the others"
        " copy them.",
        "",
    ]
    return "\n".join(lines)


def _shown(said: str) -> str:
    return f"`{said}`" if said.startswith("EOSKAFKA_") and " " not in said else said


if __name__ == "__main__":
    sys.exit(main())
