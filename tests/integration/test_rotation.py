"""Several transactions in one task: each holds the offsets of just the records that it was made of.

Shown in the broker's log segments, transaction by transaction, for each operator that the connector
takes for synchronous (`BatchPlan.SYNCHRONOUS`), in generated code and out of it. Where another one
is in the plan, a task has one transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from eoskafka.cluster import LocalCluster
from harness import Flow, StartApplication, compile_to_jar
from harness.segments import Transaction, transactions
from pyspark.sql import DataFrame
from pyspark.sql.functions import array, broadcast, col, count, explode, lit, udf
from streams import Job, Streams

RECORDS, PARTITIONS = 600, 2
# Where a record comes from, for the transaction that it must be in.
PLACE = "concat_ws(':', partition, offset) AS value"
CODEGEN = "spark.sql.codegen.wholeStage"
# Sooner than any commit is done.
SINK = {"commitIntervalMs": 1}

Plan = Callable[[DataFrame], DataFrame]


def placed(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("key", PLACE)


def filtered(rows: DataFrame) -> DataFrame:
    return placed(rows.where("offset % 3 != 0"))


def generated(rows: DataFrame) -> DataFrame:
    many = array(*map(lit, range(5)))
    return placed(rows.withColumn("n", explode(many)))


def expanded(rows: DataFrame) -> DataFrame:
    wide = placed(rows).select("key", "value", lit(1).alias("a"), lit(2).alias("b"))
    return wide.unpivot(["key", "value"], ["a", "b"], "which", "n").select("key", "value")


def joined(rows: DataFrame) -> DataFrame:
    table = rows.sparkSession.range(0, RECORDS).selectExpr("concat('k', id) AS text")
    return placed(rows.join(broadcast(table), col("key").cast("string") == col("text")))


def joined_in_part(rows: DataFrame) -> DataFrame:
    table = rows.sparkSession.range(0, 100).selectExpr("concat('k', id) AS text")
    wide = rows.join(broadcast(table), col("key").cast("string") == col("text"), "left")
    return placed(wide)


def observed(rows: DataFrame) -> DataFrame:
    return placed(rows.observe("rows", count(lit(1)).alias("n")))


def with_watermark(rows: DataFrame) -> DataFrame:
    return placed(rows.withWatermark("timestamp", "1 minute"))


def together(rows: DataFrame) -> DataFrame:
    return placed(rows).coalesce(1)


# How many rows each makes of a record.
SYNCHRONOUS: dict[str, tuple[Plan, Callable[[int], int]]] = {
    "project": (placed, lambda _: 1),
    "filter": (filtered, lambda offset: int(offset % 3 != 0)),
    "generate": (generated, lambda _: 5),
    "expand": (expanded, lambda _: 2),
    "join": (joined, lambda _: 1),
    "outer join": (joined_in_part, lambda _: 1),
    "observe": (observed, lambda _: 1),
    "watermark": (with_watermark, lambda _: 1),
    "coalesce": (together, lambda _: 1),
}


@pytest.fixture(
    params=[
        pytest.param("true", id="generated code"),
        pytest.param("false", id="no generated code", marks=pytest.mark.slow),
    ]
)
def codegen(request: pytest.FixtureRequest, streams: Streams) -> Iterator[None]:
    former = streams.spark.conf.get(CODEGEN)
    streams.spark.conf.set(CODEGEN, request.param)
    yield
    streams.spark.conf.set(CODEGEN, former)


@pytest.fixture
def job(streams: Streams) -> Job:
    return streams.job(PARTITIONS, RECORDS)


def rows(job: Job) -> DataFrame:
    found = job.streams.source(job.input, {"kafka.group.id": job.group, "slots": PARTITIONS})
    # A millisecond for each: after a commit a task reads for as long as that has taken.
    return found.where("coalesce(java_method('java.lang.Thread', 'sleep', 1L), '') != 'never'")


def run(job: Job, made: DataFrame, **sink: Any) -> None:
    writer = job.streams.sink(made, job.output, job.checkpoint, {**SINK, **sink})
    job.streams.run(writer)


def found(job: Job, cluster: LocalCluster) -> list[Transaction]:
    """What was committed after the query's start had committed where it begins."""
    return transactions(cluster.data_dir, job.output, job.group, job.input)


def require_each_in_its_own(
    job: Job, committed: list[Transaction], made_of: Callable[[int], int]
) -> None:
    """Each transaction has the rows made of the records whose offsets it commits, and no others."""
    reached: Counter[int] = Counter()
    for transaction in committed:
        wanted = Counter(
            {
                f"{partition}:{offset}".encode(): made_of(offset)
                for partition, end in transaction.offsets.items()
                for offset in range(reached[partition], end)
                if made_of(offset)
            }
        )
        assert Counter(transaction.values) == wanted
        reached.update({p: end - reached[p] for p, end in transaction.offsets.items()})
    assert sum(reached.values()) == len(job.streams.values(job.input))


