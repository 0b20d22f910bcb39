"""What is exported of each query, for Prometheus and OpenTelemetry alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from eoskafka.reports.model import Query

PREFIX = "eoskafka"
_ONLY = ""


@dataclass(frozen=True)
class Measure:
    """One number of a query, or one for each value of a label.

    Attributes:
        name: without prefix, unit and, of a counter, `total`.
        text: what it is.
        values: of a query, by the label's value.
        label: besides `query`; empty if there is none.
        unit: `seconds`, or empty.
        is_counter: whether it only grows.
    """

    name: str
    text: str
    values: Callable[[Query], Mapping[str, float]]
    label: str = ""
    unit: str = ""
    is_counter: bool = False

    def labels(self, query: Query) -> Iterable[tuple[dict[str, str], float]]:
        """The query's values, with all their labels."""
        for value, number in self.values(query).items():
            yield {"query": query.name, **({self.label: value} if self.label else {})}, number


def _one(of: Callable[[Query], float | None]) -> Callable[[Query], Mapping[str, float]]:
    """A single value; none while it is not known."""

    def values(query: Query) -> Mapping[str, float]:
        number = of(query)
        return {} if number is None else {_ONLY: number}

    return values


def _total(name: str, text: str) -> Measure:
    return Measure(name, text, _one(lambda query: query.totals[name]), is_counter=True)


MEASURES = (
    Measure("query_active", "1 while the query runs.", _one(lambda query: int(query.is_active))),
    Measure(
        "query_failed",
        "1 if an error has ended the query, by the error's condition.",
        lambda query: {query.failure: 1} if query.failure else {},
        label="condition",
    ),
    Measure("batch_id", "Number of the last batch with a report.", _one(lambda query: query.batch)),
    Measure(
        "rows_per_second",
        "Rows per second that the last batch processed.",
        _one(lambda query: query.rows_per_second),
    ),
    Measure(
        "input_rows_per_second",
        "Rows per second that arrived before the last batch.",
        _one(lambda query: query.input_rows_per_second),
    ),
    Measure(
        "offsets_behind",
        "Lag of the partition that is furthest behind, in offsets.",
        lambda query: query.behind,
        label="source",
    ),
    Measure(
        "batch_duration",
        "Duration of each part of the last batch with rows.",
        lambda query: query.durations_s,
        label="part",
        unit="seconds",
    ),
    Measure(
        "commit_latency",
        "Commit latency of the last batch with rows.",
        _one(lambda query: query.commit_latency_s),
        unit="seconds",
    ),
    Measure(
        "epoch_time_left",
        "Time until the last epoch would have been given up.",
        _one(lambda query: query.epoch_time_left_s),
        unit="seconds",
    ),
    Measure(
        "last_report_timestamp",
        "When the query made its last report, since 1970.",
        _one(lambda query: query.reported_s or None),
        unit="seconds",
    ),
    Measure(
        "stable_offset_wait",
        "Time that the query waited for offsets that other transactions held open.",
        _one(lambda query: sum(query.waits_s.values())),
        unit="seconds",
        is_counter=True,
    ),
    _total("rows", "Input rows."),
    _total("batches", "Batches that had rows."),
    _total("transactions_committed", "Transactions that were committed."),
    _total("transactions_aborted", "Transactions of attempts that failed."),
    _total("fenced_attempts", "Attempts whose producer was fenced."),
)
