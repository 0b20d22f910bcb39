"""A session's queries in a terminal: `live`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from eoskafka import _connect
from eoskafka.metrics.board import Board
from eoskafka.reports.table import table

if TYPE_CHECKING:
    from rich.console import Console

_LAST_REPORTS_MS = 5_000
_LOOK_S = 0.1


@contextmanager
def live(spark: SparkSession, console: Console | None = None) -> Iterator[Board]:
    """Show the queries of a session in the terminal while the `with` block runs.

    Args:
        spark: whose queries.
        console: of rich; standard error by default.

    Returns:
        the numbers that are shown.
    """
    from rich.console import Console as Terminal
    from rich.live import Live

    board = Board()
    spark.streams.addListener(board)
    try:
        with Live(
            get_renderable=lambda: table(board.queries()),
            console=console or Terminal(stderr=True),
            refresh_per_second=2,
        ):
            try:
                yield board
            finally:
                _hear_the_rest(spark, board)
    finally:
        spark.streams.removeListener(board)


def _hear_the_rest(spark: SparkSession, board: Board) -> None:
    """Reports come later than what they tell of: the last of them are to be shown too."""
    if _connect.is_session(spark):
        # The report that a query has ended is its last one.
        deadline = time.monotonic() + _LAST_REPORTS_MS / 1_000
        running = {query.name or str(query.id) for query in spark.streams.active}
        while time.monotonic() < deadline and any(
            query.is_active and query.name not in running for query in board.queries()
        ):
            time.sleep(_LOOK_S)
        return
    bus = spark.sparkContext._jsc.sc().listenerBus()
    # Fails only if the bus is stopped, which has told everything.
    with suppress(Exception):
        bus.waitUntilEmpty(_LAST_REPORTS_MS)