@pytest.mark.parametrize("operator", SYNCHRONOUS)
@pytest.mark.usefixtures("codegen")
def test_a_task_commits_what_is_out_and_goes_on(
    job: Job, cluster: LocalCluster, operator: str
) -> None:
    plan, made_of = SYNCHRONOUS[operator]
    run(job, plan(rows(job)))
    committed = found(job, cluster)
    assert len(committed) > PARTITIONS
    require_each_in_its_own(job, committed, made_of)


def test_a_union_commits_what_is_out_of_each_source(job: Job, cluster: LocalCluster) -> None:
    other = job._replace(input=job.streams.topic(1, 200), group=job.streams.group())
    empty = job._replace(input=job.streams.topic(1), group=job.streams.group())
    run(job, placed(rows(job)).union(placed(rows(other))).union(placed(rows(empty))))
    for each in (job, other):
        mine = [t for t in found(each, cluster) if t.offsets]
        assert len(mine) > PARTITIONS
        require_each_in_its_own(each, mine, lambda _: 1)


def in_pandas(rows: DataFrame) -> DataFrame:
    def each(frames: Iterator[Any]) -> Iterator[Any]:
        yield from frames

    return placed(rows).mapInPandas(each, "key binary, value string")


def by_function(rows: DataFrame) -> DataFrame:
    same = udf(lambda value: value, "string")
    return placed(rows).select("key", same("value").alias("value"))


def in_a_loop(rows: DataFrame) -> DataFrame:
    return placed(rows.join(broadcast(rows.sparkSession.range(1)), col("offset") >= col("id")))


@pytest.mark.parametrize("plan", [in_pandas, by_function, in_a_loop])
def test_a_task_whose_operators_hold_rows_back_commits_once(
    job: Job, cluster: LocalCluster, plan: Plan
) -> None:
    run(job, plan(rows(job)))
    committed = found(job, cluster)
    assert len(committed) == PARTITIONS
    require_each_in_its_own(job, committed, lambda _: 1)


def test_a_task_whose_rows_become_columns_commits_once(
    start_application: StartApplication, flow: Flow, cluster: LocalCluster, tmp_path: Path
) -> None:
    extension = {
        "spark.jars": str(compile_to_jar(tmp_path)),
        "spark.sql.extensions": "testing.Columnar",
    }
    application = start_application("local[2]", extension)
    each = 10_000
    flow.produce(each * flow.partitions)
    flow.start(application, sink={"commitIntervalMs": "1"}).wait_done()
    flow.assert_exactly_once()
    committed = transactions(cluster.data_dir, flow.output, flow.group, flow.input)
    # None has offsets of records that are in a later one.
    assert [len(transaction.values) for transaction in committed] == [each] * flow.partitions


def test_a_batch_that_takes_long_commits_before_its_transaction_times_out(
    job: Job, cluster: LocalCluster
) -> None:
    slow = "coalesce(nullif(java_method('java.lang.Thread', 'sleep', 30L), 'null'), '')"
    made = placed(rows(job)).selectExpr("key", f"value || {slow} AS value")
    writer = job.streams.sink(
        made, job.output, job.checkpoint, {"kafka.transaction.timeout.ms": 6_000}
    )
    job.streams.run(writer)
    committed = found(job, cluster)
    # Nine seconds of records for each task, and half of the timeout is three.
    assert len(committed) >= 2 * PARTITIONS
    require_each_in_its_own(job, committed, lambda _: 1)


def slowly(rows: DataFrame) -> DataFrame:
    def each(frames: Iterator[Any]) -> Iterator[Any]:
        import time

        for frame in frames:
            time.sleep(0.3)
            yield frame.assign(value=frame["value"].str.strip())

    # Long ones: what fits between the JVM and Python is read at once.
    wide = placed(rows).selectExpr("key", "value || repeat(' ', 100000) AS value")
    return wide.mapInPandas(each, "key binary, value string")


def test_a_task_that_cannot_commit_on_the_way_ends_early(job: Job, cluster: LocalCluster) -> None:
    spark = job.streams.spark
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 20)
    writer = job.streams.sink(
        slowly(rows(job)), job.output, job.checkpoint, {"kafka.transaction.timeout.ms": 4_000}
    )
    try:
        query = job.streams.run(writer)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    # What is available now is done all the same, in several batches.
    assert len([p for p in query.recentProgress if p.numInputRows > 0]) > 1
    committed = found(job, cluster)
    require_each_in_its_own(job, committed, lambda _: 1)
    assert job.offsets() == job.streams.ends(job.input)


def test_what_a_batch_has_left_is_for_no_other_sink(job: Job) -> None:
    run(job, placed(rows(job)))
    # As a batch that ended early leaves it: Spark's log has all of it.
    job.tamper({p: end - 5 for p, end in job.streams.ends(job.input).items()})
    writer = rows(job).writeStream.format("noop").trigger(availableNow=True)
    error = job.streams.failure(writer.option("checkpointLocation", str(job.checkpoint)))
    assert "EOSKAFKA_BATCH_UNFINISHED" in error
    run(job, placed(rows(job)))
    assert job.offsets() == job.streams.ends(job.input)
