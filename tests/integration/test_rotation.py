"""Several transactions in one task: each holds the offsets of just the records that it was made of.

Shown in the broker's log segments, transaction by transaction, for each operator that the connector
takes for synchronous (`Operators.SYNCHRONOUS`), in generated code and out of it, in micro-batches
and in real-time mode. Where another one is in the plan, a task has one transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from eoskafka import real_time_trigger
from eoskafka.cluster import LocalCluster
from eoskafka.session import REAL_TIME_CHECK
from harness import Flow, StartApplication, compile_to_jar, until
from harness.segments import Transaction, transactions
from harness.versions import (
    EXPANDS_ROW_BY_ROW,
    needs_python_in_task_scope,
    needs_real_time,
    reports,
)
from pyspark.sql import DataFrame
from pyspark.sql.functions import array, broadcast, col, count, explode, lit, udf
from pyspark.sql.streaming import StreamingQuery
from sessions import settings
from streams import QUERY_S, Job, Streams

RECORDS, PARTITIONS = 600, 2
# Where a record comes from, for the transaction that it must be in.
PLACE = "concat_ws(':', partition, offset) AS value"
CODEGEN = "spark.sql.codegen.wholeStage"
# Sooner than any commit is done.
SINK = {"commitIntervalMs": 1}
# A task that cannot commit on the way stops to read after half of it.
SHORT = {"kafka.transaction.timeout.ms": 4_000}

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


def joined_with_many(rows: DataFrame) -> DataFrame:
    """Three rows for each record with an even offset."""
    table = rows.sparkSession.range(0, RECORDS * 3).selectExpr("id div 3 * 2 AS at")
    return placed(rows.join(broadcast(table), col("offset") == col("at")))


def joined_half(rows: DataFrame, how: str) -> DataFrame:
    table = rows.sparkSession.range(0, RECORDS, 2).selectExpr("id AS at")
    return placed(rows.join(broadcast(table), col("offset") == col("at"), how))


def joined_from_the_right(rows: DataFrame) -> DataFrame:
    table = rows.sparkSession.range(0, 100).selectExpr("id AS at")
    return placed(broadcast(table).join(rows, col("offset") == col("at"), "right"))


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
    **({"expand": (expanded, lambda _: 2)} if EXPANDS_ROW_BY_ROW else {}),
    "join": (joined, lambda _: 1),
    "outer join": (joined_in_part, lambda _: 1),
    "join with many": (joined_with_many, lambda offset: 3 * int(offset % 2 == 0)),
    "semi join": (partial(joined_half, how="left_semi"), lambda offset: int(offset % 2 == 0)),
    "anti join": (partial(joined_half, how="left_anti"), lambda offset: offset % 2),
    "right join": (joined_from_the_right, lambda _: 1),
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
    with settings(streams.spark, {CODEGEN: request.param}):
        yield


@pytest.fixture
def job(streams: Streams) -> Job:
    return streams.job(PARTITIONS, RECORDS)


def rows(job: Job, pattern: str | None = None) -> DataFrame:
    topics = {"subscribePattern": pattern} if pattern else {"subscribe": job.input}
    options: dict[str, Any] = {**topics, "kafka.group.id": job.group, "slots": PARTITIONS}
    found = job.streams.source(options=options)
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


# Without `coalesce`: its slots come one after the other, so it is refused there.
SHORTLY = ["filter", "generate", "join with many", "nothing"]
SLOWLY = sorted({*SYNCHRONOUS} - {*SHORTLY, "coalesce"})


@pytest.mark.parametrize(
    "operator", [*SHORTLY, *(pytest.param(each, marks=pytest.mark.slow) for each in SLOWLY)]
)
@needs_real_time
@pytest.mark.usefixtures("codegen")
def test_so_it_does_in_real_time(job: Job, cluster: LocalCluster, operator: str) -> None:
    # Where a filter drops everything, transactions have offsets alone.
    nothing: Plan = lambda rows: placed(rows.where("offset < 0"))  # noqa: E731
    plan, made_of = {**SYNCHRONOUS, "nothing": (nothing, lambda _: 0)}[operator]
    with settings(job.streams.spark, {REAL_TIME_CHECK: "false"}):
        made = plan(rows(job))
        writer = job.streams.sink(made, job.output, job.checkpoint, SINK, mode="update")
        query = job.streams.start(real_time_trigger(writer, "10 minutes"))
        ends = job.streams.ends(job.input)
        until(lambda: query.exception() or job.offsets() == ends, "all offsets", QUERY_S)
        assert query.exception() is None
        query.stop()
    committed = found(job, cluster)
    assert len(committed) > PARTITIONS
    require_each_in_its_own(job, committed, made_of)


def test_a_union_commits_what_is_out_of_each_source(job: Job, cluster: LocalCluster) -> None:
    other = job._replace(input=job.streams.topic(1, 600), group=job.streams.group())
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


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(in_pandas, marks=needs_python_in_task_scope),
        pytest.param(by_function, marks=needs_python_in_task_scope),
        in_a_loop,
    ],
)
def test_a_task_whose_operators_hold_rows_back_commits_once(
    job: Job, cluster: LocalCluster, plan: Plan
) -> None:
    run(job, plan(rows(job)))
    committed = found(job, cluster)
    assert len(committed) == PARTITIONS
    require_each_in_its_own(job, committed, lambda _: 1)


@pytest.mark.slow
@pytest.mark.parametrize("operator", ["columns", "sort"])
def test_a_task_with_an_operator_of_a_plug_in_commits_once(
    start_application: StartApplication,
    flow: Flow,
    cluster: LocalCluster,
    tmp_path: Path,
    operator: str,
) -> None:
    extension = {
        "spark.jars": str(compile_to_jar(tmp_path)),
        "spark.sql.extensions": "testing.HoldsRowsBack",
        "spark.testing.operator": operator,
    }
    application = start_application("local[2]", extension)
    # Several column batches of Spark's 10,000 rows.
    each = 25_000
    flow.produce(each * flow.partitions)
    flow.start(application, sink={"commitIntervalMs": "1"}).wait_done()
    flow.assert_exactly_once()
    committed = transactions(cluster.data_dir, flow.output, flow.group, flow.input)
    # None has offsets of records that are in a later one.
    assert [len(transaction.values) for transaction in committed] == [each] * flow.partitions


@pytest.mark.slow
def test_an_operator_that_is_not_known_is_in_epoch_scope(
    start_application: StartApplication, flow: Flow, tmp_path: Path
) -> None:
    """A plug-in's own operator over column batches: the connector cannot tell what it does."""
    extension = {
        "spark.jars": str(compile_to_jar(tmp_path)),
        "spark.sql.extensions": "testing.HoldsRowsBack",
        "spark.testing.operator": "made up",
    }
    application = start_application("local[2]", extension)
    flow.produce(1_000)
    error = flow.start(application, sink={"transactionScope": "task"}).wait_end().error
    assert error is not None
    assert "[EOSKAFKA_SCOPE_REFUSED]" in error
    assert "it has an operator that is not known to be fit for task scope (MadeUpColumns)" in error
    assert flow.outputs() == []
    flow.start(application).wait_done()
    flow.assert_exactly_once()
    # Its offsets are in a decision, which tasks in task scope have none of.
    assert flow.decision_id()


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


