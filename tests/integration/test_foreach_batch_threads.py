"""Writes inside `foreachBatch` on any thread: which batch they belong to, if to any."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from foreach import ROWS, run, save
from harness import Flow, StartApplication, forget_last_batch
from harness.functions import Function
from harness.javac import compile_to_jar
from harness.transforms import Frames
from harness.waiting import until
from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame
from streams import Streams, kv

BATCH = 100


def in_pool(work: Callable[[], None]) -> None:
    with ThreadPoolExecutor() as pool:
        pool.submit(work).result()


def in_inheriting_thread(work: Callable[[], None]) -> None:
    in_pool(inheritable_thread_target(work))


@pytest.mark.parametrize("started", [in_pool, in_inheriting_thread])
def test_rows_of_the_batch_are_written_once_on_another_thread(
    streams: Streams, started: Callable[[Callable[[], None]], None]
) -> None:
    topic, output = streams.topic(records=ROWS), streams.topic()
    checkpoint = streams.checkpoint()

    def write(batch: DataFrame, _: int) -> None:
        started(lambda: save(streams, kv(batch).where("value is not null"), output))

    run(streams, topic, checkpoint, write)
    forget_last_batch(checkpoint)
    run(streams, topic, checkpoint, write)
    assert streams.numbers(output) == [*range(ROWS)]


def test_other_rows_on_the_functions_own_thread_are_a_write_of_the_batch(
    streams: Streams,
) -> None:
    topic, output = streams.topic(records=ROWS), streams.topic()
    checkpoint = streams.checkpoint()

    def write(_: DataFrame, number: int) -> None:
        rows = streams.spark.range(number, number + 1).selectExpr("cast(id as string) value")
        save(streams, rows, output)

    run(streams, topic, checkpoint, write)
    forget_last_batch(checkpoint)
    run(streams, topic, checkpoint, write)
    assert streams.numbers(output) == [0, 1, 2]


def test_rows_made_from_the_batchs_rdd_are_those_of_the_batch(streams: Streams) -> None:
    topic, output = streams.topic(records=ROWS), streams.topic()
    checkpoint = streams.checkpoint()

    def write(batch: DataFrame, _: int) -> None:
        again = batch.sparkSession.createDataFrame(kv(batch).rdd, "key binary, value binary")
        in_pool(lambda: save(streams, again, output))

    run(streams, topic, checkpoint, write)
    forget_last_batch(checkpoint)
    run(streams, topic, checkpoint, write)
    assert streams.numbers(output) == [*range(ROWS)]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["on_a_fixed_pool", "on_scalas_pool"])
def test_a_thread_of_a_pool_writes_the_batch_that_runs_and_not_the_one_that_created_it(
    start_application: StartApplication, flow: Flow, tmp_path: Path, form: str
) -> None:
    application = start_application("local[2]", spark_jars=str(compile_to_jar(tmp_path)))
    flow.produce(3 * BATCH)
    flow.start(application, form=form, maxOffsetsPerTrigger=BATCH).wait_done()
    forget_last_batch(flow.checkpoint)
    flow.start(application, form=form, maxOffsetsPerTrigger=BATCH).wait_done()
    flow.assert_exactly_once()


def test_a_write_is_known_again_without_pinned_threads(
    start_application: StartApplication, flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PIN_THREAD", "false")
    application = start_application("local[2]")
    flow.produce(3 * BATCH)
    flow.start(application, form="foreach_batch", maxOffsetsPerTrigger=BATCH).wait_done()
    forget_last_batch(flow.checkpoint)
    flow.start(application, form="foreach_batch", maxOffsetsPerTrigger=BATCH).wait_done()
    flow.assert_exactly_once()


def error_of(streams: Streams, write: Function) -> str:
    """The error of a query that hands each batch to `write`."""
    return streams.failure(
        kv(streams.source(streams.topic(records=ROWS), {"maxOffsetsPerTrigger": 8}))
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(streams.checkpoint()))
        .trigger(availableNow=True)
    )


def test_other_rows_on_a_thread_that_the_function_created_are_refused(streams: Streams) -> None:
    output = streams.topic()
    rows = streams.spark.range(ROWS).selectExpr("cast(id as string) value")

    def write(_: DataFrame, __: int) -> None:
        in_inheriting_thread(lambda: save(streams, rows, output))

    error = error_of(streams, write)
    assert "[EOSKAFKA_WRITE_OFF_THREAD]" in error, error
    assert streams.values(output) == []


def test_rows_of_a_former_batch_on_another_thread_are_refused(streams: Streams) -> None:
    output = streams.topic()
    former: list[DataFrame] = []

    def write(batch: DataFrame, _: int) -> None:
        if former:
            in_pool(lambda: save(streams, kv(former[0]), output))
        former.append(batch)

    error = error_of(streams, write)
    assert "[EOSKAFKA_WRITE_OFF_THREAD]" in error, error
    assert streams.values(output) == []


@pytest.mark.parametrize("of", ["its batch", "other rows"])
@pytest.mark.parametrize("source", ["eoskafka", "rate"])
def test_a_write_that_begins_after_its_query_has_ended_is_refused(
    streams: Streams, source: str, of: str
) -> None:
    topic, output = streams.topic(records=ROWS), streams.topic()
    checkpoint = streams.checkpoint()
    rows = {
        "eoskafka": lambda: kv(streams.source(topic)),
        "rate": lambda: (
            streams.spark.readStream.format("rate")
            .load()
            .selectExpr("cast(value as string) key", "cast(value as string) value")
        ),
    }[source]()
    others = streams.spark.range(ROWS).selectExpr("cast(id as string) value")
    has_ended = threading.Event()
    late: list[threading.Thread] = []
    errors: list[str] = []

    def write(batch: DataFrame, _: int) -> None:
        def save_late() -> None:
            has_ended.wait(60)
            try:
                save(streams, batch if of == "its batch" else others, output)
            except Exception as error:
                errors.append(str(error))

        late.append(threading.Thread(target=inheritable_thread_target(save_late)))
        late[-1].start()
        raise RuntimeError("the function has failed")

    query = rows.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint))
    error = streams.failure(query)
    has_ended.set()
    for thread in late:
        thread.join()
    assert "the function has failed" in error
    assert len(errors) == 1
    assert "[EOSKAFKA_WRITE_OFF_THREAD]" in errors[0]
    assert streams.values(output) == []


def test_a_batch_job_beside_a_query_is_a_job_of_its_own(streams: Streams) -> None:
    topic, output, side = streams.topic(records=ROWS), streams.topic(), streams.topic()
    rows = streams.spark.range(ROWS).selectExpr("cast(id as string) value")

    def write(batch: DataFrame, number: int) -> None:
        in_pool(lambda: save(streams, rows, side, writeId=f"{side}-{number}"))
        save(streams, kv(batch), output)

    run(streams, topic, streams.checkpoint(), write)
    assert streams.numbers(output) == [*range(ROWS)]
    assert Counter(streams.numbers(side)) == dict.fromkeys(range(ROWS), 3)


def test_two_threads_cannot_write_under_one_name_at_once(streams: Streams, tmp_path: Path) -> None:
    output = streams.topic()
    errors: list[str] = []

    def write(batch: DataFrame, number: int) -> None:
        begun, go = tmp_path / f"begun{number}", tmp_path / f"go{number}"

        def each(frames: Frames) -> Frames:
            begun.touch()
            # A Python worker has no `until`.
            while not go.exists():
                time.sleep(0.05)
            yield from frames

        slow = kv(batch).mapInPandas(each, "key binary, value string")
        first = threading.Thread(target=save, args=(streams, slow, output))
        first.start()
        until(begun.exists, "the first write", 60)
        try:
            save(streams, kv(batch), output)
        except Exception as error:
            errors.append(str(error))
        finally:
            go.touch()
            first.join()

    run(streams, streams.topic(records=ROWS), streams.checkpoint(), write)
    assert len(errors) == 3
    for error in errors:
        assert "[EOSKAFKA_WRITE_IN_PROGRESS]" in error
    assert streams.numbers(output) == [*range(ROWS)]
