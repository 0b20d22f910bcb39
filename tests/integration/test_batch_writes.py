"""Batch writes, by themselves and inside `foreachBatch`: all of their rows, once, or none."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import Application, Flow, Point, StartApplication, forget_last_batch
from kafka.admin import KafkaAdminClient
from pyspark.sql import DataFrame, functions
from streams import Streams, kv

ROWS = 20


def rows(streams: Streams, count: int = ROWS, start: int = 0) -> DataFrame:
    """Numbers as text, in four partitions."""
    return streams.spark.range(start, start + count, 1, 4).selectExpr(
        "concat('k', id) key", "cast(id as string) value"
    )


def save(frame: DataFrame, streams: Streams, topic: str, mode: str = "append", **more: str) -> None:
    streams.save(frame, topic, more, mode)


def open_transactions(admin: KafkaAdminClient, prefix: str) -> list[str]:
    listed = admin.list_transactions(state_filters=["Ongoing"])
    found = [t.transactional_id for each in listed.values() for t in each]
    return [name for name in found if name.startswith(prefix)]


def assert_nothing_is_open(admin: KafkaAdminClient, prefix: str) -> None:
    assert open_transactions(admin, prefix) == []


def test_a_batch_write_without_rows(streams: Streams) -> None:
    output = streams.topic()
    save(rows(streams).where("value = 'x'"), streams, output)
    assert streams.values(output) == []


def test_a_batch_write_that_fails_leaves_nothing(streams: Streams) -> None:
    output = streams.topic()

    @functions.udf("string")
    def fails(value: str) -> str:
        if value == "19":
            raise ValueError(value)
        return value

    with pytest.raises(Exception, match="ValueError"):
        save(
            rows(streams).select("key", fails("value").alias("value")),
            streams,
            output,
            transactionalIdPrefix=output,
        )
    assert streams.values(output) == []
    assert_nothing_is_open(streams.admin, output)


def test_a_batch_write_that_fails_in_the_connector_leaves_nothing(streams: Streams) -> None:
    # Such a failure comes as a checked exception of Spark's.
    output = streams.topic()
    topics = rows(streams).withColumn(
        "topic", functions.when(functions.col("value") != "19", functions.lit(output))
    )
    with pytest.raises(Exception, match="EOSKAFKA_NULL_TOPIC"):
        topics.write.format("eoskafka").mode("append").options(
            **{"kafka.bootstrap.servers": streams.servers, "transactionalIdPrefix": output}
        ).save()
    assert streams.values(output) == []
    assert_nothing_is_open(streams.admin, output)


def test_a_batch_write_whose_rows_cannot_be_made_leaves_nothing(streams: Streams) -> None:
    # The writer's task sees a checked exception of Spark's.
    output = streams.topic()
    parsed = functions.from_json("value", "number int", {"mode": "FAILFAST"})
    with pytest.raises(Exception, match="MALFORMED_RECORD_IN_PARSING"):
        save(
            rows(streams)
            .withColumn("value", functions.expr("if(value = '19', '{', '{\"number\": 1}')"))
            .select("key", parsed["number"].cast("string").alias("value")),
            streams,
            output,
            transactionalIdPrefix=output,
        )
    assert streams.values(output) == []
    assert_nothing_is_open(streams.admin, output)


def test_a_named_write_takes_effect_once(streams: Streams) -> None:
    output = streams.topic()
    for _ in range(2):
        save(rows(streams), streams, output, writeId=f"nightly-{output}")
    assert streams.numbers(output) == [*range(ROWS)]
    with pytest.raises(Exception, match="EOSKAFKA_WRITE_ID_USED"):
        save(rows(streams, start=5), streams, output, writeId=f"nightly-{output}")
    assert streams.numbers(output) == [*range(ROWS)]


def test_a_named_write_is_known_again_however_many_tasks_make_its_rows(streams: Streams) -> None:
    output = streams.topic()
    for partitions in (4, 2):
        frame = rows(streams).coalesce(partitions)
        save(frame, streams, output, writeId=f"shares-{output}")
    assert streams.numbers(output) == [*range(ROWS)]


def test_a_name_is_for_batch_writes_only(streams: Streams) -> None:
    output = streams.topic()
    writer = streams.sink(kv(streams.source(streams.topic())), output, options={"writeId": "x"})
    with pytest.raises(Exception, match=r"EOSKAFKA_OPTION_INVALID.*writeId"):
        streams.run(writer)


# ---- a job whose driver died


def resolve(flow: Flow, *more: str, job: str | None = None) -> tuple[int, str]:
    """Exit code of `eoskafka txn resolve` for the flow's job, and what it printed."""
    command = ["txn", "resolve", job or flow.name, "--bootstrap-servers", flow.servers, *more]
    prefix = ["--transactional-id-prefix", f"eoskafka-{flow.name}"]
    done = subprocess.run(
        [sys.executable, "-m", "eoskafka", *command, *prefix],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "said", "written"),
    [
        ("before-decision", "nothing of it has taken effect", 0),
        ("half-rolled-forward", "all of it has taken effect, in 4 transactions", ROWS),
    ],
)
def test_a_job_whose_driver_died_is_settled_from_outside(
    application: Application, flow: Flow, point: Point, said: str, written: int
) -> None:
    application.faults.arm(point, "kill")
    sink: dict[str, Any] = {
        "kafka.bootstrap.servers": flow.servers,
        "topic": flow.output,
        "transactionalIdPrefix": f"eoskafka-{flow.name}",
        "writeId": flow.name,
    }
    with pytest.raises(RuntimeError):
        application.write(ROWS, **sink)
    application.kill()
    left = flow.open_transactions()
    assert left
    code, text = resolve(flow, "--decision-topic", "not-there")
    assert (code, "[EOSKAFKA_NO_SUCH_TOPIC]" in text) == (1, True), text
    assert flow.open_transactions() == left
    for _ in range(2):
        code, text = resolve(flow)
        assert code == 0, text
        assert said in text
        assert len(flow.outputs()) == written
        flow.assert_nothing_is_open()
    code, text = resolve(flow, "--forget", "--format", "json")
    assert code == 0, text
    assert json.loads(text)["forgotten"]
    code, text = resolve(flow)
    assert code == 1
    assert "nothing is known of it here" in text


