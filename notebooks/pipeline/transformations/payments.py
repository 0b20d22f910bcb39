"""Payments, written to another topic in capitals, and kept in a table."""

from __future__ import annotations

from dataclasses import replace

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, upper

from eoskafka import Sink, Source

spark = SparkSession.active()
servers = spark.conf.get("spark.payments.servers")
group = spark.conf.get("spark.payments.group")

source = Source(
    bootstrap_servers=servers,
    subscribe=spark.conf.get("spark.payments.input"),
    starting_offsets="earliest",
    max_offsets_per_trigger=50_000,
)
sink = Sink(bootstrap_servers=servers, topic=spark.conf.get("spark.payments.output"))

dp.create_sink("payments_clean", "eoskafka", sink.options())


@dp.append_flow(target="payments_clean")
def clean() -> DataFrame:
    """The group has a name, so a full refresh, which would write the payments again, is refused."""
    payments = replace(source, group_id=group).stream(spark)
    return payments.select("key", upper(col("value").cast("string")).alias("value"))


@dp.table
def payments() -> DataFrame:
    """The group has no name, so a full refresh may empty the table and read everything again."""
    return source.stream(spark).select(
        col("key").cast("string"), col("value").cast("string"), "partition", "offset"
    )
