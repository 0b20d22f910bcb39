"""Real-time mode: output comes while a batch runs, and what it cannot have is refused."""

from __future__ import annotations

import json
import re
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from eoskafka import ConfigurationError, real_time_trigger
from eoskafka.cluster import LocalCluster
from eoskafka.session import REAL_TIME_CHECK
from eoskafka.sparks import ASYNC_PROGRESS
from harness import forget_last_batch, until
from harness.segments import transactions
from harness.versions import SPARK, needs_built_in, needs_real_time
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame
from pyspark.sql.functions import broadcast, col
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery
from sessions import NO_GENERATED_CODE, settings
from streams import QUERY_S, Job, Streams

pytestmark = needs_real_time

BATCH = "5 seconds"
LONG_BATCH = "10 minutes"


@pytest.fixture(autouse=True)
def _allowed(streams: Streams) -> Iterator[None]:
    with settings(streams.spark, {REAL_TIME_CHECK: "false"}):
        yield


@pytest.fixture
def job(streams: Streams) -> Job:
    return streams.job()


def start(job: Job, batch: str = BATCH, sink: dict[str, Any] | None = None, **source: Any) -> Any:
    rows = job.streams.source(job.input, {"kafka.group.id": job.group, **source})
    return begin(job, rows.select("key", "value"), batch, sink)


def begin(
    job: Job, rows: DataFrame, batch: str = BATCH, sink: dict[str, Any] | None = None
) -> StreamingQuery:
    writer = job.streams.sink(rows, job.output, job.checkpoint, sink, mode="update")
    return job.streams.start(real_time_trigger(writer, batch))


def wait_written(job: Job, numbers: range, query: StreamingQuery) -> None:
    job.streams.wait_written(job.output, numbers, query)


def finish(job: Job, numbers: range, query: StreamingQuery) -> None:
    """Stop a query whose output is complete: these numbers are there then, once each."""
    query.stop()
    assert job.written() == [*numbers]


def wait_batches(query: StreamingQuery, count: int) -> None:
    def are_there() -> bool:
        assert query.isActive, query.exception()
        return len(query.recentProgress) >= count

    until(are_there, f"{count} batches", QUERY_S)


def test_the_last_records_do_not_wait_for_the_next_ones(job: Job) -> None:
    job.send(*range(100))
    query = start(job, LONG_BATCH)
    wait_written(job, range(100), query)
    job.send(100)
    # It waits for less than the batch's end, which is in ten minutes.
    wait_written(job, range(101), query)
    assert query.recentProgress == []
    finish(job, range(101), query)
    assert job.offsets() == job.streams.ends(job.input)


def test_batches_follow_each_other_and_are_logged(job: Job, cluster: LocalCluster) -> None:
    query = start(job, sink={"commitIntervalMs": 20})
    for number in range(200):
        job.send(number)
        time.sleep(0.05)
    wait_batches(query, 2)
    wait_written(job, range(200), query)
    finish(job, range(200), query)
    first, second = query.recentProgress[:2]
    assert first.sources[0].endOffset == second.sources[0].startOffset
    assert first.sink.metrics["transactionScope"] == "task"
    assert int(first.sink.metrics["transactionsCommitted"]) > 2
    # Each transaction has as many records as offsets.
    reached: Counter[int] = Counter()
    for found in transactions(cluster.data_dir, job.output, job.group, job.input):
        assert len(found.values) == sum(end - reached[p] for p, end in found.offsets.items())
        reached.update({p: end - reached[p] for p, end in found.offsets.items()})
    assert sum(reached.values()) == 200


def epochs(job: Job) -> dict[str, int]:
    """Of the query's producers, from their coordinator: each end of a transaction moves one."""
    listed = job.streams.admin.list_transactions().values()
    ids = [t.transactional_id for found in listed for t in found]
    mine = [name for name in ids if f"-{job.group}-" in name]
    described = job.streams.admin.describe_transactions(mine)
    return {name: found.producer_epoch for name, found in described.items()}


