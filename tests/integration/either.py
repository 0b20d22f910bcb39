"""What the tests share that run a source with this connector and with Spark's own (`either`)."""

from __future__ import annotations

import time

from harness import until
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery
from streams import QUERY_S, Streams

# In milliseconds. Recent: retention goes by the time of records.
NOON = int(time.time()) // 1000 * 1_000_000


def running(
    streams: Streams, rows: DataFrame, output: str, checkpoint: object = None
) -> StreamingQuery:
    """A query without end."""
    writer = streams.sink(rows, output, checkpoint)  # type: ignore[arg-type]
    return streams.start(writer.trigger(processingTime="100 milliseconds"))


def reaches(streams: Streams, output: str, wanted: list[int], query: StreamingQuery) -> None:
    """Wait until exactly these numbers are in the output."""
    until(
        lambda: streams.numbers(output) == sorted(wanted),
        f"{sorted(wanted)}",
        QUERY_S,
        lambda: f"{streams.numbers(output)}, {query.exception()}",
    )
