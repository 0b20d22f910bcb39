"""A query with a Python function that takes 2 GiB of memory once, for spark-submit.

    greedy.py SERVERS INPUT OUTPUT CHECKPOINT FILE

The function does so once FILE is there, in the middle of a task, and removes FILE.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

_MUCH = 2 << 30


def main() -> None:
    """Run the query."""
    servers, given, made, checkpoint, file = sys.argv[1:]

    def take(frames: Iterator[Any]) -> Iterator[Any]:
        for frame in frames:
            yield frame
            if Path(file).exists():
                Path(file).unlink()
                print(len(b"x" * _MUCH))

    spark = SparkSession.builder.appName("greedy").getOrCreate()
    (
        spark.readStream.format("eoskafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", given)
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("key", "CAST(upper(CAST(value AS STRING)) AS BINARY) value")
        .mapInPandas(take, "key binary, value binary")
        .writeStream.format("eoskafka")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", made)
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime="200 milliseconds")
        .start()
        .awaitTermination()
    )


if __name__ == "__main__":
    main()