def test_idle_slots_commit_nothing(job: Job, cluster: LocalCluster) -> None:
    query = start(job, sink={"commitIntervalMs": 20})
    wait_batches(query, 1)
    before = epochs(job)
    # Then one slot has a record, and is idle again like the other one.
    job.streams.send(job.input, 0, partition=0)
    wait_written(job, range(1), query)
    wait_batches(query, len(query.recentProgress) + 2)
    after = epochs(job)
    finish(job, range(1), query)
    assert sorted(before.values()) == [0, 0]
    assert sorted(after.values()) == [0, 1]
    (only,) = transactions(cluster.data_dir, job.output, job.group, job.input)
    assert (only.values, only.offsets) == ([b"0"], {0: 1})


def test_slots_serve_any_number_of_partitions(streams: Streams) -> None:
    job = streams.job(partitions=10, records=500)
    query = start(job, LONG_BATCH)
    wait_written(job, range(500), query)
    finish(job, range(500), query)


def test_real_time_and_micro_batches_take_turns(job: Job) -> None:
    job.send(*range(50))
    query = start(job, LONG_BATCH)
    wait_written(job, range(50), query)
    query.stop()
    # The group is ahead of Spark's log, which has no batch yet.
    job.send(*range(50, 100))
    job.run()
    assert job.written() == [*range(100)]
    job.send(*range(100, 150))
    again = start(job)
    wait_written(job, range(150), again)
    wait_batches(again, 1)
    again.stop()
    job.run()
    assert job.written() == [*range(150)]


def test_a_group_that_was_set_back_is_the_truth(job: Job) -> None:
    job.send(*range(50))
    query = start(job)
    wait_written(job, range(50), query)
    wait_batches(query, 1)
    query.stop()
    # Spark's log says that all of it is done.
    ends = job.streams.ends(job.input)
    job.tamper({p: end - 5 for p, end in ends.items()})
    again = start(job, LONG_BATCH)
    until(lambda: len(job.written()) == 60, "the records again", QUERY_S)
    assert again.isActive
    again.stop()
    assert Counter(Counter(job.written()).values()) == {1: 40, 2: 10}


def test_an_offset_that_went_before_spark_logged_a_batch_stops_the_query(job: Job) -> None:
    job.send(*range(10))
    query = start(job, LONG_BATCH)
    wait_written(job, range(10), query)
    query.stop()
    # Its log has no batch, and the records of that batch are out.
    assert not list((job.checkpoint / "offsets").glob("[0-9]*"))
    job.leave()
    job.streams.admin.delete_groups([job.group])
    for refused in (job.failure(), ended(start(job))):
        assert "EOSKAFKA_OFFSETS_GONE" in refused
    assert job.written() == [*range(10)]


def test_offsets_that_went_after_real_time_mode_has_followed_an_epoch_stop_the_query(
    job: Job,
) -> None:
    job.send(*range(10))
    job.streams.run(job.in_epoch_scope())
    job.send(*range(10, 20))
    query = start(job, LONG_BATCH)
    wait_written(job, range(20), query)
    query.stop()
    # The last batch in Spark's log is the epoch, which was decided; more than that is out.
    assert [f.name for f in (job.checkpoint / "offsets").glob("[0-9]*")] == ["0"]
    job.leave()
    job.streams.admin.delete_groups([job.group])
    assert "EOSKAFKA_OFFSETS_GONE" in job.failure()
    assert job.written() == [*range(20)]


@pytest.mark.parametrize("partitions", [pytest.param(2, marks=pytest.mark.slow), 10])
def test_another_sink_reads_to_the_end_of_time_as_well(streams: Streams, partitions: int) -> None:
    job = streams.job(partitions)
    job.send(*range(50))
    rows = streams.source(job.input, {"kafka.group.id": job.group})
    writer = (
        rows.writeStream.format("console")
        .option("checkpointLocation", str(job.checkpoint))
        .outputMode("update")
    )
    query = streams.start(real_time_trigger(writer, BATCH))
    wait_batches(query, 2)
    query.stop()
    assert sum(report.numInputRows for report in query.recentProgress) == 50
    assert job.offsets() == streams.ends(job.input, partitions)


