"""What the benchmark of latency says in the end."""

from __future__ import annotations

from collections.abc import Callable

from rich.table import Table

from eoskafka.bench.latency import Run
from eoskafka.bench.peers import EOSKAFKA, REAL_TIME, Peer
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

_PERCENTILES: dict[str, Callable[[Run], float]] = {
    "p50": lambda run: run.p50_ms,
    "p99": lambda run: run.p99_ms,
    "greatest": lambda run: run.greatest_ms,
}


class LatencyReport(Summary[Run]):
    """The timed rounds of a result, summed up. Warm-ups count only if they were wrong."""

    def peers(self) -> list[Peer]:
        """Those that took part."""
        return list(dict.fromkeys(run.peer for run in self.result.runs))

    def ms(self, peer: Peer, percentile: str) -> Spread | None:
        """Over the peer's rounds that were right, `p50`, `p99` or `greatest` in milliseconds."""
        return Spread.of(self._values(peer, percentile))

    def ratio(self, peer: Peer, percentile: str, of: Peer = EOSKAFKA) -> Spread | None:
        """eoskafka's, in one of its modes, over another peer's."""
        return ratio_of(self._values(of, percentile), self._values(peer, percentile))

    def heading(self) -> str:
        """What was run."""
        s = self.result.settings
        conf = "".join(f", {key}={value}" for key, value in s.spark_conf.items())
        return (
            f"{s.rate:,} records/s of {s.record_bytes:,} B, {s.partitions} partitions, "
            f"{s.rounds} rounds of {s.seconds} s after {s.warm_up_s} s{conf}; "
            f"milliseconds{self.where()}"
        )

    def table(self) -> Table:
        """One row per peer."""
        table = new_table(
            *("peer", "p50", "p99", "greatest", "batch", "ours/its p50", "p99"),
            *("real-time/its p50", "p99"),
        )
        for peer in self.peers():
            batch = Spread.of(run.batch_ms for run in self._right(peer))
            table.add_row(
                peer.label,
                *(median_text(self.ms(peer, name), ",.0f") for name in _PERCENTILES),
                median_text(batch, ",.0f"),
                *(
                    median_text(self.ratio(peer, name, of), ".2f") if peer != of else ""
                    for of in (EOSKAFKA, REAL_TIME)
                    for name in ("p50", "p99")
                ),
            )
        return table

    def lines(self) -> list[str]:
        """What follows the table."""
        return [f"no time: {describe(run)}" for run in self.wrong]

    def as_json(self) -> dict[str, object]:
        """Everything, for a file."""
        return {
            **self.json_head("latency"),
            "peers": {
                peer.label: {
                    **{f"{name}_ms": as_dict(self.ms(peer, name)) for name in _PERCENTILES},
                    **{
                        f"eoskafka_over_its_{name}": as_dict(self.ratio(peer, name))
                        for name in ("p50", "p99")
                    },
                    **{
                        f"real_time_over_its_{name}": as_dict(self.ratio(peer, name, REAL_TIME))
                        for name in ("p50", "p99")
                    },
                }
                for peer in self.peers()
            },
            "runs": [
                {
                    "peer": run.peer.label,
                    "round": run.round,
                    **{
                        f"{name}_ms": value(run) if run.count.is_right else None
                        for name, value in _PERCENTILES.items()
                    },
                    "batch_ms": run.batch_ms,
                    "durations_ms": run.durations_ms,
                    **count_as_json(run.count),
                }
                for run in self.result.runs
            ],
        }

    def _right(self, peer: Peer) -> list[Run]:
        return [run for run in self._timed(peer) if run.count.is_right]

    def _values(self, peer: Peer, percentile: str) -> list[float | None]:
        value = _PERCENTILES[percentile]
        return [value(run) if run.count.is_right else None for run in self._timed(peer)]

    def _timed(self, peer: Peer) -> list[Run]:
        return [run for run in self.timed() if run.peer == peer]


def describe(run: Run) -> str:
    """A run in one line."""
    text = f"{round_name(run.round)}, {run.peer.label}: {run.count.records:,} out"
    if not run.count.is_right:
        return f"{text}, {describe_faults(run.count)}"
    batch = f", batch {run.batch_ms:,.0f} ms" if run.batch_ms is not None else ""
    return f"{text}, p50 {run.p50_ms:,.0f} ms, p99 {run.p99_ms:,.0f} ms{batch}"