def test_the_first_records_of_a_task_may_be_slow(streams: Streams, cluster: LocalCluster) -> None:
    """The clock is not read for every record, but for these."""
    job = streams.job(1, 10)
    slow = "coalesce(nullif(java_method('java.lang.Thread', 'sleep', 500L), 'null'), '')"
    made = placed(rows(job)).selectExpr("key", f"value || {slow} AS value")
    timeout = {"kafka.transaction.timeout.ms": 3_000}
    job.streams.succeed(job.streams.sink(made, job.output, job.checkpoint, timeout))
    committed = found(job, cluster)
    # Five seconds of records, and half of the timeout is a second and a half.
    assert len(committed) >= 3
    require_each_in_its_own(job, committed, lambda _: 1)


def slowly(rows: DataFrame, prepared: Path = Path("none"), target: Path = Path()) -> DataFrame:
    """Takes seconds, through Python; moves a file that is prepared when it begins."""

    def each(frames: Iterator[Any]) -> Iterator[Any]:
        import time

        for frame in frames:
            with suppress(OSError):
                prepared.rename(target)
            time.sleep(0.3)
            yield frame.assign(value=frame["value"].str.strip())

    # Long ones: what fits between the JVM and Python is read at once.
    wide = placed(rows).selectExpr("key", "value || repeat(' ', 300000) AS value")
    return wide.mapInPandas(each, "key binary, value string")


@needs_python_in_task_scope
@pytest.mark.usefixtures("few_at_once")
def test_a_task_that_cannot_commit_on_the_way_ends_early(job: Job, cluster: LocalCluster) -> None:
    query = job.streams.run(job.streams.sink(slowly(rows(job)), job.output, job.checkpoint, SHORT))
    # What is available now is done all the same, in several batches.
    assert len([p for p in reports(query) if p.numInputRows > 0]) > 1
    committed = found(job, cluster)
    require_each_in_its_own(job, committed, lambda _: 1)
    assert job.offsets() == job.streams.ends(job.input)


