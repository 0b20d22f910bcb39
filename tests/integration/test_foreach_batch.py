"""Writes inside `foreachBatch`: what is decided takes effect whole, whatever the function does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from eoskafka.audit import read_committed
from eoskafka.cluster import LocalCluster
from foreach import ROWS, run, run_rows, save
from harness import Application, Flow, StartApplication, forget, forget_last_batch, until
from harness.functions import OTHER, Function
from harness.transforms import Frames
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from streams import Streams, kv

BATCH = 100


@pytest.fixture
def application(start_application: StartApplication) -> Application:
    return start_application("local[2]")


def keys(flow: Flow, topic: str) -> Counter[bytes]:
    """How often each key is in a topic."""
    return Counter(record.key or b"" for record in read_committed(flow.servers, topic))


def batches(*numbers: int) -> Counter[bytes]:
    """Each key of these batches once."""
    return Counter(b"k%d" % (BATCH * n + i) for n in numbers for i in range(BATCH))


def other_topic(flow: Flow) -> str:
    """A topic for the second write."""
    topic = f"{flow.name}-other"
    with flow.admin() as admin:
        admin.create_topics([NewTopic(topic, 2, 1)])
        admin.wait_for_topics([topic])
    return topic


@pytest.mark.parametrize(
    "form",
    [
        "catches_once",
        pytest.param("two_writes_one_caught", marks=pytest.mark.slow),
        pytest.param("falls_back", marks=pytest.mark.slow),
    ],
)
def test_a_decided_write_whose_error_the_function_catches_takes_effect_whole(
    application: Application, flow: Flow, form: str
) -> None:
    other = other_topic(flow)
    flow.produce(3 * BATCH)
    how: dict[str, Any] = {"form": form, "maxOffsetsPerTrigger": BATCH, "sink": {OTHER: other}}
    application.faults.arm("half-rolled-forward", "fail")
    error = flow.start(application, **how).wait_end().error
    assert "[EOSKAFKA_RUN_ENDED]" in str(error), error
    flow.start(application, **how).wait_done()
    flow.assert_exactly_once()
    written = batches(0, 1, 2) if form == "two_writes_one_caught" else Counter()
    assert keys(flow, other) == written


def test_a_write_that_is_decided_when_its_query_ends_takes_effect_whole(
    application: Application, flow: Flow
) -> None:
    flow.produce(BATCH)
    application.faults.arm("after-decision", "slow")
    error = flow.start(application, form="leaves_its_write").wait_end().error
    assert "the function has failed" in str(error)
    # No start settles it: the thread goes on.
    until(lambda: keys(flow, flow.output) == batches(0), "the whole batch", 20, application.tail)
    flow.start(application, form="foreach_batch").wait_done()
    flow.assert_exactly_once()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["writes_nothing", "only_right"])
def test_a_decided_write_that_is_not_called_again_takes_effect_whole(
    application: Application, start_application: StartApplication, flow: Flow, form: str
) -> None:
    other = other_topic(flow)
    flow.produce(2 * BATCH)
    how: dict[str, Any] = {"maxOffsetsPerTrigger": BATCH, "sink": {OTHER: other}}
    flow.start(application, form="two_writes", **how).wait_done()
    flow.produce(BATCH)
    flow.reach(application, "half-rolled-forward", "kill", form="two_writes", **how)
    application.kill()
    assert flow.open_transactions()
    again = start_application("local[2]")
    flow.start(again, form=form, **how).wait_done()
    flow.assert_nothing_is_open()
    assert keys(flow, flow.output) == batches(0, 1, 2)
    assert keys(flow, other) == (batches(0, 1, 2) if form == "only_right" else batches(0, 1))


@pytest.mark.slow
def test_a_decided_write_that_could_not_be_settled_at_the_start_is_settled_later(
    application: Application, start_application: StartApplication, flow: Flow
) -> None:
    """The function never writes it again, and its transactions would time out."""
    how: dict[str, Any] = {"maxOffsetsPerTrigger": BATCH, "sink": {OTHER: other_topic(flow)}}
    flow.produce(BATCH)
    flow.reach(application, "half-rolled-forward", "kill", form="two_writes", **how)
    application.kill()
    again = start_application("local[2]")
    again.faults.arm("before-settlement", "fail")
    query = flow.start(again, form="writes_nothing", interval="1 second", **how)
    until(lambda: "could not be settled" in again.text(), "the failure", 60, again.tail)
    assert flow.open_transactions()
    until(lambda: not flow.open_transactions(), "the second try", 90, again.tail)
    query.stop()
    assert keys(flow, flow.output) == batches(0)


@pytest.mark.slow
def test_a_decided_write_is_settled_by_the_first_write_if_the_source_is_not_ours(
    application: Application, start_application: StartApplication, flow: Flow
) -> None:
    other = other_topic(flow)
    how: dict[str, Any] = {
        "origin": "rate-micro-batch",
        "rowsPerBatch": BATCH,
        "transform": "numbered",
        "sink": {OTHER: other},
    }
    flow.start(application, form="two_writes", **how).wait_done()
    flow.reach(application, "half-rolled-forward", "kill", form="two_writes", **how)
    application.kill()
    again = start_application("local[2]")
    flow.start(again, form="only_right", **how).wait_done()
    flow.assert_nothing_is_open()
    assert keys(flow, flow.output) == batches(0, 1)
    assert keys(flow, other) >= batches(0, 1)
    assert set(keys(flow, other).values()) == {1}


@pytest.mark.slow
def test_a_write_that_was_renamed_is_refused_while_its_batch_is_decided(
    application: Application, start_application: StartApplication, flow: Flow
) -> None:
    flow.produce(2 * BATCH)
    flow.reach(
        application,
        "half-rolled-forward",
        "kill",
        form="foreach_batch",
        maxOffsetsPerTrigger=BATCH,
    )
    application.kill()
    again = start_application("local[2]")
    error = flow.start(again, form="renamed", maxOffsetsPerTrigger=BATCH).wait_end().error
    assert "[EOSKAFKA_WRITE_RENAMED]" in str(error), error
    flow.assert_nothing_is_open()
    assert keys(flow, flow.output) == batches(0)
    # The former function ends the batch; then the new name is as good as any.
    flow.start(again, form="foreach_batch", maxOffsetsPerTrigger=BATCH).wait_done()
    flow.produce(BATCH)
    flow.start(again, form="renamed", maxOffsetsPerTrigger=BATCH).wait_done()
    flow.assert_exactly_once()


@pytest.mark.slow
def test_a_fallback_for_a_batch_that_a_former_run_has_decided_is_refused(
    streams: Streams, tmp_path: Path
) -> None:
    topic, output = streams.topic(records=ROWS), streams.topic()
    checkpoint, fails = streams.checkpoint(), tmp_path / "fails"

    def each(frames: Frames) -> Frames:
        if fails.exists():
            raise RuntimeError("a lost executor")
        yield from frames

    def write(batch: DataFrame, _: int) -> None:
        rows = kv(batch).mapInPandas(each, "key binary, value string")
        try:
            save(streams, rows, output, writeId="main")
        except Exception:
            fails.unlink()
            save(streams, rows, output, writeId="fallback")

    run(streams, topic, checkpoint, write)
    forget_last_batch(checkpoint)
    fails.touch()
    with pytest.raises(Exception, match="EOSKAFKA_RUN_ENDED"):
        run(streams, topic, checkpoint, write)
    run(streams, topic, checkpoint, write)
    assert streams.numbers(output) == [*range(ROWS)]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["renamed", "eoskafka"])
def test_a_driver_that_was_paused_before_its_first_write_does_not_write_after_another_one(
    application: Application, start_application: StartApplication, flow: Flow, form: str
) -> None:
    flow.produce(2 * BATCH)
    how: dict[str, Any] = {"maxOffsetsPerTrigger": BATCH}
    query = flow.reach(application, "before-run", "stop", form="foreach_batch", **how)
    other = start_application("local[2]")
    flow.start(other, form=form, **how).wait_done()
    application.resume()
    error = str(query.wait_end().error)
    assert "[EOSKAFKA_CHECKPOINT_TAKEN]" in error, error
    flow.assert_exactly_once()


def rate(streams: Streams) -> DataFrame:
    """A source that is not ours: another batch of twenty rows in each run."""
    source = streams.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS)
    return source.load().selectExpr("concat('k', value) key", "cast(value as string) value")


def run_rate(streams: Streams, checkpoint: Path, write: Function) -> None:
    run_rows(streams, rate(streams), checkpoint, write)


def test_a_sink_in_place_of_a_function_does_not_write_a_decided_batch_again(
    streams: Streams,
) -> None:
    output, checkpoint = streams.topic(), streams.checkpoint()

    def write(batch: DataFrame, _: int) -> None:
        save(streams, batch, output)

    run_rate(streams, checkpoint, write)
    forget_last_batch(checkpoint)
    error = streams.failure(streams.sink(rate(streams), output, checkpoint))
    assert "[EOSKAFKA_WRITE_RENAMED]" in error, error
    assert streams.numbers(output) == [*range(ROWS)]
    run_rate(streams, checkpoint, write)
    streams.run(streams.sink(rate(streams), output, checkpoint))
    written = streams.numbers(output)
    assert written == [*range(len(written))]


@pytest.mark.slow
def test_a_function_in_place_of_a_sink_does_not_write_a_decided_batch_again(
    application: Application, start_application: StartApplication, flow: Flow
) -> None:
    how: dict[str, Any] = {
        "origin": "rate-micro-batch",
        "rowsPerBatch": BATCH,
        "transform": "numbered",
    }
    flow.start(application, **how).wait_done()
    flow.reach(application, "half-rolled-forward", "kill", **how)
    application.kill()
    again = start_application("local[2]")
    error = str(flow.start(again, form="foreach_batch", **how).wait_end().error)
    assert "[EOSKAFKA_WRITE_RENAMED]" in error, error
    flow.assert_nothing_is_open()
    assert keys(flow, flow.output) == batches(0, 1)


def test_a_former_name_is_a_new_one_in_the_batch_that_another_name_has_decided(
    streams: Streams,
) -> None:
    output, checkpoint = streams.topic(), streams.checkpoint()

    def named(name: str) -> Function:
        return lambda batch, _: save(streams, batch, output, writeId=name)

    run_rate(streams, checkpoint, named("b"))
    run_rate(streams, checkpoint, named("a"))
    forget_last_batch(checkpoint)
    with pytest.raises(Exception, match="EOSKAFKA_WRITE_RENAMED"):
        run_rate(streams, checkpoint, named("b"))
    run_rate(streams, checkpoint, named("a"))
    written = streams.numbers(output)
    assert written == [*range(len(written))]


def test_two_writes_of_a_function_may_come_in_another_order(streams: Streams) -> None:
    left, right = streams.topic(), streams.topic()
    checkpoint = streams.checkpoint()

    def writes(*topics: str) -> Function:
        def write(batch: DataFrame, _: int) -> None:
            for topic in topics:
                save(streams, batch, topic, writeId=topic)
            if len(topics) == 1:
                raise RuntimeError("before the other one")

        return write

    run_rate(streams, checkpoint, writes(left, right))
    with pytest.raises(Exception, match="before the other one"):
        run_rate(streams, checkpoint, writes(left))
    run_rate(streams, checkpoint, writes(right, left))
    written = streams.numbers(left)
    assert written == [*range(len(written))]
    assert streams.numbers(right) == written


def test_two_writes_on_two_threads_start_again(streams: Streams) -> None:
    left, right = streams.topic(), streams.topic()
    checkpoint = streams.checkpoint()

    def write(batch: DataFrame, _: int) -> None:
        with ThreadPoolExecutor() as pool:
            both = [
                pool.submit(save, streams, batch, topic, writeId=topic) for topic in (left, right)
            ]
        for one in both:
            one.result()

    for _ in range(4):
        run_rate(streams, checkpoint, write)
    for topic in (left, right):
        assert streams.numbers(topic) == [*range(4 * ROWS)]


def test_a_write_on_another_thread_need_not_have_ended_when_its_batch_runs_again(
    streams: Streams,
) -> None:
    """It was decided, and the other one was not."""
    left, right = streams.topic(), streams.topic()
    checkpoint = streams.checkpoint()

    def fails(batch: DataFrame, _: int) -> None:
        save(streams, batch, left, writeId=left)
        raise RuntimeError("before the other one")

    def on_threads(batch: DataFrame, _: int) -> None:
        slow = batch.where("coalesce(java_method('java.lang.Thread', 'sleep', 1000L), '') != 'x'")
        with ThreadPoolExecutor() as pool:
            both = [
                pool.submit(save, streams, slow, left, writeId=left),
                pool.submit(save, streams, batch, right, writeId=right),
            ]
        for one in both:
            one.result()

    with pytest.raises(Exception, match="before the other one"):
        run_rate(streams, checkpoint, fails)
    try:
        run_rate(streams, checkpoint, on_threads)
    except StreamingQueryException as error:
        raise AssertionError("the function refuses itself") from error
    # The unfinished batch, and one more.
    assert streams.numbers(right) == streams.numbers(left) == [*range(2 * ROWS)]


@pytest.mark.slow
def test_a_write_of_another_cluster_stops_no_start(streams: Streams, tmp_path: Path) -> None:
    output, checkpoint = streams.topic(), streams.checkpoint()
    with LocalCluster(brokers=1, data_dir=tmp_path / "second") as second:
        there = {"kafka.bootstrap.servers": second.bootstrap_servers}
        with closing(KafkaAdminClient(bootstrap_servers=second.bootstrap_servers)) as admin:
            admin.create_topics([NewTopic("there", 2, 1)])
            admin.wait_for_topics(["there"])

        def write(batch: DataFrame, number: int) -> None:
            if number % 2:
                save(streams, batch, output, writeId="here")
            else:
                save(streams, batch, "there", writeId="there", **there)

        for _ in range(4):
            run_rate(streams, checkpoint, write)
        elsewhere = [int(r.value or b"") for r in read_committed(second.bootstrap_servers, "there")]
    assert sorted([*streams.numbers(output), *elsewhere]) == [*range(4 * ROWS)]


@pytest.mark.slow
def test_a_batch_that_has_lost_output_is_named_and_can_be_accepted(
    application: Application, flow: Flow
) -> None:
    flow.produce(2 * BATCH)
    how: dict[str, Any] = {"form": "foreach_batch", "maxOffsetsPerTrigger": BATCH}
    application.faults.arm("half-rolled-forward", "fail")
    flow.start(application, **{**how, "form": "catches_once"}).wait_end()
    (left,) = flow.open_transactions()
    # As a timeout does.
    producer = KafkaProducer(bootstrap_servers=flow.servers, transactional_id=left)
    producer.init_transactions()
    producer.close()
    visible = keys(flow, flow.output)
    assert visible < batches(0)
    for _ in range(2):
        error = flow.start(application, **how).wait_end().error
        assert "[EOSKAFKA_WRITE_INCOMPLETE]" in str(error), error
        assert "writer 1 (50 rows) of 2 writers" in str(error), error
        assert keys(flow, flow.output) == visible
    code, text = resolve(flow)
    assert code == 1, text
    assert "writer 1 (50 rows) of 2 writers" in text
    # Neither another epoch's loss nor another write's is accepted with it.
    for other in (["1"], ["0", "--of-write", "other"]):
        code, text = resolve(flow, "--accept-loss", *other)
        assert (code, "loss is now accepted" in text) == (1, False), text
    code, text = resolve(flow, "--accept-loss", "0")
    assert (code, "loss is now accepted" in text) == (0, True), text
    code, text = resolve(flow)
    assert (code, "writer 1 (50 rows) of 2 writers" in text) == (0, True), text
    flow.start(application, **how).wait_done()
    assert keys(flow, flow.output) == visible + batches(1)
    flow.assert_nothing_is_open()


@pytest.mark.slow
def test_a_checkpoint_is_settled_from_outside(application: Application, flow: Flow) -> None:
    other = other_topic(flow)
    flow.produce(BATCH)
    flow.reach(application, "half-rolled-forward", "kill", form="two_writes", sink={OTHER: other})
    application.kill()
    code, text = resolve(flow, "--checkpoint", f"{flow.checkpoint}/sources")
    assert (code, "[EOSKAFKA_NOT_A_CHECKPOINT]" in text) == (1, True), text
    for _ in range(2):
        code, text = resolve(flow)
        assert code == 0, text
        assert "writeId 'left'" in text
        flow.assert_nothing_is_open()
        assert keys(flow, flow.output) == batches(0)


def resolve(flow: Flow, *more: str) -> tuple[int, str]:
    """Exit code of `eoskafka txn resolve --checkpoint`, and what it printed."""
    command = ["txn", "resolve", "--checkpoint", str(flow.checkpoint), *more]
    done = subprocess.run(
        [sys.executable, "-m", "eoskafka", *command, "--bootstrap-servers", flow.servers],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "1000"},
    )
    return done.returncode, done.stdout + done.stderr


def test_a_batch_is_not_written_if_sparks_log_has_other_offsets_of_it(streams: Streams) -> None:
    """Another driver's, where a file that exists can be replaced. The source is not ours."""
    output, checkpoint = streams.topic(), streams.checkpoint()

    def write(batch: DataFrame, number: int) -> None:
        plan = checkpoint / "offsets" / str(number)
        text = plan.read_text()
        other = text.replace(f'"offset":{ROWS}', f'"offset":{ROWS // 2}')
        assert other != text, text
        forget([plan])
        plan.write_text(other)
        save(streams, batch, output)

    refusal = r"\[EOSKAFKA_BATCH_NOT_LOGGED\] .*/offsets/0 in Spark's log has other"
    with pytest.raises(Exception, match=refusal):
        run_rate(streams, checkpoint, write)
    assert streams.values(output) == []
    # A decision on the whole batch would have lost the other half of its rows now.
    for _ in range(2):
        run_rate(streams, checkpoint, lambda batch, _: save(streams, batch, output))
    written = streams.numbers(output)
    assert written == [*range(len(written))]
    assert len(written) > ROWS
