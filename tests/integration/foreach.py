"""Queries with a function of `foreachBatch`, on the session of the test."""

from __future__ import annotations

from pathlib import Path

from harness.functions import Function
from pyspark.sql import DataFrame
from streams import Streams, kv

ROWS = 20


def run(streams: Streams, topic: str, checkpoint: Path, write: Function) -> None:
    run_rows(streams, kv(streams.source(topic, {"maxOffsetsPerTrigger": 8})), checkpoint, write)


def run_rows(streams: Streams, rows: DataFrame, checkpoint: Path, write: Function) -> None:
    """Hand each batch that is there now to a function."""
    streams.run(
        rows.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
    )


def save(streams: Streams, frame: DataFrame, topic: str, **more: str) -> None:
    streams.save(frame, topic, more)
