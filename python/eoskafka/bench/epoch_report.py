"""What the benchmark of epochs says in the end: batch times of both peers, and commit latencies."""

from __future__ import annotations

import statistics

from rich.table import Table

from eoskafka.bench.epoch import Run
from eoskafka.bench.peers import EOSKAFKA, Peer
from eoskafka.bench.summary import (
    Spread,
    Summary,
    as_dict,
    count_as_json,
    describe_faults,
    new_table,
    ratio_of,
    round_name,
)


class EpochReport(Summary[Run]):
    """The timed rounds of a result, summed up. Warm-ups count only if they were wrong."""

    def batch_ms(self, plan: str, peer: Peer) -> Spread | None:
        """Of the medians of a peer's timed runs that were right."""
        return Spread.of(_median(run.batch_ms) for run in self._timed(plan, peer))

    def commit_ms(self, plan: str) -> Spread | None:
        """Of every timed batch of eoskafka."""
        return Spread.of(ms for run in self._timed(plan, EOSKAFKA) for ms in run.commit_ms)

    def ratio(self, peer: Peer) -> Spread | None:
        """eoskafka's batch time over another peer's, of the plan `windows`."""
        ours, theirs = (
            [
                _median(run.batch_ms) if run.count.is_right else None
                for run in self.timed()
                if (run.plan, run.peer) == ("windows", p)
            ]
            for p in (EOSKAFKA, peer)
        )
        return ratio_of(ours, theirs)

    def others(self) -> list[Peer]:
        """Whom eoskafka is compared with."""
        return [p for p in dict.fromkeys(run.peer for run in self.result.runs) if p != EOSKAFKA]

    def heading(self) -> str:
        """What was run."""
        s = self.result.settings
        return (
            f"{s.rounds} rounds of {s.batches - 1} timed batches; windows: {s.batch_records:,} "
            f"records a batch, {s.shuffle_partitions} writers; writers: {s.writers}{self.where()}"
        )

    def table(self) -> Table:
        """One row per plan and peer."""
        table = new_table("plan, peer", "batch", "least", "greatest", "commit", "least", "greatest")
        for plan, peer in dict.fromkeys((run.plan, run.peer) for run in self.result.runs):
            commit = self.commit_ms(plan) if peer == EOSKAFKA else None
            cells = [*_cells(self.batch_ms(plan, peer)), *_cells(commit)]
            table.add_row(f"{plan}, {peer.label}", *cells)
        return table

    def lines(self) -> list[str]:
        """What follows the table."""
        lines = [f"no time: {describe(run)}" for run in self.wrong]
        for peer in self.others():
            ratio = self.ratio(peer)
            text = (
                f"{ratio.median:.2f} (in single rounds {ratio.least:.2f} to {ratio.greatest:.2f})"
                if ratio
                else "none, since a peer has no time"
            )
            lines.append(f"windows, eoskafka / {peer.label}: {text}")
        return lines

    def as_json(self) -> dict[str, object]:
        """Everything, for a file."""
        return {
            **self.json_head("epoch"),
            "eoskafka_over": {peer.label: as_dict(self.ratio(peer)) for peer in self.others()},
            "commit_ms": as_dict(self.commit_ms("writers")),
            "runs": [
                {
                    "plan": run.plan,
                    "peer": run.peer.label,
                    "round": run.round,
                    "batch_ms": list(run.batch_ms),
                    "commit_ms": list(run.commit_ms),
                    **count_as_json(run.count),
                }
                for run in self.result.runs
            ],
        }

    def _timed(self, plan: str, peer: Peer) -> list[Run]:
        return [
            run
            for run in self.timed()
            if (run.plan, run.peer) == (plan, peer) and run.count.is_right
        ]


def describe(run: Run) -> str:
    """A run in one line."""
    text = f"{round_name(run.round)}, {run.plan}, {run.peer.label}: {run.count.records:,} out"
    if run.count.is_right:
        commit = f", commit {_median(run.commit_ms):,.0f} ms" if run.commit_ms else ""
        return f"{text}, batch {_median(run.batch_ms):,.0f} ms{commit}"
    return f"{text}, {describe_faults(run.count)}"


def _median(milliseconds: tuple[int, ...]) -> float:
    return float(statistics.median(milliseconds))


def _cells(spread: Spread | None) -> list[str]:
    if spread is None:
        return ["-"] * 3
    return [f"{ms:,.0f} ms" for ms in (spread.median, spread.least, spread.greatest)]
