"""`make chaos`: rounds of faults for as long as wanted, and a report on all rounds so far.

A round is a campaign of its own: new brokers, each kind of fault once in an order of its own, then
some of them two at a time, then Spark's start without Kafka, to compare a driver's restart with.
Rounds take turns between the workloads; `--only` runs one of them alone. Each finished round is a
line of reports/chaos.jsonl, with the commit that it ran on, so that the evidence grows from run to
run; reports/chaos.md is written from it after every round. A round in which anything was wrong
leaves its logs and its journal in build/chaos.

`--kinds KIND ...` causes these faults alone, in this order, on the workload of `--only`, and
`--replay JOURNAL` repeats the faults of one `faults.jsonl`, with the targets and not before the
times that it names. Neither writes a report.

Exit code 0: this run found nothing wrong. 1: it found an anomaly, or a round could not be finished.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from prove.provenance import connector, provenance

from faults import kinds
from faults.campaign import Campaign
from faults.chaos_report import report
from faults.journal import Journal
from faults.workloads import WORKLOADS, Workload

ROOT = Path(__file__).resolve().parent.parent.parent
ROUNDS = ROOT / "reports" / "chaos.jsonl"
PAGE = ROOT / "reports" / "chaos.md"
WORK = ROOT / "build" / "chaos"
PAIRS = 4
# Records per second. What a query keeps of each record makes its executors slower and larger.
RATE = 2_000
RATE_WITH_STATE = 300


def main() -> int:
    """Run rounds until the time is used up."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=35, help="start no round after this time")
    parser.add_argument("--seed", type=int, help="of the first round; without, the next one")
    parser.add_argument("--only", choices=WORKLOADS, help="rounds of this workload alone")
    parser.add_argument("--kinds", nargs="+", metavar="KIND", help="these faults alone")
    parser.add_argument("--replay", type=Path, metavar="JOURNAL", help="repeat its faults")
    parser.add_argument("--report", action="store_true", help="only write the page anew")
    arguments = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    if arguments.replay:
        journal = Journal.read(arguments.replay)
        workload = WORKLOADS[journal.workload]
        return alone(workload, journal.seed, lambda campaign: campaign.replay(journal))
    if arguments.kinds:
        if not arguments.only:
            parser.error("--kinds needs the workload, with --only")
        workload = WORKLOADS[arguments.only]
        possible = kinds.kinds(workload)
        parts = {part for kind in arguments.kinds for part in kind.split(kinds.DURING)}
        if unknown := parts.difference(possible):
            parser.error(f"{', '.join(sorted(unknown))}: not among {', '.join(possible)}")
        return alone(workload, arguments.seed or 1, lambda campaign: campaign.run(arguments.kinds))
    if arguments.report:
        write()
        return 0
    seed = arguments.seed or max((kept["seed"] for kept in rounds()), default=0) + 1
    began, good = time.monotonic(), True
    while time.monotonic() - began < arguments.minutes * 60:
        workload = WORKLOADS[arguments.only or list(WORKLOADS)[seed % len(WORKLOADS)]]
        print(f"seed {seed}: {workload.name}", flush=True)
        outcome = {**provenance(), **run_round(workload, seed)}
        with ROUNDS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(outcome, sort_keys=True) + "\n")
        write()
        print(f"  {len(outcome['events'])} faults, {outcome['error'] or outcome['findings']}")
        good = good and not outcome["error"] and not outcome["findings"]
        seed += 1
    print(f"the report is in {PAGE}")
    return 0 if good else 1


def rounds() -> list[dict[str, Any]]:
    """All finished rounds, oldest first."""
    if not ROUNDS.is_file():
        return []
    return [json.loads(line) for line in ROUNDS.read_text(encoding="utf-8").splitlines()]


def write() -> None:
    """Write the page anew."""
    PAGE.write_text(report(rounds(), connector()), encoding="utf-8")


def run_round(workload: Workload, seed: int) -> dict[str, Any]:
    """One campaign; its folder is kept if anything was wrong."""
    rng = random.Random(seed)
    chosen = kinds.kinds(workload)
    rng.shuffle(chosen)
    chosen += [
        f"{rng.choice(kinds.of_processes(workload))}{kinds.DURING}{rng.choice(kinds.OF_BROKERS)}"
        for _ in range(PAIRS)
    ]
    folder = _emptied(WORK / f"seed-{seed:05}")
    began = time.monotonic()
    campaign = Campaign(folder, workload, seed, rate(workload))
    judged, spark_start, error = None, None, ""
    try:
        with campaign:
            campaign.run(chosen)
            judged = campaign.finish()
            spark_start = campaign.spark_start_s()
    except Exception:
        error = traceback.format_exc()
    if not error and judged and not judged.findings:
        shutil.rmtree(folder)
    return {
        "seed": seed,
        "workload": workload.name,
        "seconds": round(time.monotonic() - began),
        "records": judged.records if judged else 0,
        "observations": judged.observations if judged else 0,
        "longest_stall_s": judged.longest_stall_s if judged else 0.0,
        "spark_start_s": spark_start,
        "events": [asdict(event) for event in campaign.events],
        "findings": [str(finding) for finding in judged.findings] if judged else [],
        "error": error,
    }


def rate(workload: Workload) -> int:
    """How many records per second a workload gets."""
    return RATE_WITH_STATE if workload.keeps_state else RATE


def alone(workload: Workload, seed: int, cause: Callable[[Campaign], None]) -> int:
    """One campaign with the faults that `cause` causes; what it came to is printed."""
    campaign = Campaign(_emptied(WORK / "alone"), workload, seed, rate(workload))
    with campaign:
        cause(campaign)
        judged = campaign.finish()
    for event in judged.events:
        print(
            f"{event.at_s:8.1f} s  {event.kind}: {event.target}; recovered in {event.recovery_s} s"
        )
    for finding in judged.findings:
        print(finding)
    print(f"{judged.records} records, {len(judged.findings)} anomalies")
    return 1 if judged.findings else 0


def _emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


if __name__ == "__main__":
    sys.exit(main())
