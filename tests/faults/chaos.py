"""`make chaos`: rounds of faults for as long as wanted, and a report on them.

A round is a campaign of its own: new brokers, each kind of fault once in an order of its own, then
some of them two at a time, then Spark's start without Kafka, to compare a driver's restart with.
Rounds take turns between a plan in the JVM, one in Python, one in epoch scope, and one in real-time
mode; `--only` has one of them alone, as `make real-time-chaos` does. Each round that is over is
kept in the state folder, so a run that was interrupted goes on with the next one. The report is
written anew after every round.

`--replay JOURNAL` does the faults of one `faults.jsonl` again instead, with the targets and not
before the times that it names, and writes no report. A round in which anything was wrong leaves its
journal in the state folder.

Exit code 0: nothing wrong was found. 1: an anomaly was found, or a round could not be finished.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from faults.campaign import REAL_TIME, Campaign, Journal

ROOT = Path(__file__).resolve().parent.parent.parent
TRANSFORMS = ("exclaim", "exclaim_in_pandas", "repartitioned", REAL_TIME)
PAIRS = 4


def main() -> int:
    """Run rounds until the time is used up."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=35, help="start no round after this time")
    parser.add_argument("--seed", type=int, default=1, help="of the first round; then counted up")
    parser.add_argument("--only", choices=TRANSFORMS, help="rounds of this plan alone")
    parser.add_argument("--state", type=Path, default=ROOT / "build" / "chaos")
    parser.add_argument("--report", type=Path, default=ROOT / "reports" / "chaos.md")
    parser.add_argument("--replay", type=Path, metavar="JOURNAL", help="do its faults again")
    arguments = parser.parse_args()
    # Drivers and brokers run in folders of their own.
    state = arguments.state.resolve()
    if arguments.replay:
        return replay(state, arguments.replay)
    state.mkdir(parents=True, exist_ok=True)
    done = [json.loads(file.read_text()) for file in sorted(state.glob("round-*.json"))]
    spent = sum(outcome["seconds"] for outcome in done)
    while spent < arguments.minutes * 60:
        seed = arguments.seed + len(done)
        print(f"round {len(done) + 1}, seed {seed}", flush=True)
        outcome = run_round(state, seed, arguments.only)
        done.append(outcome)
        spent += outcome["seconds"]
        kept = state / f"round-{seed:05}.json"
        kept.write_text(json.dumps(outcome, indent=1) + "\n", encoding="utf-8")
        arguments.report.parent.mkdir(exist_ok=True)
        command = "make real-time-chaos" if arguments.only == REAL_TIME else "make chaos"
        arguments.report.write_text(report(done, command), encoding="utf-8")
        print(f"  {len(outcome['events'])} faults, {outcome['error'] or outcome['findings']}")
    print(f"the report is in {arguments.report}")
    return 1 if any(outcome["error"] or outcome["findings"] for outcome in done) else 0


def run_round(state: Path, seed: int, only: str | None) -> dict[str, Any]:
    """One campaign; its folder is kept if anything was wrong."""
    rng = random.Random(seed)
    transform = only or TRANSFORMS[seed % len(TRANSFORMS)]
    kinds = Campaign.kinds(transform)
    rng.shuffle(kinds)
    kinds += [
        f"{rng.choice(Campaign.of_processes(transform))} during {rng.choice(Campaign.OF_BROKERS)}"
        for _ in range(PAIRS)
    ]
    folder = _emptied(state / f"work-{seed:05}")
    began = time.monotonic()
    campaign = Campaign(folder, transform, seed)
    records, stall, spark_start, findings, error = 0, 0.0, None, [], ""
    try:
        with campaign:
            campaign.run(kinds)
            judged = campaign.finish()
            spark_start = campaign.spark_start_s()
        records, stall = judged.records, judged.longest_stall_s
        findings = [str(finding) for finding in judged.findings]
    except Exception:
        error = traceback.format_exc()
    if not error and not findings:
        shutil.rmtree(folder)
    return {
        "seed": seed,
        "transform": transform,
        "seconds": round(time.monotonic() - began),
        "records": records,
        "longest_stall_s": stall,
        "spark_start_s": spark_start,
        "events": [asdict(event) for event in campaign.events],
        "findings": findings,
        "error": error,
    }