@pytest.mark.slow
def test_a_job_without_a_name_is_settled_by_the_id_of_one_of_its_transactions(
    application: Application, flow: Flow
) -> None:
    application.faults.arm("half-rolled-forward", "kill")
    sink: dict[str, Any] = {
        "kafka.bootstrap.servers": flow.servers,
        "topic": flow.output,
        "transactionalIdPrefix": f"eoskafka-{flow.name}",
    }
    with pytest.raises(RuntimeError):
        application.write(ROWS, **sink)
    application.kill()
    code, text = resolve(flow, "--forget", job=flow.open_transactions()[0])
    assert code == 0, text
    assert "all of it has taken effect, in 4 transactions; its entry has been removed" in text
    assert len(flow.outputs()) == ROWS
    flow.assert_nothing_is_open()


# ---- inside foreachBatch


def batches(streams: Streams, write: Callable[[DataFrame, int], None]) -> str:
    """The error of a query that hands each batch to `write`."""
    source = streams.source(streams.topic(records=ROWS), {"maxOffsetsPerTrigger": 8})
    return streams.failure(
        kv(source)
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(streams.checkpoint()))
        .trigger(availableNow=True)
    )


def test_two_named_writes_of_each_batch_take_effect_once(streams: Streams) -> None:
    topic, left, right = streams.topic(records=ROWS), streams.topic(), streams.topic()
    checkpoint = streams.checkpoint()
    calls = []

    def write(batch: DataFrame, number: int) -> None:
        calls.append(number)
        save(kv(batch), streams, left, writeId="left")
        save(kv(batch), streams, right, writeId="right")

    def run() -> None:
        streams.run(
            kv(streams.source(topic, {"maxOffsetsPerTrigger": 8}))
            .writeStream.foreachBatch(write)
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
        )

    run()
    last = max(calls)
    forget_last_batch(checkpoint)
    streams.send(topic, ROWS)
    run()
    assert calls.count(last) == 2
    assert streams.numbers(left) == [*range(ROWS + 1)]
    assert streams.numbers(right) == [*range(ROWS + 1)]


