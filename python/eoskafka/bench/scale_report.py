"""What the benchmark of scale says in the end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from rich.table import Table

from eoskafka import __version__
from eoskafka.bench.report import Spread, as_dict, describe_faults, median_text
from eoskafka.bench.scale import PER_SLOT, Result, Run
from eoskafka.cluster.jars import KAFKA_VERSION

# Part, peer's label, producers, size.
_Key = tuple[str, str, str, int]


class ScaleReport:
    """The timed rounds of a result, summed up. Warm-ups count only if they were wrong."""

    def __init__(self, result: Result) -> None:
        self.result = result
        self.wrong = [run for run in result.runs if not run.count.is_right]

    @property
    def holds(self) -> bool:
        """True if no run, the warm-ups included, lost, doubled or altered a record."""
        return not self.wrong

    def keys(self) -> list[_Key]:
        """What was run, in its order."""
        return list(dict.fromkeys(_key(run) for run in self.result.runs))

    def timed(self, key: _Key) -> list[Run]:
        """The timed runs of it that were right."""
        return [
            run
            for run in self.result.runs
            if _key(run) == key and run.round > 0 and run.count.is_right
        ]

    def rows_per_s(self, key: _Key) -> Spread | None:
        """Input rows per second."""
        return Spread.of(run.rows_per_s for run in self.timed(key))

    def heading(self) -> str:
        """What was run."""
        s = self.result.settings
        return f"{s.records:,} records of 100 B in each number of partitions, {s.rounds} rounds"

    def table(self) -> Table:
        """One row per case."""
        table = Table(box=None, pad_edge=False)
        table.add_column("part, peer, producers", no_wrap=True)
        for heading in ("size", "rows/s", "driver", "planning", "ids", "states", "requests"):
            table.add_column(heading, justify="right", no_wrap=True)
        for key in self.keys():
            part, peer, producers, size = key
            runs = self.timed(key)
            table.add_row(
                f"{part}, {peer}" + ("" if producers == PER_SLOT else f", {producers}"),
                f"{size:,}",
                median_text(self.rows_per_s(key), ",.0f"),
                _ms(run.driver_ms for run in runs),
                _ms(run.planning_ms for run in runs),
                median_text(Spread.of(run.transactional_ids for run in runs), ",.0f"),
                median_text(Spread.of(run.producer_states for run in runs), ",.0f"),
                median_text(Spread.of(run.requests for run in runs), ".2f"),
            )
        return table

    def lines(self) -> list[str]:
        """What follows the table."""
        return [f"no time: {describe(run)}" for run in self.wrong]

    def as_json(self) -> dict[str, object]:
        """Everything, for a file."""
        return {
            "benchmark": "scale",
            "holds": self.holds,
            "settings": asdict(self.result.settings),
            "machine": asdict(self.result.machine),
            "versions": {"eoskafka": __version__, "broker": KAFKA_VERSION},
            "cases": [
                {
                    **dict(zip(("part", "peer", "producers", "size"), key, strict=True)),
                    "rows_per_s": as_dict(self.rows_per_s(key)),
                    "driver_ms": as_dict(Spread.of(run.driver_ms for run in self.timed(key))),
                    "planning_ms": as_dict(Spread.of(run.planning_ms for run in self.timed(key))),
                    "transactional_ids": _last(run.transactional_ids for run in self.timed(key)),
                    "producer_states": _last(run.producer_states for run in self.timed(key)),
                    "requests": _last(run.requests for run in self.timed(key)),
                }
                for key in self.keys()
            ],
            "runs": [
                {
                    **dict(zip(("part", "peer", "producers", "size"), _key(run), strict=True)),
                    "round": run.round,
                    "batches": run.batches,
                    "ms": run.ms,
                    "driver_ms": run.driver_ms,
                    "planning_ms": run.planning_ms,
                    "out": run.count.records,
                    **{fault.value: number for fault, number in run.count.faults.items()},
                }
                for run in self.result.runs
            ],
        }


def describe(run: Run) -> str:
    """A run in one line."""
    name = f"round {run.round}" if run.round else "warm-up"
    text = f"{name}, {run.part}, {run.peer.label}, producers {run.producers}, {run.size:,}"
    if run.rows_per_s is None:
        return f"{text}: {run.count.records:,} out, {describe_faults(run.count)}"
    driver = f", driver {run.driver_ms:,.0f} ms a batch" if run.driver_ms is not None else ""
    requests = f", {run.requests:.2f} requests a transaction" if run.requests is not None else ""
    return f"{text}: {run.rows_per_s:,.0f} rows/s in {run.batches} batch(es){driver}{requests}"


def _key(run: Run) -> _Key:
    return run.part, run.peer.label, run.producers, run.size


def _ms(values: Iterable[float | None]) -> str:
    spread = Spread.of(values)
    return f"{spread.median:,.0f} ms" if spread else "-"


def _last(values: Iterable[float | None]) -> float | None:
    known = list(values)
    return known[-1] if known else None
