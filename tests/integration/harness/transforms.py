"""What a query does between source and sink, by name: a function cannot be sent to the job."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from eoskafka import guard, schemas, with_dead_letters
from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import col, concat, expr, lit, rand, regexp_replace, when
from pyspark.sql.functions import max as max_

# Of pandas data frames, which have no types here.
Frames = Iterator[Any]

_ROWS = "key binary, value binary"

# At the end of the value of a pair's second record (see `faults.feeder`).
PARTNER = "'"
# The setting of a session that says where the table of `in_table` is.
TABLE = "spark.eoskafka.test.table"
# The setting that names the topics of `dead_letters`: of rows that are right, and of the others.
TOPICS = "spark.eoskafka.test.topics"
# The setting that has the registry's URL and the pin of `orders`.
REGISTRY = "spark.eoskafka.test.registry"


def exclaim(rows: DataFrame) -> DataFrame:
    """An exclamation mark after each value; null stays null."""
    return rows.select("key", concat(col("value").cast("string"), lit("!")).alias("value"))


def as_is(rows: DataFrame) -> DataFrame:
    """Key and value, and the headers if they were read."""
    return rows.select(*(c for c in ("key", "value", "headers") if c in rows.columns))


def as_text(rows: DataFrame) -> DataFrame:
    """Key and value as text."""
    return rows.selectExpr("cast(key as string) key", "cast(value as string) value")


def exclaim_as_text(rows: DataFrame) -> DataFrame:
    """As `exclaim`, with keys as text."""
    return as_text(exclaim(rows))


def numbered(rows: DataFrame) -> DataFrame:
    """Key and value from the numbers of Spark's source `rate-micro-batch`, in two tasks."""
    return rows.selectExpr("concat('k', value) key", "cast(value as string) value").repartition(2)


def repartitioned(rows: DataFrame) -> DataFrame:
    """As `exclaim`, with a shuffle and no state; more writers than markers have partitions."""
    return exclaim(rows).repartition(5, "key")


def by_key(rows: DataFrame) -> DataFrame:
    """As `exclaim`, with as many writers as the session has shuffle partitions."""
    return exclaim(rows).repartition("key")


def random(rows: DataFrame) -> DataFrame:
    """As `repartitioned`, with another value each time it runs."""
    return rows.select("key", rand().cast("string").alias("value")).repartition(5, "key")


def grouped(rows: DataFrame) -> DataFrame:
    """As `exclaim` where each key comes once (update mode): an aggregation, which keeps state."""
    return rows.groupBy("key").agg(
        concat(max_(col("value").cast("string")), lit("!")).alias("value")
    )


def deduplicated(rows: DataFrame) -> DataFrame:
    """As `exclaim`; of a record and its partner (see `Feeder`) only the first one, once."""
    return exclaim(_without_mark(rows).dropDuplicates(["key", "value"]))


def joined(rows: DataFrame) -> DataFrame:
    """As `exclaim`, of each record that has a partner (see `Feeder`), when both have come."""
    is_partner = col("value").cast("string").endswith(PARTNER)
    partners = _without_mark(rows.where(is_partner)).select(
        col("key").alias("other_key"), col("value").alias("other_value")
    )
    is_same = (col("key") == col("other_key")) & (col("value") == col("other_value"))
    return exclaim(rows.where(~is_partner).join(partners, is_same))


def counted(rows: DataFrame) -> DataFrame:
    """As `exclaim` (update mode), of each record that has a partner, when two have been counted."""
    counts = _without_mark(rows).groupBy("key", "value").count()
    return exclaim(counts.where("count = 2"))


def _without_mark(rows: DataFrame) -> DataFrame:
    """Each partner with the value of the record that it belongs to."""
    number = regexp_replace(col("value").cast("string"), f"{PARTNER}$", "")
    return rows.withColumn("value", number.cast("binary"))


def drop_all(rows: DataFrame) -> DataFrame:
    """A filter that no row passes, which Spark cannot know before it has read them."""
    return exclaim(rows).where(col("value") == "no row has this value")


def fail_all(rows: DataFrame) -> DataFrame:
    """As `repartitioned`, with a function that fails on every row."""
    return repartitioned(rows).selectExpr("key", "cast(raise_error('fails') as string) as value")


