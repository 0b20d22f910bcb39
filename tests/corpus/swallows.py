"""A query whose `foreachBatch` function catches every error of its write and returns.

    swallows.py SERVERS INPUT GROUP OUTPUT PREFIX CHECKPOINT FAULTS PER_BATCH

It reads what is there and ends. The options are those of `Flow.start`, so that the harness can
start the same query afterwards. EOSKAFKA_JAR names the connector.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from eoskafka.session import PLUGIN_CLASS
from pyspark.sql import DataFrame, SparkSession


def main() -> None:
    """Run the query."""
    servers, given, group, made, prefix, checkpoint, faults, per_batch = sys.argv[1:]
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", f"-Dio.eoskafka.faults={faults}")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.jars", os.environ["EOSKAFKA_JAR"])
        .config("spark.plugins", PLUGIN_CLASS)
        .getOrCreate()
    )
    source = {
        "kafka.bootstrap.servers": servers,
        "subscribe": given,
        "kafka.group.id": group,
        "startingOffsets": "earliest",
        "slots": "2",
        "maxOffsetsPerTrigger": per_batch,
    }
    sink = {"kafka.bootstrap.servers": servers, "topic": made, "transactionalIdPrefix": prefix}

    def write(batch: DataFrame, _: int) -> None:
        with suppress(Exception):
            batch.write.format("eoskafka").mode("append").options(**sink).save()

    rows = spark.readStream.format("eoskafka").options(**source).load()
    query = (
        rows.selectExpr("key", "concat(cast(value as string), '!') as value")
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    with suppress(Exception):
        query.awaitTermination()


if __name__ == "__main__":
    main()
