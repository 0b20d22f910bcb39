"""The page of `make chaos`, from the rounds that are kept."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

Round = dict[str, Any]


def report(rounds: Sequence[Round], connector: str) -> str:
    """The page as Markdown: totals, workloads, recovery by kind of fault, commits, what was wrong.

    Args:
        rounds: the lines of reports/chaos.jsonl.
        connector: the digest of today's sources of the jar.
    """
    events = [event for kept in rounds for event in kept["events"]]
    current = [kept for kept in rounds if kept["connector"] == connector]
    lines = [
        "# Chaos report",
        "",
        "Written by `make chaos` from reports/chaos.jsonl. Three brokers (replication factor 3), "
        "two executors, one query; each round has new brokers. Recovery is the time from the fault "
        "to the first record seen by a `read_committed` reader that was sent after it. The stall "
        "is the longest time without a record of some partition, from the fault until the query "
        "was well again. An observation compares the group's stable offsets with what the readers "
        "had seen before.",
        "",
        "| | |",
        "|---|---|",
        *_totals(rounds),
        f"| kinds of fault, without pairs | {len(_single(events))} |",
        f"| longest stall of the reader | "
        f"{max((kept['longest_stall_s'] for kept in rounds), default=0):g} s |",
        *_driver_restart(rounds),
        "",
        f"On the present sources: {_in_words(current)}.",
        "",
        "## Workloads",
        "",
        *_table("workload", _grouped(rounds, "workload")),
        "",
        "## Faults",
        "",
        "| fault | times | recovery, median | least | greatest | stall, median | greatest |",
        "|---|---|---|---|---|---|---|",
        *_by_kind(events),
        "",
        "## Commits",
        "",
        *_table("commit", _grouped(rounds, "commit")),
        "",
    ]
    for kept in rounds:
        for text in filter(None, [*kept["findings"], kept["error"]]):
            title = f"## Seed {kept['seed']}, {kept['workload']}, commit {kept['commit']}"
            lines += [title, "", "```", text.strip(), "```", ""]
    return "\n".join(lines)


def _single(events: Iterable[Round]) -> set[str]:
    return {event["kind"] for event in events if " during " not in event["kind"]}


def _figures(rounds: Sequence[Round]) -> dict[str, int]:
    return {
        "rounds": len(rounds),
        "records": sum(kept["records"] for kept in rounds),
        "faults": sum(len(kept["events"]) for kept in rounds),
        "observations": sum(kept["observations"] for kept in rounds),
        "anomalies": sum(len(kept["findings"]) for kept in rounds),
        "rounds not finished": sum(bool(kept["error"]) for kept in rounds),
    }


def _totals(rounds: Sequence[Round]) -> list[str]:
    return [f"| {name} | {value:,} |" for name, value in _figures(rounds).items()]


def _in_words(rounds: Sequence[Round]) -> str:
    return ", ".join(f"{value:,} {name}" for name, value in _figures(rounds).items())


def _grouped(rounds: Sequence[Round], by: str) -> dict[str, list[Round]]:
    groups: dict[str, list[Round]] = defaultdict(list)
    for kept in rounds:
        changes = "" if by != "commit" or kept["is_clean"] else " and changes"
        groups[f"{kept[by]}{changes}"].append(kept)
    return groups


def _table(title: str, groups: dict[str, list[Round]]) -> list[str]:
    names = list(_figures([]))
    rows = [[name, *(f"{n:,}" for n in _figures(kept).values())] for name, kept in groups.items()]
    return [
        f"| {' | '.join([title, *names])} |",
        f"|{'---|' * (len(names) + 1)}",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def _by_kind(events: Iterable[Round]) -> list[str]:
    took: dict[str, list[float]] = defaultdict(list)
    stalls: dict[str, list[float]] = defaultdict(list)
    for event in events:
        took[event["kind"]].append(event["recovery_s"])
        stalls[event["kind"]].append(event["stall_s"])
    return [
        f"| {kind} | {len(times)} | {statistics.median(times):.1f} s | {min(times):.1f} s "
        f"| {max(times):.1f} s | {statistics.median(stalls[kind]):.1f} s "
        f"| {max(stalls[kind]):.1f} s |"
        for kind, times in sorted(took.items())
    ]


def _driver_restart(rounds: Sequence[Round]) -> list[str]:
    """A driver's restart beside Spark's own start, a query without Kafka on the same machine."""
    starts = [kept["spark_start_s"] for kept in rounds if kept["spark_start_s"] is not None]
    restarts = [
        event["stall_s"]
        for kept in rounds
        for event in kept["events"]
        if event["kind"] == "driver killed"
    ]
    if not starts or not restarts:
        return []
    alone = statistics.median(starts)
    beyond = statistics.median(restarts) - alone
    return [
        f"| Spark's own start, median of {len(starts)} | {alone:.1f} s |",
        f"| killed drivers' stall beyond it, median of {len(restarts)} | {beyond:.1f} s |",
    ]
