"""Moves checkpoints from one Spark version to another, with a kill in between: `make upgrades`.

`python tests/corpus/upgrades.py [--again] [FROM-TO ...]`, such as `4.0.5-4.3.0`: without one, all
of `PAIRS` run. For each pair a query on the first version is killed at each fault point of `CELLS`
and then started again, once on the first version and once on the second. Both starts must have the
same outcome, and no record may be lost or duplicated. Outcomes are kept in build/corpus, as those
of `run.py` are, so that an interrupted run continues. The report is reports/upgrades.md.

Exit code 0: each start is right. 1: one is not. 2: usage.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "integration"))

from eoskafka._jar import ensure_built
from eoskafka.audit.compare import FAULTS

from corpus import jars
from corpus.cells import live
from corpus.run import BUILD, SIDES, Verdict, compare, rows, show
from corpus.stage import Runtime, Stage

REPORT = jars.ROOT / "reports" / "upgrades.md"
# From and to: the oldest and the newest versions, up and down. Spark 3.5 does not promise to read
# what a newer one has written.
PAIRS = (
    ("3.5.9", "4.0.5"),
    ("3.5.9", "4.3.0"),
    ("4.0.5", "4.3.0"),
    ("4.3.0", "4.0.5"),
)
# One in each scope before and after what decides on a batch.
CELLS = (
    "task/after-offsets",
    "task/after-commit",
    "stateful/before-decision",
    "stateful/after-decision",
    "stateful/half-rolled-forward",
    "foreach-batch/after-decision",
)


def main() -> int:
    """Run all pairs that were asked for, and write the report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("pair", nargs="*", metavar="FROM-TO", help="Spark versions")
    parser.add_argument("--again", action="store_true", help="do not use kept outcomes")
    arguments = parser.parse_args()
    pairs = [_pair(parser, text) for text in arguments.pair] or [*PAIRS]
    # Brokers and applications must not outlive this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    cells = [cell for cell in live() if cell.name in CELLS]
    assert len(cells) == len(CELLS)
    jar = ensure_built()
    BUILD.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="work-", dir=BUILD))
    verdicts: dict[tuple[str, str], list[Verdict]] = {}
    for before, after in pairs:
        print(f"Spark {before} to {after}", flush=True)
        folder = work / f"{before}-{after}"
        folder.mkdir()
        with Stage(folder / "stage") as stage:
            verdicts[before, after] = compare(
                [*cells],
                stage,
                Runtime(jar, before),
                Runtime(jar, after),
                folder,
                arguments.again,
            )
        show(verdicts[before, after])
    if not arguments.pair:
        REPORT.write_text(report(verdicts, jars.label(jar)), encoding="utf-8")
    if all(is_exact(each) for of_pair in verdicts.values() for each in of_pair):
        shutil.rmtree(work)
        return 0
    print(f"logs are in {work}", file=sys.stderr)
    return 1


def _pair(parser: argparse.ArgumentParser, text: str) -> tuple[str, str]:
    before, dash, after = text.partition("-")
    if not dash:
        parser.error(f"{text} is not of the form FROM-TO, such as 4.0.5-4.3.0")
    return before, after


def is_exact(verdict: Verdict) -> bool:
    """Whether both starts end alike, with each record once."""
    return verdict.is_right and not any(
        verdict.outcomes[side][fault.value] for side in SIDES for fault in FAULTS
    )


def report(verdicts: dict[tuple[str, str], list[Verdict]], connector: str) -> str:
    """The page."""
    lines = [
        "# One checkpoint on several Spark versions",
        "",
        "Written by `make upgrades`. A query on one Spark version was killed at the fault in the",
        "cell's name. Then it was started again: once on the same version, once on another one.",
        "*Once* is what a `read_committed` reader finds once; *open* are transactions that were",
        "open after the start. The kinds of entries in the decision topic and their counts follow.",
        "",
        f"Date: {datetime.now(timezone.utc).date()}. Connector: {connector}.",
    ]
    for (before, after), of_pair in verdicts.items():
        exact = sum(is_exact(each) for each in of_pair)
        lines += [
            "",
            f"## From Spark {before} to {after}: {exact} of {len(of_pair)} exact",
            "",
            *rows(of_pair, "Spark"),
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
