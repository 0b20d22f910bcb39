"""What a benchmark says in the end: medians with their spread, and the ratio between peers."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from rich.table import Table

from eoskafka import __version__
from eoskafka.audit import Fault
from eoskafka.bench.peers import BUILT_IN, EOSKAFKA, Peer
from eoskafka.bench.throughput import Result, Run
from eoskafka.cluster.jars import KAFKA_VERSION


@dataclass(frozen=True)
class Spread:
    """Median, least and greatest of some runs."""

    median: float
    least: float
    greatest: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread | None:
        """None if there are no values."""
        known = list(values)
        return cls(statistics.median(known), min(known), max(known)) if known else None


class Report:
    """The timed rounds of a result, summed up. Warm-ups count only if they were wrong."""

    def __init__(self, result: Result) -> None:
        self.result = result
        self.wrong = [run for run in result.runs if not run.count.is_right]

    @property
    def holds(self) -> bool:
        """True if no run, the warm-ups included, lost, doubled or altered a record."""
        return not self.wrong

    def peers(self) -> list[Peer]:
        return list(dict.fromkeys(run.peer for run in self.result.runs))

    def rows_per_s(self, peer: Peer) -> Spread | None:
        """Of the peer's timed runs that were right."""
        return Spread.of(r.rows_per_s for r in self._timed(peer) if r.rows_per_s is not None)

    def ratio(self) -> Spread | None:
        """eoskafka's rows per second over the built-in's.

        The median is that of the medians; the spread is that of the rounds, each a pair of runs
        that followed one another. None unless both peers have a time.
        """
        ours, theirs = self.rows_per_s(EOSKAFKA), self.rows_per_s(BUILT_IN)
        if ours is None or theirs is None:
            return None
        in_rounds = Spread.of(
            a.rows_per_s / b.rows_per_s
            for a, b in zip(self._timed(EOSKAFKA), self._timed(BUILT_IN), strict=True)
            if a.rows_per_s is not None and b.rows_per_s is not None
        )
        if in_rounds is None:
            return None
        return Spread(ours.median / theirs.median, in_rounds.least, in_rounds.greatest)

    def heading(self) -> str:
        settings = self.result.settings
        return (
            f"{settings.records:,} records of {settings.record_bytes} B, "
            f"{settings.partitions} partitions, {settings.rounds} rounds"
        )

    def table(self) -> Table:
        """One row per peer, narrow enough for 80 columns."""
        table = Table(box=None, pad_edge=False)
        table.add_column("peer", no_wrap=True)
        for heading in ("rows/s", "least", "greatest", "trigger", "addBatch", "query"):
            table.add_column(heading, justify="right", no_wrap=True)
        for peer in self.peers():
            rows = self.rows_per_s(peer)
            right = [run for run in self._timed(peer) if run.count.is_right]
            table.add_row(
                f"{peer.name}, {peer.guarantee}",
                *(
                    [f"{n:,.0f}" for n in (rows.median, rows.least, rows.greatest)]
                    if rows
                    else "---"
                ),
                _median_s(run.trigger_ms for run in right),
                _median_s(run.add_batch_ms for run in right),
                _median_s(run.query_ms for run in right),
            )
        return table

    def lines(self) -> list[str]:
        """What follows the table."""
        ratio = self.ratio()
        wrong = [f"no time: {describe(run)}" for run in self.wrong]
        if ratio is None:
            return [*wrong, "ratio: none, since a peer has no time"]
        return [
            *wrong,
            f"eoskafka / built-in: {ratio.median:.2f} "
            f"(in single rounds {ratio.least:.2f} to {ratio.greatest:.2f})",
        ]

    def as_json(self) -> dict[str, object]:
        ratio = self.ratio()
        return {
            "benchmark": "throughput",
            "holds": self.holds,
            "settings": asdict(self.result.settings),
            "machine": asdict(self.result.machine),
            "versions": {"eoskafka": __version__, "broker": KAFKA_VERSION},
            "peers": {
                peer.name: {
                    "guarantee": peer.guarantee,
                    "rows_per_s": asdict(spread) if (spread := self.rows_per_s(peer)) else None,
                }
                for peer in self.peers()
            },
            "ratio": asdict(ratio) if ratio else None,
            "runs": [_run_as_json(run) for run in self.result.runs],
        }

    def _timed(self, peer: Peer) -> list[Run]:
        return [run for run in self.result.runs if run.peer == peer and run.round > 0]


def describe(run: Run) -> str:
    """A run in one line."""
    name = f"round {run.round}" if run.round else "warm-up"
    if run.rows_per_s is not None:
        return (
            f"{name}, {run.peer.name}: {run.rows_per_s:,.0f} rows/s "
            f"({run.trigger_ms:,} ms in {run.batches} batch(es)), {run.count.records:,} out"
        )
    faults = ", ".join(f"{number:,} {fault.value}" for fault, number in run.count.faults.items())
    return (
        f"{name}, {run.peer.name}: {run.count.records:,} out, {faults}; "
        f"{'; '.join(run.count.examples)}"
    )


def _run_as_json(run: Run) -> dict[str, object]:
    return {
        "peer": run.peer.name,
        "round": run.round,
        "timed": run.round > 0 and run.count.is_right,
        "rows_per_s": run.rows_per_s,
        "batches": run.batches,
        "trigger_ms": run.trigger_ms,
        "add_batch_ms": run.add_batch_ms,
        "query_ms": run.query_ms,
        "out": run.count.records,
        **{fault.value: run.count.faults[fault] for fault in Fault},
        "examples": list(run.count.examples),
    }


def _median_s(milliseconds: Iterable[int]) -> str:
    spread = Spread.of(milliseconds)
    return f"{spread.median / 1_000:.2f} s" if spread else "-"
