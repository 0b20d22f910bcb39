"""Starts queries that a former connector has left, with that connector and with the new one.

`python tests/corpus/run.py [--before COMMIT | --before-jar FILE] [--new-jar FILE] [--cells GLOB]
[--before-spark VERSION] [--spark VERSION]`

Each cell is a kind of query that the former connector has brought to a fault point. It is brought
there twice: then the former connector starts it, and the new one does. What a start has left is
compared: how it ended, the records that came out, the group's offsets, open transactions, the
decision topic. Outcomes are kept in build/corpus by cell and jars, so that an interrupted run goes
on where it was, and a new jar needs its own half only; `--again` forgets them.

`expected_changes.json` has an object for each cell whose outcome may change: `outcome` holds the
fields of the new outcome that differ from the former one, and `why` is a sentence for the report.

`--store` makes the files of `stored/` anew with the former connector.

Exit code 0: every cell has the same outcome on both sides, or the one that
`expected_changes.json` says. 1: one has another, or could not be run. 2: usage.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from fnmatch import fnmatch
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "integration"))

from eoskafka._jar import ensure_built
from rich.console import Console
from rich.table import Table

from corpus import jars
from corpus.cells import Cell, live
from corpus.outcome import Outcome, in_words
from corpus.stage import Runtime, Stage
from corpus.stored import Stored, stored

HERE = Path(__file__).resolve().parent
BUILD = jars.ROOT / "build" / "corpus"
REPORT = jars.ROOT / "reports" / "corpus.md"
EXPECTED = HERE / "expected_changes.json"
BEFORE = "af099a3"
SIDES = ("former", "new")
# Whatever decides on an outcome: kept ones are of these files, too.
_RULES = [HERE / name for name in ("cells.py", "outcome.py", "stored.py", "swallows.py")]


@dataclass(frozen=True)
class Verdict:
    """A cell's outcomes.

    Attributes:
        name: the cell's.
        outcomes: by side.
        change: what `expected_changes.json` says of it, if anything.
    """

    name: str
    outcomes: dict[str, Outcome]
    change: dict[str, object] | None

    @property
    def is_right(self) -> bool:
        """Whether nothing has changed but what was expected."""
        return self.word.startswith(("yes", "as expected"))

    @property
    def word(self) -> str:
        """For the table."""
        former, new = (self.outcomes[side] for side in SIDES)
        if "broken" in former or "broken" in new:
            return "BROKEN"
        if former == new:
            return "yes" if self.change is None else "yes, though a change is listed"
        if self.change is not None and new == {**former, **self._changed()}:
            return f"as expected: {self.change['why']}"
        return "NO"

    def _changed(self) -> Outcome:
        assert self.change is not None
        changed = self.change["outcome"]
        assert isinstance(changed, dict)
        return changed


def main() -> int:
    """Run the chosen cells, print a table and write the report."""
    arguments = parsed()
    # Brokers and applications must not outlive this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    cells = [cell for cell in every_cell(arguments) if fnmatch(cell.name, arguments.cells)]
    former = Runtime(former_jar(arguments), arguments.before_spark)
    work = Path(tempfile.mkdtemp(prefix="work-", dir=_made(BUILD)))
    try:
        with Stage(work / "stage") as stage:
            if arguments.store:
                store(cells, stage, former, arguments, work)
                return 0
            new = Runtime(arguments.new_jar or ensure_built(), arguments.spark)
            verdicts = compare(cells, stage, former, new, work, arguments.again, arguments.lock)
    except BaseException:
        print(f"logs are in {work}", file=sys.stderr)
        raise
    names = {"former": label(former, arguments.before), "new": label(new)}
    show(verdicts)
    if arguments.report:
        arguments.report.write_text(written(verdicts, names), encoding="utf-8")
    if all(verdict.is_right for verdict in verdicts):
        shutil.rmtree(work)
        return 0
    print(f"logs are in {work}", file=sys.stderr)
    return 1


def former_jar(arguments: argparse.Namespace) -> Path:
    """The connector that brings queries to their faults."""
    if arguments.before_jar:
        return Path(arguments.before_jar)
    if arguments.before:
        return jars.of_commit(arguments.before, BUILD / "jars")
    return ensure_built()


def label(runtime: Runtime, commit: str | None = None) -> str:
    """A runtime's name in the report."""
    name = jars.full(commit)[:7] if commit else jars.label(runtime.jar)
    return f"{name}, Spark {runtime.spark}" if runtime.spark else name


