"""The demo's Spark job: topic to topic through a Python UDF, until the input is used up.

It is a program of its own (`python -m eoskafka.demo.job`), so that it can be killed; started again
with the same checkpoint it goes on. It knows nothing of the demo around it.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, udf

import eoskafka

# For tests of the demo itself: another sink, in jars of its own (comma-separated paths).
SINK_FORMAT = "EOSKAFKA_DEMO_SINK_FORMAT"
EXTRA_JARS = "EOSKAFKA_DEMO_EXTRA_JARS"

# Stands for real work, a model or a look-up, and gives a transaction a life of half a second.
WORK_PER_RECORD_S = 0.0001

_LOOK_S = 0.1

_SETTINGS = {
    "spark.app.name": "eoskafka-demo",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Rows go through the UDF in small portions, so that output starts while input is being read.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
    # In bytes: with Spark's 64 KiB a short task's output would come in one piece, at its end.
    "spark.sql.execution.pandas.udf.buffer.size": "1024",
}


def measured_and_mirrored(text: str) -> str:
    """The text's length, a colon, and the text in capitals from its end to its beginning."""
    time.sleep(WORK_PER_RECORD_S)
    return f"{len(text)}:{text.upper()[::-1]}"


def main() -> None:
    """Run until everything that was in the input topic at the start is processed."""
    arguments = _arguments()
    spark = _session(arguments.executors, arguments.jars)
    while not arguments.start_file.exists():
        time.sleep(_LOOK_S)
    lines = (
        spark.readStream.format(arguments.format)
        .option("kafka.bootstrap.servers", arguments.bootstrap_servers)
        .option("subscribe", arguments.input_topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", arguments.batch_size)
        .load()
    )
    transform = udf(measured_and_mirrored, "string")
    query = (
        lines.select("key", transform(col("value").cast("string")).alias("value"))
        .writeStream.format(os.environ.get(SINK_FORMAT, arguments.format))
        .option("kafka.bootstrap.servers", arguments.bootstrap_servers)
        .option("topic", arguments.output_topic)
        .option("checkpointLocation", str(arguments.checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


def _session(executors: int, jars: str) -> SparkSession:
    # One core per executor: a task, and so a transaction, each.
    builder = SparkSession.builder.master(f"local-cluster[{executors},1,1024]")
    for key, value in _SETTINGS.items():
        builder = builder.config(key, value)
    if jars:
        builder = builder.config("spark.jars", jars)
    return eoskafka.configure(builder).getOrCreate()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--format", required=True, help="Spark's name of source and sink")
    parser.add_argument(
        "--jars", default=os.environ.get(EXTRA_JARS, ""), help="paths of jars, with commas"
    )
    parser.add_argument("--input-topic", required=True)
    parser.add_argument("--output-topic", required=True)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument(
        "--start-file", type=Path, required=True, help="begin to read once this file exists"
    )
    parser.add_argument("--executors", type=int, required=True)
    parser.add_argument("--batch-size", type=int, required=True, help="records per micro-batch")
    return parser.parse_args()


if __name__ == "__main__":
    main()
