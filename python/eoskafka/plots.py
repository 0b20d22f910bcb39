"""Plots for notebooks, from the reports of a query. They need `pip install 'eoskafka[bench]'`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from eoskafka.errors import ConfigurationError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The connector's colour, and that of what stands beside it.
OURS, OTHERS = "#1f5fa8", "#9aa5b1"


def progress(reports: Sequence[Any]) -> Figure:
    """Rows, time and backlog of a query's batches.

    Args:
        reports: progress reports, such as `query.recentProgress` (Spark keeps the last 100).
            Those without rows are left out.

    Returns:
        three plots over the batch number: rows per second; the time of the batch and of its commit,
        in seconds; the offsets by which the partition with the largest lag is behind.

    Raises:
        ConfigurationError: matplotlib is not installed, or no report has rows.
    """
    try:
        from matplotlib import pyplot as plt
        from matplotlib.ticker import MaxNLocator
    except ImportError as error:
        raise ConfigurationError(
            "matplotlib is not installed, and plots need it: pip install 'eoskafka[bench]'"
        ) from error
    batches = [report for report in reports if report.numInputRows]
    if not batches:
        raise ConfigurationError("none of these reports is of a batch with rows")
    numbers = [report.batchId for report in batches]
    figure, (rows, seconds, behind) = plt.subplots(1, 3, figsize=(13, 3.2))
    rows.plot(numbers, [report.processedRowsPerSecond for report in batches], "o-", color=OURS)
    rows.set_title("rows per second", fontsize=10)
    whole = [report.durationMs.get("triggerExecution", 0) / 1_000 for report in batches]
    seconds.bar(numbers, whole, color=OTHERS, label="batch")
    latency = [_of_sink(report, "commitLatencyMs") / 1_000 for report in batches]
    seconds.bar(numbers, latency, color=OURS, label="of it commit latency")
    seconds.set_title("seconds", fontsize=10)
    seconds.legend(fontsize=8)
    backlog = [
        max(float((source.metrics or {}).get("maxOffsetsBehindLatest", 0)) for source in of.sources)
        for of in batches
    ]
    behind.fill_between(numbers, backlog, color=OURS, alpha=0.3)
    behind.plot(numbers, backlog, "o-", color=OURS)
    behind.set_title("offsets behind, most backward partition", fontsize=10)
    for axes in (rows, seconds, behind):
        axes.set_xlabel("batch")
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.tight_layout()
    # A notebook shows what is returned; pyplot would show it a second time.
    plt.close(figure)
    return figure


def _of_sink(report: Any, name: str) -> float:
    return float((report.sink.metrics or {}).get(name, 0))
