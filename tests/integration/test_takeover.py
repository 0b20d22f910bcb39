"""A checkpoint of the built-in connector whose last batch is open: the first batch is run here.

Spark's log of that batch stays the built-in connector's text. From the moment that Spark logs the
batch as done, the group has the truth all the same.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from eoskafka import offsets
from eoskafka.bench.peers import peer_jars
from harness import Application, Flow, Point, StartApplication, forget, until
from harness.versions import HAS_BUILT_IN, needs_built_in, needs_python_in_task_scope
from pyspark.sql import DataFrame
from streams import QUERY_S, Job, Streams, kv

pytestmark = needs_built_in

RECORDS = 200
JARS = {"spark.jars": ",".join(map(str, peer_jars()))} if HAS_BUILT_IN else {}
# A task that cannot commit on the way stops to read after half of it.
SHORT = {"kafka.transaction.timeout.ms": 4_000}


def open_a_batch(application: Application, flow: Flow, number: int, **how: Any) -> None:
    """Let the built-in connector run batches up to this one, of which it writes nothing."""
    source: dict[str, Any] = {
        "origin": "kafka",
        "form": "kafka",
        "kafka.bootstrap.servers": flow.servers,
        "subscribe": flow.input,
        "startingOffsets": "earliest",
    }
    for _ in range(number):
        flow.produce(RECORDS)
        flow.start(application, **source, **how).wait_done()
    flow.produce(RECORDS)
    query = flow.start(application, **source, **how, sink={"topic": "no/topic"})
    assert query.wait_end().error
    assert (flow.checkpoint / "offsets" / str(number)).exists()
    assert not (flow.checkpoint / "commits" / str(number)).exists()


def cases() -> Iterator[Any]:
    """For a long run. In a short one, a batch of task scope that ends early stands for them."""
    points: dict[str, tuple[Point, ...]] = {
        "exclaim": ("after-commit", "before-log"),
        "exclaim_in_pandas": ("after-commit",),
        "repartitioned": ("before-decision", "after-decision", "before-log"),
        "repartitioned_in_pandas": ("after-decision",),
    }
    for transform, reached in points.items():
        for point in reached:
            for opened in (0, 1):
                for after in (0, 1, 2):
                    case = (transform, point, opened, after)
                    yield pytest.param(*case, id=f"{transform}-{point}-batch {opened}+{after}")


@pytest.mark.slow
@pytest.mark.parametrize(("transform", "point", "opened", "after"), [*cases()])
def test_a_driver_killed_soon_after_it_took_an_open_batch_over_is_started_again(
    start_application: StartApplication,
    flow: Flow,
    transform: str,
    point: Point,
    opened: int,
    after: int,
) -> None:
    first = start_application("local[2]", JARS)
    open_a_batch(first, flow, opened, transform=transform)
    flow.produce(RECORDS)

    def arm(left: int) -> None:
        """The driver stops so often before it logs a batch, and dies in the next one."""
        first.faults.arm(*(("before-log", "stop") if left else (point, "kill")))

    arm(after)
    flow.start(first, transform=transform, interval="0 seconds")
    for left in reversed(range(after)):
        first.faults.wait_taken("before-log")
        flow.produce(RECORDS)
        arm(left)
        first.resume()
    first.faults.wait_taken(point)
    first.kill()
    flow.produce(RECORDS)
    second = start_application("local[2]", JARS)
    flow.start(second, transform=transform).wait_done()
    flow.assert_exactly_once()


@pytest.mark.slow
@pytest.mark.parametrize("after", [0, 1, 2])
@pytest.mark.parametrize(
    ("transform", "point"),
    [
        ("exclaim", "after-commit"),
        ("exclaim_in_pandas", "before-log"),
        ("repartitioned", "before-decision"),
        ("repartitioned_in_pandas", "after-decision"),
    ],
)
def test_so_is_one_whose_runs_have_one_batch_each(
    start_application: StartApplication, flow: Flow, transform: str, point: Point, after: int
) -> None:
    first = start_application("local[2]", JARS)
    open_a_batch(first, flow, 1, transform=transform)
    how: dict[str, Any] = {"transform": transform, "interval": "once"}
    for _ in range(after):
        flow.start(first, **how).wait_done()
        flow.produce(RECORDS)
    flow.reach(first, point, "kill", **how)
    first.kill()
    flow.produce(RECORDS)
    second = start_application("local[2]", JARS)
    # The batch that was killed, and then the rest.
    for _ in range(2):
        flow.start(second, **how).wait_done()
    flow.assert_exactly_once()


def slowly(rows: DataFrame) -> DataFrame:
    """Takes seconds, through Python."""

    def each(frames: Iterator[Any]) -> Iterator[Any]:
        for frame in frames:
            time.sleep(0.3)
            yield frame.assign(value=frame["value"].str.strip())

    # Long ones: what fits between the JVM and Python is read at once.
    wide = rows.selectExpr("key", "cast(value AS string) || repeat(' ', 300000) AS value")
    return wide.mapInPandas(each, "key binary, value string")


def end_early(streams: Streams, opened: int) -> tuple[Job, int]:
    """Run an open batch of the built-in connector, not to its end; the job, and what was sent."""
    job = streams.job()
    sent = 0
    for number in range(opened + 1):
        job.send(*range(sent, sent := sent + 600))
        streams.form = "kafka"
        writer = streams.sink(
            slowly(streams.source(job.input)),
            "no/topic" if number == opened else job.output,
            job.checkpoint,
        )
        if number == opened:
            streams.failure(writer)
        else:
            streams.run(writer)
    streams.form = "eoskafka"

    # One batch, and no look for another one.
    streams.run(job.writer(slowly).options(**SHORT).trigger(once=True))
    assert (job.checkpoint / "commits" / str(opened)).exists()
    assert sum(job.offsets().values()) < sent, "the batch did not end early"
    return job, sent


@needs_python_in_task_scope
@pytest.mark.usefixtures("few_at_once")
@pytest.mark.parametrize("opened", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_what_an_open_batch_has_left_when_it_ended_early_is_read_by_the_next_run(
    streams: Streams, opened: int
) -> None:
    job, sent = end_early(streams, opened)
    streams.succeed(job.writer(kv))
    assert job.written() == [*range(sent)]


@needs_python_in_task_scope
@pytest.mark.slow
@pytest.mark.usefixtures("few_at_once")
@pytest.mark.parametrize(
    "lost", ["sources/0/eoskafka-taken-over", "sources"], ids=["mark", "folder"]
)
def test_what_it_has_left_is_not_passed_over_if_its_mark_is_lost(
    streams: Streams, tmp_path: Path, lost: str
) -> None:
    job, sent = end_early(streams, 0)
    sources = job.checkpoint / "sources"
    shutil.copytree(sources, tmp_path / "kept")
    if lost == "sources":
        shutil.rmtree(sources)
    else:
        forget([job.checkpoint / lost])
    assert "[EOSKAFKA_GROUP_BEHIND_LOG]" in streams.failure(job.writer(kv))
    shutil.rmtree(sources, ignore_errors=True)
    shutil.copytree(tmp_path / "kept", sources)
    streams.run(job.writer(kv))
    assert job.written() == [*range(sent)]


def test_an_open_batch_that_was_run_and_is_not_logged_is_taken_over(streams: Streams) -> None:
    job = streams.job(records=10)
    streams.form = "kafka"
    copied = partial(streams.copy, job.input, job.output, job.checkpoint)
    copied()
    job.send(*range(10, 20))
    streams.failure(streams.sink(kv(streams.source(job.input)), "no/topic", job.checkpoint))
    streams.form = "eoskafka"
    streams.run(job.writer().trigger(once=True))
    # As if the driver had died between its own mark and Spark's log.
    forget([job.checkpoint / "commits" / "1"])
    found = offsets.adopt(streams.servers, str(job.checkpoint), dry_run=True)
    assert found.situation is offsets.Situation.READY
    job.send(*range(20, 30))
    query = streams.start(job.writer())
    until(lambda: not query.isActive, "its end", QUERY_S)
    assert query.exception() is None
    assert job.written() == [*range(30)]