@pytest.mark.parametrize("fails", [True, False], ids=["fails", "goes on"])
def test_a_topic_that_is_replaced_in_mid_batch(job: Job, fails: bool) -> None:
    job.send(*range(50))
    query = start(job, LONG_BATCH if fails else BATCH, failOnDataLoss=fails)
    wait_written(job, range(50), query)
    job.streams.delete(job.input)
    job.streams.create(job.input, 2)
    job.send(*range(50, 70))
    if not fails:
        wait_written(job, range(70), query)
        wait_batches(query, len(query.recentProgress) + 1)
        finish(job, range(70), query)
        return
    error = ended(query)
    assert re.search("EOSKAFKA_(TOPIC_REPLACED|PARTITION_GONE|OFFSETS_CHANGED)", error), error
    assert job.written() == [*range(50)]


def in_pandas(rows: DataFrame) -> DataFrame:
    def each(frames: Iterator[Any]) -> Iterator[Any]:
        yield from frames

    return rows.select("key", "value").mapInPandas(each, "key binary, value binary")


REFUSED_PLANS: dict[str, tuple[Callable[[DataFrame], DataFrame], str]] = {
    "state": (
        lambda rows: rows.groupBy("key").count().selectExpr("key", "string(count) value"),
        "not one for task scope",
    ),
    "a shuffle": (lambda rows: rows.repartition(2).select("key", "value"), "it shuffles"),
    "Python": (in_pandas, "which may hold rows back"),
    "slots in a row": (lambda rows: rows.coalesce(1).select("key", "value"), "coalesce"),
}


@pytest.mark.parametrize("plan", REFUSED_PLANS)
def test_a_plan_that_it_cannot_have_is_refused(job: Job, plan: str) -> None:
    make, reason = REFUSED_PLANS[plan]
    job.send(*range(10))
    error = ended(begin(job, make(job.streams.source(job.input))))
    assert "EOSKAFKA_REAL_TIME_REFUSED" in error
    assert reason in error
    assert job.written() == []


def test_a_join_that_leaves_records_unread_is_refused(job: Job) -> None:
    spark = job.streams.spark
    nothing = spark.range(1).where("id > 5").selectExpr("string(id) AS at")
    job.send(*range(10))
    rows = job.streams.source(job.input)
    joined = rows.join(broadcast(nothing), col("key").cast("string") == col("at"))
    with settings(spark, NO_GENERATED_CODE):
        error = ended(begin(job, joined.select("key", "value")))
    assert "EOSKAFKA_REAL_TIME_REFUSED" in error
    assert "no row passes its join" in error
    assert job.written() == []


@needs_built_in
def test_a_query_that_reads_from_another_source_alone_is_refused(job: Job) -> None:
    job.send(*range(10))
    rows = (
        job.streams.spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", job.streams.servers)
        .option("subscribe", job.input)
        .option("startingOffsets", "earliest")
        .load()
    )
    error = ended(begin(job, rows.select("key", "value")))
    assert "EOSKAFKA_REAL_TIME_REFUSED" in error
    assert "it reads from another source" in error
    assert job.written() == []


def ended(query: StreamingQuery) -> str:
    until(lambda: not query.isActive, "its end", QUERY_S)
    return str(query.exception())


@pytest.mark.parametrize(
    ("source", "sink"),
    [
        ({"ownership": "shared"}, {}),
        ({"maxOffsetsPerTrigger": 10}, {}),
        ({"minPartitions": 4}, {}),
        ({}, {"transactionScope": "epoch"}),
    ],
    ids=["shared", "a limit", "split", "epoch scope"],
)
def test_options_that_it_cannot_have_are_refused(
    job: Job, source: dict[str, Any], sink: dict[str, Any]
) -> None:
    error = ended(start(job, sink=sink, **source))
    assert "EOSKAFKA_REAL_TIME_REFUSED" in error


def test_a_session_that_was_not_configured_for_it_is_told(job: Job) -> None:
    job.streams.spark.conf.unset(REAL_TIME_CHECK)
    with pytest.raises(IllegalArgumentException, match=REAL_TIME_CHECK):
        start(job)


@pytest.mark.skipif(SPARK < (4, 3), reason="Spark 4.3 introduced it")
def test_asynchronous_progress_is_refused_with_the_setting_to_change(job: Job) -> None:
    with (
        settings(job.streams.spark, {ASYNC_PROGRESS: "true"}),
        pytest.raises(ConfigurationError, match=f"Set {ASYNC_PROGRESS}=false"),
    ):
        start(job)