def test_a_second_write_of_a_batch_without_a_name_is_an_error(streams: Streams) -> None:
    output = streams.topic()

    def write(batch: DataFrame, _: int) -> None:
        save(kv(batch), streams, output)
        save(kv(batch), streams, output)

    error = batches(streams, write)
    assert "EOSKAFKA_SECOND_WRITE" in error, error
    assert len(streams.numbers(output)) == 8


def test_a_write_that_changes_its_target_within_a_run_is_an_error(streams: Streams) -> None:
    output = streams.topic()

    def write(batch: DataFrame, number: int) -> None:
        save(kv(batch), streams, output, **{"kafka.client.rack": f"r{number}"})

    error = batches(streams, write)
    assert "[EOSKAFKA_SINK_CHANGED]" in error, error
    assert len(streams.numbers(output)) == 8


@pytest.fixture
def application(start_application: StartApplication) -> Application:
    return start_application("local[2]")


@pytest.mark.parametrize(
    "point",
    [
        pytest.param("before-decision", marks=pytest.mark.slow),
        "after-decision",
        pytest.param("before-log", marks=pytest.mark.slow),
    ],
)
def test_a_driver_killed_in_a_write_of_foreach_batch(
    application: Application, start_application: StartApplication, flow: Flow, point: Point
) -> None:
    flow.produce(200)
    flow.reach(application, point, "kill", form="foreach_batch", maxOffsetsPerTrigger=100)
    application.kill()
    again = start_application("local[2]")
    flow.start(again, form="foreach_batch", maxOffsetsPerTrigger=100).wait_done()
    flow.assert_exactly_once()


@pytest.mark.parametrize(
    "point", [pytest.param("before-decision", marks=pytest.mark.slow), "after-decision"]
)
def test_a_function_that_catches_the_error_of_a_write_cannot_write_again_in_this_run(
    application: Application, flow: Flow, point: Point
) -> None:
    flow.produce(200)
    application.faults.arm(point, "fail")
    query = flow.start(application, form="foreach_batch_again", maxOffsetsPerTrigger=100)
    error = query.wait_end().error
    if point == "after-decision":
        assert "[EOSKAFKA_RUN_ENDED]" in str(error), error
    else:
        assert error is None, error  # nothing was sent, so the second one is as good as the first
    flow.start(application, form="foreach_batch_again", maxOffsetsPerTrigger=100).wait_done()
    flow.assert_exactly_once()


def test_a_write_of_foreach_batch_that_fails_leaves_nothing_though_the_query_goes_on(
    streams: Streams,
) -> None:
    # Such a failure comes as a checked exception of Spark's.
    output = streams.topic()
    to = functions.when(functions.col("value") != "19", functions.lit(output))
    options = {"kafka.bootstrap.servers": streams.servers, "transactionalIdPrefix": output}
    open_after_batch = {}

    def write(_: DataFrame, number: int) -> None:
        writer = rows(streams).withColumn("topic", to).write.format("eoskafka").mode("append")
        with pytest.raises(Exception, match="EOSKAFKA_NULL_TOPIC"):
            writer.options(**options).save()
        open_after_batch[number] = open_transactions(streams.admin, output)

    streams.run(
        streams.source(streams.topic(records=ROWS))
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(streams.checkpoint()))
        .trigger(availableNow=True)
    )
    assert open_after_batch == {0: []}
    assert streams.values(output) == []


def test_a_deleted_checkpoint_stops_a_write_of_foreach_batch(streams: Streams) -> None:
    topic, output, checkpoint = streams.topic(records=ROWS), streams.topic(), streams.checkpoint()

    def run() -> None:
        streams.run(
            kv(streams.source(topic, {"maxOffsetsPerTrigger": 8}))
            .writeStream.foreachBatch(lambda batch, _: save(kv(batch), streams, output))
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
        )

    run()
    shutil.rmtree(Path(checkpoint))
    streams.send(topic, ROWS)
    with pytest.raises(Exception, match="EOSKAFKA_DECISION_NEWER"):
        run()
    assert streams.numbers(output) == [*range(ROWS)]
