"""The table of queries that `eoskafka.metrics.live` and `eoskafka top` show."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from eoskafka._text import printable
from eoskafka.reports.model import Query

HEADINGS = ("state", "batch", "rows/s", "behind", "commit", "txns", "aborted", "fenced")


def table(
    queries: Sequence[Query], drivers: Sequence[str] = (), now_s: float | None = None
) -> Table:
    """A row for each query, and below them why those that have failed did.

    Args:
        queries: to show.
        drivers: of each of them, if there are several drivers.
        now_s: in seconds since 1970, to show how old the last report of each is.
    """
    failures = [
        Text.assemble(printable(query.name), ": ", printable(query.failure))
        for query in queries
        if query.failure
    ]
    shown = Table(
        box=None,
        pad_edge=False,
        caption=Text("\n").join(failures) if failures else None,
        caption_justify="left",
        caption_style="red",
    )
    # A long name goes on in the next line; numbers stay whole.
    for heading in (["driver"] if drivers else []) + ["query"]:
        shown.add_column(heading, overflow="fold")
    for heading in (*HEADINGS, *(["report"] if now_s is not None else [])):
        shown.add_column(heading, justify="right", no_wrap=True)
    for number, query in enumerate(queries):
        shown.add_row(
            *([printable(drivers[number])] if drivers else []),
            printable(query.name),
            *_numbers(query),
            *([_age(query, now_s)] if now_s is not None else []),
        )
    return shown


def _numbers(query: Query) -> list[str]:
    latency = query.commit_latency_s
    return [
        "failed" if query.failure else "runs" if query.is_active else "ended",
        f"{query.batch:,}" if query.batch >= 0 else "-",
        f"{query.rows_per_second:,.0f}",
        f"{max(query.behind.values()):,.0f}" if query.behind else "-",
        f"{latency * 1_000:,.0f} ms" if latency is not None else "-",
        f"{query.totals['transactions_committed']:,}",
        f"{query.totals['transactions_aborted']:,}",
        f"{query.totals['fenced_attempts']:,}",
    ]


def _age(query: Query, now_s: float) -> str:
    reported_s = query.reported_s
    return "-" if reported_s is None else f"{max(0.0, now_s - reported_s):,.0f} s"
