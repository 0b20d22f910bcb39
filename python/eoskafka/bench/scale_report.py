"""What the benchmark of scale says in the end."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table

from eoskafka.bench.scale import PER_SLOT, Run
from eoskafka.bench.summary import (
    Spread,
    Summary,
    as_dict,
    count_as_json,
    describe_faults,
    median_text,
    new_table,
    round_name,
)

# Part, peer's label, producers, size.
_Key = tuple[str, str, str, int]


class ScaleReport(Summary[Run]):
    """The timed rounds of a result, summed up. Warm-ups count only if they were wrong."""

    def keys(self) -> list[_Key]:
        """What was run, in its order."""
        return list(dict.fromkeys(_key(run) for run in self.result.runs))

    def right(self, key: _Key) -> list[Run]:
        """The timed runs of it that were right."""
        return [run for run in self.timed() if _key(run) == key and run.count.is_right]

    def rows_per_s(self, key: _Key) -> Spread | None:
        """Input rows per second."""
        return Spread.of(run.rows_per_s for run in self.right(key))

    def heading(self) -> str:
        """What was run."""
        s = self.result.settings
        return f"{s.records:,} records of 100 B in each number of partitions, {s.rounds} rounds"

    def table(self) -> Table:
        """One row per case."""
        table = new_table(
            *("part, peer, producers", "size", "rows/s", "driver", "planning", "ids", "states"),
            "requests",
        )
        for key in self.keys():
            part, peer, producers, size = key
            runs = self.right(key)
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
            **self.json_head("scale"),
            "cases": [
                {
                    **dict(zip(("part", "peer", "producers", "size"), key, strict=True)),
                    "rows_per_s": as_dict(self.rows_per_s(key)),
                    "driver_ms": as_dict(Spread.of(run.driver_ms for run in self.right(key))),
                    "planning_ms": as_dict(Spread.of(run.planning_ms for run in self.right(key))),
                    "transactional_ids": _last(run.transactional_ids for run in self.right(key)),
                    "producer_states": _last(run.producer_states for run in self.right(key)),
                    "requests": _last(run.requests for run in self.right(key)),
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
                    **count_as_json(run.count),
                }
                for run in self.result.runs
            ],
        }


def describe(run: Run) -> str:
    """A run in one line."""
    name = round_name(run.round)
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
