"""How long a start takes whose checkpoint knows many writes of `foreachBatch`: `make start-time`.

Twenty writes of two hundred transactions each. First nothing of them is open; then one write was
killed half-way between its decision and its last commit.
"""

from __future__ import annotations

import re
import tempfile
from datetime import date
from pathlib import Path

from eoskafka.cluster import LocalCluster
from harness import Application, Flow
from harness.functions import WRITERS, WRITES

REPORT = Path(__file__).resolve().parents[2] / "reports" / "start-time.md"
RECORDS = 2_000
STARTS = 3
_SETTLED = re.compile(rf"({WRITES}) of {WRITES} writes of former runs are settled after (\d+) ms")


def main() -> None:
    """Measure, and write the report."""
    with tempfile.TemporaryDirectory(prefix="eoskafka-start-") as name:
        folder = Path(name)
        with LocalCluster(brokers=1, data_dir=folder / "cluster") as cluster:
            flow = Flow(cluster.bootstrap_servers, folder / "checkpoint")
            flow.produce(RECORDS)
            run(flow, folder / "first")
            quiet = [start(flow, folder / f"quiet{number}") for number in range(STARTS)]
            flow.produce(RECORDS)
            with Application(folder / "killed", "local[2]") as application:
                flow.reach(application, "half-rolled-forward", "kill", form="twenty_writes")
            left = len(flow.open_transactions())
            after = start(flow, folder / "after")
    REPORT.write_text(text(quiet, left, after), encoding="utf-8")
    print(REPORT.read_text(encoding="utf-8"))


def run(flow: Flow, folder: Path) -> str:
    """The query's run until all has been read, and its log."""
    with Application(folder, "local[2]") as application:
        flow.start(application, form="twenty_writes").wait_done(900)
        return application.log.read_text(encoding="utf-8", errors="replace")


def start(flow: Flow, folder: Path) -> int:
    """Milliseconds that the start of a query that writes nothing has settled for."""
    with Application(folder, "local[2]") as application:
        flow.start(application, form="writes_nothing").wait_done(120)
        found = _SETTLED.search(application.log.read_text(encoding="utf-8", errors="replace"))
    assert found, "a start that has settled all writes"
    return int(found[2])


def text(quiet: list[int], left: int, after: int) -> str:
    """The report."""
    return f"""# The time of a start with many writes

`make start-time` on {date.today()}, 2 cores with the broker on them: a checkpoint that knows
{WRITES} writes of {WRITERS} transactions each.

| state | settled after |
|---|---|
| nothing is open, {STARTS} starts | {", ".join(f"{ms:,} ms" for ms in quiet)} |
| a write was killed half-way through its commits, {left} transactions are open | {after:,} ms |
"""


if __name__ == "__main__":
    main()