def exclaim_in_pandas(rows: DataFrame) -> DataFrame:
    """As `exclaim`, in a Python worker."""

    def each(frames: Frames) -> Frames:
        for frame in frames:
            yield frame.assign(value=frame["value"] + b"!")

    return rows.select("key", "value").mapInPandas(each, _ROWS)


def repartitioned_in_pandas(rows: DataFrame) -> DataFrame:
    """As `repartitioned`, with `exclaim_in_pandas`."""
    return exclaim_in_pandas(rows).repartition(5, "key")


def in_table(rows: DataFrame) -> DataFrame:
    """As `exclaim`, of the rows whose key is in the Delta table that `TABLE` names."""
    spark = rows.sparkSession
    table = spark.read.format("delta").load(spark.conf.get(TABLE))
    return exclaim(rows.join(table.select(col("key").cast("binary").alias("key")), "key"))


def leave_early(rows: DataFrame) -> DataFrame:
    """One row of each task; the rest of its input is not read. Needs the jar of `javac.py`.

    Not in Python: Spark reads on to the end of a Python function's input, whatever it leaves.
    """
    chosen = rows.select("key", "value")
    jvm: Any = rows.sparkSession._jvm
    return DataFrame(
        chosen._jdf.mapPartitions(jvm.testing.LeaveEarly(), chosen._jdf.encoder()),
        rows.sparkSession,
    )


def slow_first_attempt(rows: DataFrame) -> DataFrame:
    """As `exclaim_in_pandas`; the first attempt of the first task takes long."""

    def each(frames: Frames) -> Frames:
        from pyspark import TaskContext

        task = TaskContext.get()
        if task is not None and task.partitionId() == 0 and task.attemptNumber() == 0:
            # Not a wait for something: slowness is what this one is for.
            time.sleep(8)
        for frame in frames:
            yield frame.assign(value=frame["value"] + b"!")

    return rows.select("key", "value").mapInPandas(each, _ROWS)


def slow_slot(rows: DataFrame) -> DataFrame:
    """As `exclaim`; each record of the first partition takes time, whatever attempt reads it."""
    pause = "CASE WHEN partition = 0 THEN reflect('java.lang.Thread', 'sleep', 5L) END"
    return exclaim(rows.withColumn("pause", expr(pause)).where("pause IS NULL OR pause != ''"))


def dead_letters(rows: DataFrame) -> DataFrame:
    """As `exclaim`; every hundredth record is wrong. Needs a sink without a topic."""
    why = when(col("value").cast("string").endswith("00"), "it ends with 00")
    return _with_dead_letters(rows, why, concat(col("value").cast("string"), lit("!")))


def dead_letters_in_python(rows: DataFrame) -> DataFrame:
    """As `dead_letters`, with a Python function and a shuffle."""

    @guard("binary")
    def add(value: bytearray) -> bytes:
        if value.endswith(b"00"):
            raise ValueError("it ends with 00")
        return bytes(value + b"!")

    made = rows.withColumn("made", add("value"))
    return _with_dead_letters(made, "made.error", "made.value").repartition(5, "key")


def _with_dead_letters(rows: DataFrame, error: Column | str, value: Column | str) -> DataFrame:
    output, dead = str(rows.sparkSession.conf.get(TOPICS)).split(",")
    return with_dead_letters(rows, error=error, value=value, topic=output, dead_letter_topic=dead)


def orders(rows: DataFrame) -> DataFrame:
    """Each order's total in Avro, by a registry; what is no order is a dead letter."""
    conf = rows.sparkSession.conf
    url, pin = str(conf.get(REGISTRY)).split(",")
    registry = schemas.Registry(url)
    read = rows.withColumn("order", schemas.try_decode("value", registry, "orders", pin=pin))
    total = expr("struct(order.value.id as id, order.value.price * order.value.count as total)")
    value = when(col("order.value").isNotNull(), total)
    return _with_dead_letters(
        read, "order.error", schemas.encode(value, registry, "totals", version=1)
    )


TRANSFORMS: dict[str, Callable[[DataFrame], DataFrame]] = {
    function.__name__: function
    for function in (
        exclaim,
        as_is,
        as_text,
        exclaim_as_text,
        numbered,
        repartitioned,
        by_key,
        random,
        grouped,
        deduplicated,
        joined,
        counted,
        drop_all,
        fail_all,
        in_table,
        exclaim_in_pandas,
        repartitioned_in_pandas,
        leave_early,
        slow_first_attempt,
        slow_slot,
        dead_letters,
        dead_letters_in_python,
        orders,
    )
}
