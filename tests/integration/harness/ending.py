"""Programs that take the end of their driver (SIGTERM) in ways of their own, for spark-submit.

    ending.py HOW SERVERS INPUT OUTPUT CHECKPOINT

HOW is `stops` (two queries, and Spark is stopped whatever happens), `swallows` (a function of
`foreachBatch` that takes every error for its own), `restarts` (a query that fails is started
again), `dawdles` (a batch takes a minute), or `once` (until the input is used up, and with nothing
of its own).
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any

import eoskafka
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit
from pyspark.sql.streaming import StreamingQuery


def main() -> None:
    """Run the queries."""
    how, servers, given, made, checkpoint = sys.argv[1:]
    builder = SparkSession.builder.appName(how)
    if "EOSKAFKA_JAR" not in os.environ:
        # Another jar than this package's, which spark-submit was given, is of another version.
        builder = eoskafka.configure(builder)
    spark = builder.getOrCreate()
    brokers = {"kafka.bootstrap.servers": servers}
    rows = (
        spark.readStream.format("eoskafka")
        .options(**brokers, subscribe=given, startingOffsets="earliest", maxOffsetsPerTrigger=2_000)
        .load()
        .select("key", "value")
    )
    if how == "dawdles":
        rows = rows.where("coalesce(java_method('java.lang.Thread', 'sleep', 60L), '') != 'never'")

    def writer(number: int) -> Any:
        each = rows.withColumn("topic", lit(f"{made}-{number}"))
        return each.writeStream.option("checkpointLocation", f"{checkpoint}-{number}")

    def start(number: int) -> StreamingQuery:
        return writer(number).format("eoskafka").options(**brokers).start()  # type: ignore[no-any-return]

    def write(batch: DataFrame, _number: int) -> None:
        with suppress(Exception):
            batch.write.format("eoskafka").options(**brokers).save()

    if how == "stops":
        try:
            start(0)
            start(1)
            spark.streams.awaitAnyTermination()
        finally:
            spark.stop()
    elif how == "dawdles":
        start(0).awaitTermination()
    elif how == "swallows":
        writer(0).foreachBatch(write).start().awaitTermination()
    elif how == "restarts":
        while True:
            with suppress(Exception):
                start(0).awaitTermination()
    else:
        for number in (0, 1):
            each = writer(number).format("eoskafka").options(**brokers).trigger(availableNow=True)
            each.start().awaitTermination()


if __name__ == "__main__":
    main()
