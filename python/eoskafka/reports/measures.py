"""What is exported of each query, for Prometheus and OpenTelemetry alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from eoskafka.reports.model import Query

PREFIX = "eoskafka"


@dataclass(frozen=True)
class Measure:
    """One number of a query, or one for each value of a label.

    Attributes:
        name: without prefix, unit and, of a counter, `total`.
        text: what it is.
        get: its numbers of a query, by the label's value.
        put: gives a query the number of a label's value.
        label: besides `query`; empty if there is none.
        unit: `seconds`, or empty.
        is_counter: whether it only grows.
    """

    name: str
    text: str
    get: Callable[[Query], Mapping[str, float]]
    put: Callable[[Query, str, float], object]
    label: str = ""
    unit: str = ""
    is_counter: bool = False

    @property
    def family(self) -> str:
        """What Prometheus calls it, without `_total`."""
        return "_".join(filter(None, (PREFIX, self.name, self.unit)))

    @property
    def series(self) -> str:
        """What Prometheus calls its numbers."""
        return f"{self.family}_total" if self.is_counter else self.family

    def labelled(self, query: Query) -> Iterable[tuple[dict[str, str], float]]:
        """The query's numbers, with all their labels."""
        for value, number in self.get(query).items():
            yield {"query": query.name, **({self.label: value} if self.label else {})}, number


def _one(
    name: str,
    text: str,
    attribute: str,
    unit: str = "",
    kind: Callable[[float], object] = float,
) -> Measure:
    """One number, an attribute of the query; none while it is None."""

    def get(query: Query) -> Mapping[str, float]:
        number = getattr(query, attribute)
        return {} if number is None else {"": float(number)}

    def put(query: Query, _: str, number: float) -> None:
        setattr(query, attribute, kind(number))

    return Measure(name, text, get, put, unit=unit)


def _each(name: str, text: str, attribute: str, label: str, unit: str = "") -> Measure:
    """One number for each entry of a dictionary of the query."""
    return Measure(
        *(name, text),
        lambda query: getattr(query, attribute),
        lambda query, value, number: getattr(query, attribute).update({value: number}),
        *(label, unit),
    )


def _total(name: str, text: str) -> Measure:
    return Measure(
        *(name, text),
        lambda query: {"": query.totals[name]},
        lambda query, _, number: query.totals.update({name: int(number)}),
        is_counter=True,
    )


MEASURES = (
    _one("query_active", "1 while the query runs.", "is_active", kind=bool),
    Measure(
        "query_failed",
        "1 if an error has ended the query, by the error's condition.",
        lambda query: {query.failure: 1} if query.failure else {},
        lambda query, value, _: setattr(query, "failure", value),
        label="condition",
    ),
    _one("batch_id", "Number of the last batch with a report.", "batch", kind=int),
    _one("rows_per_second", "Rows per second that the last batch processed.", "rows_per_second"),
    _one(
        "input_rows_per_second",
        "Rows per second that arrived before the last batch.",
        "input_rows_per_second",
    ),
    _each(
        "offsets_behind",
        "Lag of the partition that is furthest behind, in offsets.",
        "behind",
        "source",
    ),
    _each(
        "batch_duration",
        "Duration of each part of the last batch with rows.",
        "durations_s",
        "part",
        "seconds",
    ),
    _one(
        "commit_latency",
        "Commit latency of the last batch with rows.",
        "commit_latency_s",
        "seconds",
    ),
    _one(
        "epoch_time_left",
        "Time until the last epoch would have been given up.",
        "epoch_time_left_s",
        "seconds",
    ),
    _one(
        "last_report_timestamp",
        "Time of the query's last report, in seconds since 1970.",
        "reported_s",
        "seconds",
    ),
    Measure(
        "stable_offset_wait",
        "Time that the query waited for offsets that other transactions held open.",
        lambda query: {"": sum(query.waits_s.values())},
        lambda query, _, number: query.waits_s.update({("", 0): number}),
        unit="seconds",
        is_counter=True,
    ),
    _total("rows", "Input rows."),
    _total("batches", "Batches that had rows."),
    _total("transactions_committed", "Transactions that were committed."),
    _total("transactions_aborted", "Transactions of attempts that failed."),
    _total("fenced_attempts", "Attempts whose producer was fenced."),
)