def replay(state: Path, file: Path) -> int:
    """One campaign with a journal's faults; what it came to is printed."""
    journal = Journal.read(file)
    state.mkdir(parents=True, exist_ok=True)
    campaign = Campaign(_emptied(state / "replay"), journal.transform, journal.seed)
    with campaign:
        campaign.replay(journal)
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


def report(rounds: Sequence[dict[str, Any]], command: str = "make chaos") -> str:
    """The report of `command` as Markdown: totals, recovery by kind of fault, what was wrong."""
    by_kind: dict[str, list[float]] = defaultdict(list)
    stalls: dict[str, list[float]] = defaultdict(list)
    for outcome in rounds:
        for event in outcome["events"]:
            by_kind[event["kind"]].append(event["recovery_s"])
            stalls[event["kind"]].append(event["stall_s"])
    starts = [o["spark_start_s"] for o in rounds if o["spark_start_s"] is not None]
    wrong = [(o["seed"], text) for o in rounds for text in [*o["findings"], o["error"]] if text]
    lines = [
        "# Chaos report",
        "",
        f"Written by `{command}`. Three brokers (replication factor 3), two executors, one query "
        "from topic to topic; recovery is from the fault to the first record seen by a "
        "`read_committed` reader that was sent after it; the stall is the longest time without a "
        "record of some partition, from the fault until all was well again.",
        "",
        "| | |",
        "|---|---|",
        f"| rounds | {len(rounds)} ({', '.join(_plans(rounds))}) |",
        f"| seeds | {', '.join(str(outcome['seed']) for outcome in rounds)} |",
        f"| records | {sum(outcome['records'] for outcome in rounds):,} |",
        f"| faults | {sum(map(len, by_kind.values()))} |",
        f"| anomalies | {sum(len(outcome['findings']) for outcome in rounds)} |",
        f"| rounds not finished | {sum(bool(outcome['error']) for outcome in rounds)} |",
        f"| longest stall of the reader | "
        f"{max((outcome['longest_stall_s'] for outcome in rounds), default=0):g} s |",
        *_driver_restart(starts, stalls.get("driver killed", [])),
        "",
        "| fault | times | recovery, median | least | greatest | stall, median | greatest |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {kind} | {len(took)} | {statistics.median(took):.1f} s "
            f"| {min(took):.1f} s | {max(took):.1f} s "
            f"| {statistics.median(stalls[kind]):.1f} s | {max(stalls[kind]):.1f} s |"
            for kind, took in sorted(by_kind.items())
        ),
        "",
    ]
    for seed, text in wrong:
        lines += [f"## Seed {seed}", "", "```", text.strip(), "```", ""]
    return "\n".join(lines)


def _driver_restart(starts: Sequence[float], restarts: Sequence[float]) -> list[str]:
    """A driver's restart beside Spark's own start, a query without Kafka on the same machine."""
    if not starts or not restarts:
        return []
    alone = statistics.median(starts)
    beyond = statistics.median(restarts) - alone
    return [
        f"| Spark's own start, median of {len(starts)} | {alone:.1f} s |",
        f"| killed drivers' stall beyond it, median of {len(restarts)} | {beyond:.1f} s |",
    ]


def _plans(rounds: Sequence[dict[str, Any]]) -> list[str]:
    plans = [outcome["transform"] for outcome in rounds]
    return [f"{plans.count(name)} of `{name}`" for name in TRANSFORMS if name in plans]


if __name__ == "__main__":
    sys.exit(main())
