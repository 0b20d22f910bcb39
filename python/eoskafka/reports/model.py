"""`Query`: what one query has reported."""

from __future__ import annotations

from collections import Counter as Numbers
from dataclasses import dataclass, field


@dataclass
class Query:
    """A query's numbers.

    Attributes:
        name: as the user gave it, else its id.
        is_active: whether it runs.
        failure: the condition of the error that ended it, or an empty text.
        batch: number of the last batch with a report.
        rows_per_second: that it has processed in that batch.
        input_rows_per_second: that arrived before it.
        behind: by source, the most offsets by which a partition is behind.
        durations_s: of the last batch with rows, by Spark's names of its parts, in seconds.
        commit_latency_s: of the last batch with rows, in seconds; None before.
        epoch_time_left_s: how much later the last batch in epoch scope could have been decided, in
            seconds; None if there was none.
        scope: of the last batch with rows: `task` or `epoch`; an empty text with another sink.
        totals: since it was first seen: `rows`, `batches`, `transactions_committed`,
            `transactions_aborted`, `fenced_attempts`.
        waits_s: by run and source, how long it has waited for offsets that others held open.
        reported_s: when its last report was made, in seconds since 1970; None before.
    """

    name: str
    is_active: bool = True
    failure: str = ""
    batch: int = -1
    rows_per_second: float = 0.0
    input_rows_per_second: float = 0.0
    behind: dict[str, float] = field(default_factory=dict)
    durations_s: dict[str, float] = field(default_factory=dict)
    commit_latency_s: float | None = None
    epoch_time_left_s: float | None = None
    scope: str = ""
    totals: Numbers[str] = field(default_factory=Numbers)
    waits_s: dict[tuple[str, int], float] = field(default_factory=dict)
    reported_s: float | None = None