def test_a_batch_of_foreach_batch_that_is_not_done_is_not_forgotten(job: Job) -> None:
    job.send(*range(10))
    options = {"kafka.bootstrap.servers": job.streams.servers, "topic": job.output}
    rows = job.streams.source(job.input, {"kafka.group.id": job.group}).select("key", "value")

    def once(fails: bool) -> DataStreamWriter:
        def write(batch: DataFrame, _: int) -> None:
            batch.write.format("eoskafka").options(**options).save()
            if fails:
                raise RuntimeError("after its output")

        writer = rows.writeStream.foreachBatch(write).trigger(availableNow=True)
        return writer.option("checkpointLocation", str(job.checkpoint))

    assert "after its output" in job.streams.failure(once(fails=True))
    assert job.written() == [*range(10)]
    error = ended(start(job))
    assert "EOSKAFKA_REAL_TIME_REFUSED" in error
    assert "batch 0 of its checkpoint is not done" in error
    # The way out that it names.
    job.streams.run(once(fails=False))
    job.send(*range(10, 20))
    query = start(job)
    wait_written(job, range(20), query)
    finish(job, range(20), query)


def test_an_epoch_that_is_not_logged_is_not_forgotten(job: Job) -> None:
    job.send(*range(10))
    job.streams.run(job.in_epoch_scope())
    # As if the driver had died before Spark logged the batch.
    for file in (job.checkpoint / "commits").glob("*0*"):
        file.unlink()
    error = ended(start(job))
    assert "EOSKAFKA_REAL_TIME_REFUSED" in error
    job.streams.run(job.in_epoch_scope())
    assert job.written() == [*range(10)]


def test_a_start_of_a_copy_with_another_group_disturbs_no_query(job: Job) -> None:
    job.send(*range(10))
    query = job.streams.start(job.in_epoch_scope().trigger(processingTime="0 seconds"))
    wait_written(job, range(10), query)
    wait_batches(query, 1)
    copy = job.streams.checkpoint()
    shutil.copytree(job.checkpoint, copy, ignore=shutil.ignore_patterns(".metadata.crc"))
    # Under the same id, Spark would stop the first query.
    (copy / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}), encoding="utf-8")
    # Real-time mode would refuse its last batch, and settle what it had decided.
    forget_last_batch(copy)
    other = job._replace(checkpoint=copy, group=job.streams.group())
    assert "EOSKAFKA_GROUP_CHANGED" in ended(start(other))
    job.send(*range(10, 20))
    wait_written(job, range(20), query)
    finish(job, range(20), query)


def test_sources_share_the_cores(job: Job) -> None:
    other = job._replace(input=job.streams.topic(2, 50), group=job.streams.group())
    job.send(*range(50, 100))
    both = [
        job.streams.source(each.input, {"kafka.group.id": each.group}).select("key", "value")
        for each in (job, other)
    ]
    query = begin(job, both[0].union(both[1]), LONG_BATCH)
    wait_written(job, range(100), query)
    finish(job, range(100), query)


def noop(job: Job) -> DataStreamWriter:
    """The source without a sink of ours, for what is there now."""
    rows = job.streams.source(job.input, {"kafka.group.id": job.group})
    writer = rows.writeStream.format("noop").trigger(once=True)
    return writer.option("checkpointLocation", str(job.checkpoint))


def test_another_sink_does_not_go_on_with_what_was_read_in_real_time(job: Job) -> None:
    job.send(*range(10))
    query = start(job, LONG_BATCH)
    wait_written(job, range(10), query)
    query.stop()
    before = job.offsets()
    # Spark has no log of it.
    assert "EOSKAFKA_LOG_BEHIND_GROUP" in job.streams.failure(noop(job))
    assert job.offsets() == before
    # The way out: a batch of our sink, which Spark logs.
    job.send(10)
    job.run()
    job.streams.run(noop(job))


def test_another_sink_takes_over_and_its_group_may_lag(job: Job) -> None:
    job.send(*range(10))
    job.run()
    for first in (10, 20, 30):
        # The group follows such a batch at the next one's start.
        job.send(*range(first, first + 10))
        job.streams.run(noop(job))
    assert job.written() == [*range(10)]