@needs_python_in_task_scope
@pytest.mark.usefixtures("few_at_once")
def test_a_partition_that_a_task_had_no_time_for_is_read_by_the_next_run(job: Job) -> None:
    """The group has an epoch's offset of it, and Spark's log is beyond."""
    streams = job.streams
    one_slot: dict[str, Any] = {"kafka.group.id": job.group, "slots": 1}

    def start(plan: Plan, **sink: Any) -> StreamingQuery:
        made = plan(streams.source(job.input, one_slot))
        writer = streams.sink(made, job.output, job.checkpoint, sink)
        return streams.start(writer.trigger(processingTime="0 seconds"))

    query = start(placed, transactionScope="epoch")
    ends = streams.ends(job.input)
    until(lambda: query.exception() or job.offsets() == ends, "the epoch", QUERY_S)
    query.stop()
    job.send(*range(RECORDS))
    query = start(slowly, **SHORT)
    until(
        lambda: query.exception() or (job.checkpoint / "commits" / "1").exists(), "a batch", QUERY_S
    )
    query.stop()
    assert len([p for p, offset in job.offsets().items() if offset == ends[p]]) == 1
    query = start(slowly, **SHORT)
    ends = streams.ends(job.input)
    until(lambda: query.exception() or job.offsets() == ends, "all offsets", QUERY_S)
    assert query.exception() is None
    query.stop()
    wanted = [f"{p}:{offset}" for p, end in ends.items() for offset in range(end)]
    assert streams.values(job.output) == sorted(wanted)


@needs_python_in_task_scope
@pytest.mark.usefixtures("few_at_once")
def test_what_a_task_has_left_stays_in_its_slot(job: Job, cluster: LocalCluster) -> None:
    """A late attempt of it and whoever goes on have one transactional id."""
    made = slowly(rows(job, f"a?{job.input}"))
    query = job.streams.start(job.streams.sink(made, job.output, job.checkpoint, SHORT))
    until(lambda: (job.checkpoint / "offsets" / "0").exists(), "a batch", QUERY_S)
    # The next batch has a partition that comes before the others.
    job.streams.create(f"a{job.input}", 1)
    assert query.awaitTermination(QUERY_S)
    committed = found(job, cluster)
    for partition in range(PARTITIONS):
        mine = [each for each in committed if partition in each.offsets]
        assert len(mine) > 1
        assert len({each.producer for each in mine}) == 1
    require_each_in_its_own(job, committed, lambda _: 1)


@needs_python_in_task_scope
@pytest.mark.usefixtures("few_at_once")
def test_what_a_task_has_left_is_in_epoch_scope_for_another_run_only(
    job: Job, tmp_path: Path
) -> None:
    """A late attempt of the task would have an id that no writer in epoch scope fences."""
    files, prepared = tmp_path / "files", tmp_path / "prepared"
    files.mkdir()
    prepared.write_text("from a file")

    def start(**sink: Any) -> StreamingQuery:
        # The second batch has news of another source.
        other = job.streams.spark.readStream.format("text").load(str(files))
        both = slowly(rows(job), prepared, files / "news").union(
            other.selectExpr("CAST(NULL AS binary)", "value")
        )
        made = job.streams.sink(both, job.output, job.checkpoint, sink)
        return job.streams.start(made.trigger(processingTime="0 seconds"))

    query = start(**SHORT)
    until(lambda: not query.isActive, "its end", QUERY_S)
    error = str(query.exception())
    assert "EOSKAFKA_SCOPE_NEEDS_RESTART" in error
    assert "it reads from something else than eoskafka" in error
    assert "from a file" not in job.streams.values(job.output)
    query = start()
    ends = job.streams.ends(job.input)
    until(lambda: query.exception() or job.offsets() == ends, "all offsets", QUERY_S)
    assert query.exception() is None
    query.stop()
    wanted = [f"{p}:{offset}" for p, end in ends.items() for offset in range(end)]
    assert job.streams.values(job.output) == sorted([*wanted, "from a file"])


def test_what_a_batch_has_left_is_for_no_other_sink(job: Job) -> None:
    run(job, placed(rows(job)))
    # As a batch that ended early leaves it: Spark's log has all of it.
    job.tamper({p: end - 5 for p, end in job.streams.ends(job.input).items()})
    writer = rows(job).writeStream.format("noop").trigger(availableNow=True)
    error = job.streams.failure(writer.option("checkpointLocation", str(job.checkpoint)))
    assert "EOSKAFKA_BATCH_UNFINISHED" in error
    run(job, placed(rows(job)))
    assert job.offsets() == job.streams.ends(job.input)
