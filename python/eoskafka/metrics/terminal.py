"""A session's queries in a terminal: `live`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from eoskafka.metrics.board import Board, hear_the_rest
from eoskafka.reports.table import table

if TYPE_CHECKING:
    from rich.console import Console


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
                hear_the_rest(spark, board)
    finally:
        spark.streams.removeListener(board)
