"""`make registration`: what `registerTopics` costs and saves, in requests per transaction.

One job in task scope, in small batches that follow each other at once, on one broker behind a proxy
that counts: with either transaction version, with and without the option. Its output is compared
with its input each time.

Exit code 0: every output was right. Figures are for reading, not for judging.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path

from harness import Application, Flow

from faults.cluster import FaultyCluster
from faults.proxy import Api

ROOT = Path(__file__).resolve().parent.parent.parent
RECORDS = 12_000
PER_BATCH = 200
COUNTED = (
    Api.ADD_PARTITIONS_TO_TXN,
    Api.ADD_OFFSETS_TO_TXN,
    Api.PRODUCE,
    Api.TXN_OFFSET_COMMIT,
    Api.END_TXN,
)


def main() -> int:
    """Run the four jobs and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", type=Path, default=ROOT / "reports" / "registration.md")
    report = parser.parse_args().report
    rows = [row for version in (1, 2) for row in measured(version)]
    lines = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    text = f"""# Registration

`make registration`. One job in task scope: {RECORDS:,} records in batches of {PER_BATCH}, two
slots, four output partitions, one broker. Requests per transaction, counted by a proxy: P is
AddPartitionsToTxn, O is AddOffsetsToTxn, each with how many were refused because the former
transaction of the same producer was not over.

| version | `registerTopics` | P | refused | O | refused | Produce | offsets | transactions |
|---|---|---|---|---|---|---|---|---|
{lines}

By version 1 a registered transaction sends AddPartitionsToTxn and AddOffsetsToTxn once more: its
producer sends its own as before. By version 2 nothing is sent either way.
"""
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(text, encoding="utf-8")
    print(text)
    return 0


def measured(version: int) -> list[list[str]]:
    """A row of the table without the option, and one with it."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="eoskafka-registration-") as name:
        folder = Path(name)
        (folder / "application").mkdir()
        features = {"transaction.version": version}
        with (
            FaultyCluster(folder / "cluster", brokers=1, features=features) as cluster,
            Application(folder / "application", "local[2]") as application,
        ):
            (proxy,) = cluster.proxies.values()
            for registered in (False, True):
                flow = Flow(cluster.bootstrap_servers, folder / f"checkpoint{registered}")
                flow.produce(RECORDS)
                before, refused = Counter(proxy.requests), Counter(proxy.refused)
                sink = {"registerTopics": flow.output} if registered else {}
                query = flow.start(application, maxOffsetsPerTrigger=PER_BATCH, sink=sink)
                query.wait_done(timeout_s=300)
                requests = Counter(proxy.requests) - before
                again = Counter(proxy.refused) - refused
                flow.assert_exactly_once()
                ends = requests[Api.END_TXN]
                row = [str(version), "yes" if registered else "no"]
                for api in COUNTED[:-1]:
                    row.append(f"{requests[api] / ends:.2f}")
                    if api in (Api.ADD_PARTITIONS_TO_TXN, Api.ADD_OFFSETS_TO_TXN):
                        row.append(f"{again[api] / ends:.2f}")
                rows.append([*row, str(ends)])
    return rows


if __name__ == "__main__":
    raise SystemExit(main())
