"""What the benchmark of commit intervals says in the end."""

from __future__ import annotations

from collections.abc import Callable

from rich.table import Table

from eoskafka.bench.interval import BACKLOG, LATENCY, PARTS, Run
from eoskafka.bench.peers import REAL_TIME, Peer
from eoskafka.bench.summary import (
    Spread,
    Summary,
    as_dict,
    count_as_json,
    describe_faults,
    median_text,
    new_table,
    ratio_of,
    round_name,
)

_VALUES: dict[str, Callable[[Run], float | None]] = {
    "p50_ms": lambda run: run.p50_ms,
    "p99_ms": lambda run: run.p99_ms,
    "rows_per_s": lambda run: run.rows_per_s,
}


class IntervalReport(Summary[Run]):
    """The timed rounds of a result, summed up. Warm-ups count only if they were wrong."""

    def peers(self) -> list[Peer]:
        """Those that took part, in their order."""
        return list(dict.fromkeys(run.peer for run in self.result.runs))

    def intervals_ms(self) -> list[int]:
        """What was run, in its order."""
        return list(dict.fromkeys(run.interval_ms for run in self.result.runs))

    def spread(self, peer: Peer, interval_ms: int, name: str) -> Spread | None:
        """Over the rounds that were right, `p50_ms`, `p99_ms` or `rows_per_s`."""
        return Spread.of(self._values(peer, interval_ms, name))

    def throughput_kept(self, peer: Peer, interval_ms: int) -> Spread | None:
        """Rows per second over those of the peer's longest interval."""
        longest = self._values(peer, max(self.intervals_ms()), "rows_per_s")
        return ratio_of(self._values(peer, interval_ms, "rows_per_s"), longest)

    def ratio(self, peer: Peer, interval_ms: int, name: str) -> Spread | None:
        """eoskafka's value over another peer's at the same interval."""
        return ratio_of(
            self._values(REAL_TIME, interval_ms, name), self._values(peer, interval_ms, name)
        )

    def transaction_ms(self, peer: Peer, interval_ms: int, part: str) -> Spread | None:
        """Over the rounds that were right, a transaction's mean time for a part of it."""
        return Spread.of(
            run.transaction_ms[part]
            for run in self._of(peer, interval_ms)
            if run.count.is_right and run.transaction_ms
        )

    def heading(self) -> str:
        """What was run."""
        s = self.result.settings
        return (
            f"real-time mode, {s.stream.partitions} partitions, {s.rounds} rounds: "
            f"{s.stream.rate:,} records/s of {s.stream.record_bytes:,} B for {s.stream.seconds} s "
            f"after {s.stream.warm_up_s} s, and {s.backlog:,} at once{self.where()}"
        )

    def table(self) -> Table:
        """One row per peer and interval."""
        table = new_table(
            *("peer", "interval, ms", "p50, ms", "p99, ms", "rows/s", "of the longest's"),
            *(f"{part}, ms" for part in PARTS),
        )
        for case in self._cases():
            table.add_row(
                *(case[0].label, str(case[1])),
                *(median_text(self.spread(*case, name), ",.0f") for name in _VALUES),
                median_text(self.throughput_kept(*case), ".2f"),
                *(median_text(self.transaction_ms(*case, part), ".1f") for part in PARTS),
            )
        return table

    def lines(self) -> list[str]:
        """What follows the table."""
        return [f"no time: {describe(run)}" for run in self.wrong]

    def as_json(self) -> dict[str, object]:
        """Everything, for a file."""
        return {
            **self.json_head("interval"),
            "intervals": [
                {
                    "peer": peer.label,
                    "interval_ms": interval,
                    **{name: as_dict(self.spread(peer, interval, name)) for name in _VALUES},
                    **{
                        f"eoskafka_over_its_{name}": as_dict(self.ratio(peer, interval, name))
                        for name in _VALUES
                    },
                    "throughput_kept": as_dict(self.throughput_kept(peer, interval)),
                    "transaction_ms": {
                        part: as_dict(self.transaction_ms(peer, interval, part)) for part in PARTS
                    },
                }
                for peer, interval in self._cases()
            ],
            "runs": [
                {
                    "peer": run.peer.label,
                    "part": run.part,
                    "interval_ms": run.interval_ms,
                    "round": run.round,
                    **{
                        name: value(run) if run.count.is_right else None
                        for name, value in _VALUES.items()
                    },
                    "transactions": run.transactions,
                    "transaction_ms": run.transaction_ms,
                    **count_as_json(run.count),
                }
                for run in self.result.runs
            ],
        }

    def _cases(self) -> list[tuple[Peer, int]]:
        return [(peer, interval) for peer in self.peers() for interval in self.intervals_ms()]

    def _values(self, peer: Peer, interval_ms: int, name: str) -> list[float | None]:
        part = BACKLOG if name == "rows_per_s" else LATENCY
        return [
            _VALUES[name](run) if run.count.is_right else None
            for run in self._of(peer, interval_ms)
            if run.part == part
        ]

    def _of(self, peer: Peer, interval_ms: int) -> list[Run]:
        return [run for run in self.timed() if (run.peer, run.interval_ms) == (peer, interval_ms)]


def describe(run: Run) -> str:
    """A run in one line."""
    text = (
        f"{round_name(run.round)}, {run.peer.label}, {run.part}, a commit every "
        f"{run.interval_ms} ms"
    )
    if not run.count.is_right:
        return f"{text}: {run.count.records:,} out, {describe_faults(run.count)}"
    if run.rows_per_s is not None:
        return f"{text}: {run.rows_per_s:,.0f} rows/s"
    text = f"{text}: p50 {run.p50_ms:,.0f} ms, p99 {run.p99_ms:,.0f} ms"
    if not run.transactions:
        return text
    parts = ", ".join(f"{part} {ms:.1f} ms" for part, ms in run.transaction_ms.items())
    return f"{text}; {run.transactions:,} transactions, {parts}"