def parsed() -> argparse.Namespace:
    """The command line."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    one = parser.add_mutually_exclusive_group()
    one.add_argument(
        "--before",
        metavar="COMMIT",
        help=f"default: {BEFORE}; or this checkout where the sides differ in Spark",
    )
    one.add_argument("--before-jar", metavar="FILE", type=_jar, help="the former connector's jar")
    parser.add_argument("--new-jar", metavar="FILE", type=_jar, help="default: of this checkout")
    parser.add_argument("--before-spark", metavar="VERSION", default="", help="of the former side")
    parser.add_argument("--spark", metavar="VERSION", default="", help="of the new side")
    parser.add_argument("--cells", metavar="GLOB", default="*", help="those with such a name")
    parser.add_argument("--again", action="store_true", help="do not use kept outcomes")
    parser.add_argument("--list", action="store_true", help="list the cells, run nothing")
    parser.add_argument("--store", action="store_true", help="make the stored cells anew")
    parser.add_argument("--lock", metavar="FILE", type=Path, help="held while a cell runs")
    parser.add_argument("--report", metavar="FILE", type=Path, help="default: reports/corpus.md")
    arguments = parser.parse_args()
    is_of_sparks = bool(arguments.before_spark or arguments.spark)
    if not (is_of_sparks or arguments.before or arguments.before_jar):
        arguments.before = BEFORE
    names = [cell.name for cell in every_cell(arguments)]
    if unknown := sorted(expected_changes().keys() - set(names)):
        parser.error(f"{EXPECTED.name} names cells that are not there: {', '.join(unknown)}")
    chosen = [name for name in names if fnmatch(name, arguments.cells)]
    if not chosen:
        parser.error(f"no cell has a name like {arguments.cells}")
    if arguments.list:
        print("\n".join(chosen))
        raise SystemExit(0)
    if arguments.report is None and len(chosen) == len(names) and not is_of_sparks:
        arguments.report = REPORT  # of all cells, or it would be overwritten by a few
    return arguments


def _jar(text: str) -> Path:
    file = Path(text).resolve()
    if not file.is_file():
        raise argparse.ArgumentTypeError(f"{text} does not exist")
    return file


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def every_cell(arguments: argparse.Namespace) -> list[Cell | Stored]:
    """Those that are made anew and those in files.

    A file of another Spark version is of a later connector than the former one, which would have to
    go back to an older release. `test_stored_checkpoints.py` starts it with the new one.
    """
    files = [cell for cell in stored() if arguments.store or not cell.spark]
    return [*live(), *files]


def expected_changes() -> dict[str, dict[str, object]]:
    """By cell: `outcome`, the fields that change, and `why`."""
    found: dict[str, dict[str, object]] = json.loads(EXPECTED.read_text(encoding="utf-8"))
    return found


def store(
    cells: list[Cell | Stored],
    stage: Stage,
    former: Runtime,
    arguments: argparse.Namespace,
    work: Path,
) -> None:
    """Make the files of the chosen stored cells."""
    name = label(former, arguments.before)
    for number, cell in enumerate(cells):
        if isinstance(cell, Stored):
            with held(arguments.lock):
                runtime = Runtime(former.jar, cell.spark)
                cell.store(stage, runtime, name, _made(work / f"{number}"))
            print(f"{cell.file.name}: {cell.file.stat().st_size:,} bytes", flush=True)


def compare(
    cells: list[Cell | Stored],
    stage: Stage,
    former: Runtime,
    new: Runtime,
    work: Path,
    again: bool = False,
    lock: Path | None = None,
) -> list[Verdict]:
    """Each cell on both sides, or what is kept of it unless it is to run `again`."""
    chosen = {"former": former, "new": new}
    digests = {
        side: f"{jars.digest(runtime.jar)}{runtime.spark}" for side, runtime in chosen.items()
    }
    rules = jars.digest(*_RULES)
    changes = expected_changes()
    verdicts = []
    for number, cell in enumerate(cells, start=1):
        of = f"{rules}-{jars.digest(cell.file)}" if isinstance(cell, Stored) else rules
        kept = {
            side: BUILD
            / "outcomes"
            / cell.name
            / f"{side}-{digests['former']}-{digests[side]}-{of}.json"
            for side in SIDES
        }
        missing = [side for side in SIDES if again or not kept[side].is_file()]
        outcomes = {side: _read(kept[side]) for side in SIDES if side not in missing}
        if missing:
            with held(lock):
                for side in missing:
                    began = time.monotonic()
                    folder = _made(work / f"{number}-{side}")
                    outcomes[side] = attempt(cell, stage, former, chosen[side], folder)
                    if "broken" not in outcomes[side]:
                        _made(kept[side].parent)
                        text = json.dumps(outcomes[side], indent=1)
                        kept[side].write_text(text + "\n", encoding="utf-8")
                    print(
                        f"[{number}/{len(cells)}] {cell.name}, {side}, "
                        f"{time.monotonic() - began:.0f} s: {words(outcomes[side])}",
                        flush=True,
                    )
        verdicts.append(Verdict(cell.name, outcomes, changes.get(cell.name)))
    return verdicts


def _read(file: Path) -> Outcome:
    outcome: Outcome = json.loads(file.read_text(encoding="utf-8"))
    return outcome


def attempt(
    cell: Cell | Stored, stage: Stage, former: Runtime, runtime: Runtime, folder: Path
) -> Outcome:
    """Run one side of a cell; `broken` says why it could not be run."""
    try:
        outcome = cell.run(stage, former, runtime, folder)
    except Exception as error:
        traceback.print_exc()
        # What it has left open would hide what later cells write to topics that cells share.
        stage.clear()
        return {"broken": f"{type(error).__name__}: {error}".partition("\n")[0][:200]}
    # As it will be read again.
    read: Outcome = json.loads(json.dumps(outcome))
    return read


@contextmanager
def held(file: Path | None) -> Iterator[None]:
    """A lock that several runs on one machine share, if there is one."""
    if file is None:
        yield
        return
    with file.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def words(outcome: Outcome) -> str:
    """An outcome on one line."""
    return f"broken: {outcome['broken']}" if "broken" in outcome else in_words(outcome)


def show(verdicts: list[Verdict]) -> None:
    """Print the table."""
    table = Table("cell", "with the former jar", "with the new jar", "same?", show_lines=True)
    for verdict in verdicts:
        table.add_row(
            verdict.name,
            *(words(verdict.outcomes[side]) for side in SIDES),
            verdict.word,
            style=None if verdict.is_right else "bold red",
        )
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def written(verdicts: list[Verdict], names: dict[str, str]) -> str:
    """The report."""
    right = sum(verdict.is_right for verdict in verdicts)
    lines = [
        "# Outcomes of starts before and after a change",
        "",
        "Written by `make corpus`. In each cell the former connector has brought a query to the",
        "fault in the cell's name; then the former connector or the new one started it. *Once*",
        "is what a `read_committed` reader finds once; *open* are transactions that the start has",
        "left, which were aborted then, as their timeout would have done it, before the output was",
        "read; the kinds of entries in the decision topic follow, and how many of each there are.",
        "",
        "Where rows are lost or duplicated with either connector, this has a reason of its own:",
        "",
        "- `commit-file-empty`: Spark refuses its own damaged file, so the query stops and reads",
        "  nothing more.",
        "- `foreach-batch-swallows/before-decision-fails`: the function has caught the error of a",
        "  write that was not decided, so Spark has logged the batch.",
        "- `foreach-batch-swallows/half-rolled-forward-fails`: the former connector's file of the",
        "  write lacks what a start needs to settle it, and no later batch calls the write. In the",
        "  cell that ends in `-then-more`, a later batch does. The batch after the decided one is",
        "  lost because the function has caught the error of its write, too.",
        "- `job-without-name`: a job without a `writeId` is another job when it runs again.",
        "",
        "| | |",
        "|---|---|",
        f"| date | {datetime.now(timezone.utc).date()} |",
        f"| former connector | {names['former']} |",
        f"| new connector | {names['new']} |",
        f"| cells | {len(verdicts)} |",
        f"| with the same outcome, or the expected one | {right} |",
        "",
        *rows(verdicts),
    ]
    return "\n".join(lines) + "\n"


def rows(verdicts: list[Verdict], sides: str = "connector") -> Iterator[str]:
    """The lines of the table of outcomes; `sides` says what the two differ in."""
    yield f"| cell | with the former {sides} | with the new one | same? |"
    yield "|---|---|---|---|"
    for verdict in verdicts:
        former, new = (words(verdict.outcomes[side]).replace("|", "\\|") for side in SIDES)
        shown = "the same" if former == new else new
        yield f"| {verdict.name} | {former} | {shown} | {verdict.word} |"


if __name__ == "__main__":
    sys.exit(main())
