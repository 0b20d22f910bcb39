"""What the benchmark of throughput says in the end."""

from __future__ import annotations

from rich.table import Table

from eoskafka.bench.peers import EOSKAFKA, LIMITS, READ_ONLY, WRITE_ONLY, Peer
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
from eoskafka.bench.throughput import Run

_MIB = 1 << 20


class Report(Summary[Run]):
    """The timed rounds of a result, summed up. Warm-ups count only if they were wrong."""

    def peers(self) -> list[Peer]:
        """Those that took part, without the two limits."""
        return [p for p in dict.fromkeys(r.peer for r in self.result.runs) if p not in LIMITS]

    def rows_per_s(self, peer: Peer) -> Spread | None:
        """Of the peer's timed runs that were right."""
        return Spread.of(self._rows(peer))

    def cpu_s(self, peer: Peer) -> Spread | None:
        """CPU seconds of the peer's own processes for a million records."""
        return Spread.of(r.usage.cpu_s * 1e6 / r.count.records for r in self._right(peer))

    def broker_cpu_s(self, peer: Peer) -> Spread | None:
        """CPU seconds of the broker for a million records."""
        return Spread.of(
            r.broker_cpu_s * 1e6 / r.count.records
            for r in self._right(peer)
            if r.broker_cpu_s is not None
        )

    def peak_mib(self, peer: Peer) -> Spread | None:
        """Most resident memory of the peer's own processes, MiB."""
        return Spread.of(r.usage.peak_bytes / _MIB for r in self._right(peer))

    def ratio(self, peer: Peer) -> Spread | None:
        """eoskafka's rows per second over another peer's.

        The median is that of the medians; the spread is that of the rounds, each of runs that
        followed one another. None unless both peers have a time.
        """
        return ratio_of(self._rows(EOSKAFKA), self._rows(peer))

    def cpu_ratio(self, peer: Peer) -> Spread | None:
        """eoskafka's CPU seconds over another peer's, likewise."""
        ours, theirs = (
            [r.usage.cpu_s if r.count.is_right else None for r in self._timed(p)]
            for p in (EOSKAFKA, peer)
        )
        return ratio_of(ours, theirs)

    def limit(self) -> list[float | None]:
        """The rows per second, in each round, of reading everything and then writing it.

        This is only a yardstick: a peer that reads and writes at the same time can be faster, if
        one leaves resources for the other.
        """
        return [
            1 / (1 / read + 1 / write) if read and write else None
            for read, write in zip(self._rows(READ_ONLY), self._rows(WRITE_ONLY), strict=True)
        ]

    def heading(self) -> str:
        settings = self.result.settings
        return (
            f"{settings.records:,} records of {settings.record_bytes:,} B, "
            f"{settings.partitions:,} partitions, {settings.rounds} rounds"
            + (", mapInPandas" if settings.plan == "pandas" else "")
            + self.where()
        )

    def table(self) -> Table:
        """One row per peer, narrow enough for 80 columns."""
        table = new_table("peer", "rows/s", "least", "greatest", "CPU s/M", "MiB", "ours/its")
        for peer in self.peers():
            table.add_row(
                peer.label,
                *self._rates(self.rows_per_s(peer)),
                median_text(self.cpu_s(peer), ".2f"),
                median_text(self.peak_mib(peer), ",.0f"),
                median_text(self.ratio(peer), ".2f") if peer != EOSKAFKA else "",
            )
        for limit in [peer for peer in LIMITS if self._timed(peer)]:
            table.add_row(limit.name, *self._rates(self.rows_per_s(limit)))
        if limit_of_both := Spread.of(self.limit()):
            ratio = median_text(ratio_of(self._rows(EOSKAFKA), self.limit()), ".2f")
            table.add_row("read, then write", *self._rates(limit_of_both), "", "", ratio)
        return table

    def lines(self) -> list[str]:
        """What follows the table."""
        lines = [f"no time: {describe(run)}" for run in self.wrong]
        for peer in self.peers():
            rows, cpu = self.ratio(peer), self.cpu_ratio(peer)
            if peer == EOSKAFKA:
                continue
            if rows is None or cpu is None:
                lines.append(f"eoskafka / {peer.label}: none, since a peer has no time")
                continue
            lines.append(
                f"eoskafka / {peer.label}: {rows.median:.2f} (in single rounds "
                f"{rows.least:.2f} to {rows.greatest:.2f}); CPU {cpu.median:.2f}"
            )
        return lines

    def as_json(self) -> dict[str, object]:
        """Everything, for a file."""
        return {
            **self.json_head("throughput"),
            "peers": {
                peer.label: {
                    "guarantee": peer.guarantee,
                    "rows_per_s": as_dict(self.rows_per_s(peer)),
                    "cpu_s_per_million": as_dict(self.cpu_s(peer)),
                    "broker_cpu_s_per_million": as_dict(self.broker_cpu_s(peer)),
                    "peak_mib": as_dict(self.peak_mib(peer)),
                    "eoskafka_over_it": as_dict(self.ratio(peer)),
                    "eoskafka_cpu_over_its": as_dict(self.cpu_ratio(peer)),
                }
                for peer in self.peers()
            },
            "limits": {
                **{peer.name: as_dict(self.rows_per_s(peer)) for peer in LIMITS},
                "both": as_dict(Spread.of(self.limit())),
                "eoskafka_over_both": as_dict(ratio_of(self._rows(EOSKAFKA), self.limit())),
            },
            "runs": [_run_as_json(run) for run in self.result.runs],
        }

    def _timed(self, peer: Peer) -> list[Run]:
        return [run for run in self.timed() if run.peer == peer]

    def _right(self, peer: Peer) -> list[Run]:
        return [run for run in self._timed(peer) if run.count.is_right]

    def _rows(self, peer: Peer) -> list[float | None]:
        return [run.rows_per_s for run in self._timed(peer)]

    @staticmethod
    def _rates(rows: Spread | None) -> list[str]:
        return (
            [f"{n:,.0f}" for n in (rows.median, rows.least, rows.greatest)] if rows else ["-"] * 3
        )


def describe(run: Run) -> str:
    """A run in one line."""
    name = round_name(run.round)
    if run.rows_per_s is not None:
        batches = f" in {run.batches} batch(es)" if run.batches else ""
        return (
            f"{name}, {run.peer.label}: {run.rows_per_s:,.0f} rows/s "
            f"({run.ms:,.0f} ms{batches}), {run.usage.cpu_s:.1f} CPU s, {run.count.records:,} out"
        )
    return f"{name}, {run.peer.label}: {run.count.records:,} out, {describe_faults(run.count)}"


def _run_as_json(run: Run) -> dict[str, object]:
    return {
        "peer": run.peer.label,
        "round": run.round,
        "timed": run.round > 0 and run.count.is_right,
        "rows_per_s": run.rows_per_s,
        "batches": run.batches,
        "ms": run.ms,
        "cpu_s": run.usage.cpu_s,
        "peak_bytes": run.usage.peak_bytes,
        "broker_cpu_s": run.broker_cpu_s,
        **count_as_json(run.count),
    }
