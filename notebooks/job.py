"""A pipeline as a job for spark-submit: it reads payments and writes them in capitals.

    spark-submit --master spark://master:7077 \\
        --jars "$(eoskafka jar-path)" --py-files eoskafka-0.1.0-py3-none-any.whl \\
        --conf spark.plugins=io.eoskafka.EosKafkaPlugin \\
        notebooks/job.py --servers broker:9092 --input payments --output payments-clean \\
        --group payments --checkpoint hdfs:///checkpoints/payments

The topics must exist. The job runs until it is stopped, or with `--once` until it has processed
all input. On SIGTERM it ends its transactions and leaves the group before it exits. After a kill,
submit it again, and it continues where it was.

Exit code 0: with `--once`, all input is processed; or another driver runs this query now, so there
is nothing to restart. Any other code: the query failed, or was told to end.
"""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, upper

import eoskafka
from eoskafka import Sink, Source

# What a driver's query fails with when another driver has taken the query over.
TAKEN_OVER = {
    *("EOSKAFKA_FENCED_BY_DRIVER", "EOSKAFKA_FENCED_BY_GROUP"),
    "EOSKAFKA_CHECKPOINT_TAKEN",
}


def main() -> None:
    """Run the query."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--servers", required=True, help="the brokers' addresses, host:port,...")
    parser.add_argument("--input", required=True, help="the topic to read")
    parser.add_argument("--output", required=True, help="the topic to write")
    parser.add_argument(
        "--group", help="kafka.group.id; by default a name made from the checkpoint's path"
    )
    parser.add_argument("--checkpoint", required=True, help="a folder that every driver can reach")
    parser.add_argument("--once", action="store_true", help="stop when all input is processed")
    given = parser.parse_args()

    spark = eoskafka.configure(SparkSession.builder.appName("payments")).getOrCreate()
    payments = Source(
        bootstrap_servers=given.servers,
        subscribe=given.input,
        group_id=given.group,
        starting_offsets="earliest",
        max_offsets_per_trigger=50_000,
    )
    clean = Sink(bootstrap_servers=given.servers, topic=given.output)
    rows = payments.stream(spark).select("key", upper(col("value").cast("string")).alias("value"))
    writer = clean.stream(rows, checkpoint=given.checkpoint).queryName("payments")
    writer = (
        writer.trigger(availableNow=True)
        if given.once
        else writer.trigger(processingTime="1 second")
    )
    try:
        writer.start().awaitTermination()
    except eoskafka.FencedError as error:
        if error.condition not in TAKEN_OVER:
            raise
        print(f"another driver runs this query, so this one ends: {error.condition}")


if __name__ == "__main__":
    main()
