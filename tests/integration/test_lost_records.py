"""Records that are gone when a query starts: `failOnDataLoss` says what happens."""

from __future__ import annotations

import json

import pytest
from harness import until
from kafka import TopicPartition
from pyspark.sql.streaming.query import StreamingQuery
from streams import QUERY_S, Job, Streams


@pytest.fixture
def job(streams: Streams) -> Job:
    """Two partitions, nothing in them."""
    return Job(streams, streams.topic(), streams.topic(), streams.group(), streams.checkpoint())


def test_an_offset_beyond_the_end_is_an_error(job: Job) -> None:
    job.send(0, 1)
    job.run()
    job.tamper({0: 1000})
    job.send(2, 3)
    error = job.failure()
    assert "[EOSKAFKA_DATA_LOSS]" in error
    assert f"{job.input}-0 is 1000" in error
    assert job.written() == [0, 1]


def test_an_offset_beyond_the_end_goes_on_at_the_end_if_loss_is_allowed(job: Job) -> None:
    job.send(0, 1)
    job.run()
    job.tamper({0: 1000})
    job.send(2, 3)
    job.run(failOnDataLoss="false")
    assert job.written() == [0, 1, 3]
    job.send(4, 5)
    job.run()
    assert job.written() == [0, 1, 3, 4, 5]


def test_records_deleted_before_they_were_read_are_an_error(job: Job) -> None:
    job.send(0, partition=0)
    job.run()
    job.send(*range(1, 10), partition=0)
    job.streams.admin.delete_records({TopicPartition(job.input, 0): 5})
    error = job.failure()
    assert "[EOSKAFKA_DATA_LOSS]" in error
    assert f"{job.input}-0 is 1" in error
    assert "now starts at 5" in error
    assert job.written() == [0]


def test_records_deleted_before_they_were_read_are_skipped_if_loss_is_allowed(job: Job) -> None:
    job.send(0, partition=0)
    job.run()
    job.send(*range(1, 10), partition=0)
    job.streams.admin.delete_records({TopicPartition(job.input, 0): 5})
    job.run(failOnDataLoss="false")
    assert job.written() == [0, *range(5, 10)]


def recreate(job: Job) -> None:
    """Delete the input and create it again under its name."""
    job.streams.admin.delete_topics([job.input])
    until(lambda: job.input not in job.streams.admin.list_topics(), "the topic's end", 20)
    job.streams.create(job.input, 2)


@pytest.mark.parametrize("failing", [True, False])
def test_a_logged_batch_that_ends_beyond_the_log_is_read_as_far_as_it_goes_if_loss_is_allowed(
    job: Job, failing: bool
) -> None:
    job.send(0, 1, 2, 3)
    job.run()
    # As if Spark had logged a batch, and its records were lost before it ran.
    logged = (job.checkpoint / "offsets" / "0").read_text().splitlines()
    logged[-1] = json.dumps({job.input: {"0": 50, "1": 50}})
    (job.checkpoint / "offsets" / "1").write_text("\n".join(logged))
    job.send(4, 5)
    if failing:
        assert "EOSKAFKA_DATA_LOSS" in job.failure()
    job.run(failOnDataLoss="false")
    job.send(6)
    job.run()
    assert job.written() == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("ownership", ["exclusive", "shared"])
def test_a_topic_that_was_created_again_is_an_error(job: Job, ownership: str) -> None:
    job.send(0, 1)
    job.run(ownership=ownership)
    recreate(job)
    # More records than before: offsets alone would not tell.
    job.send(*range(10, 20))
    error = job.failure(ownership=ownership)
    assert "[EOSKAFKA_DATA_LOSS]" in error
    assert "deleted and created again" in error
    assert job.written() == [0, 1]


@pytest.mark.parametrize("ownership", ["exclusive", "shared"])
def test_a_topic_that_was_created_again_is_read_from_its_beginning_if_loss_is_allowed(
    job: Job, ownership: str
) -> None:
    job.send(0, 1)
    job.run(ownership=ownership)
    recreate(job)
    job.send(*range(10, 20))
    job.run(failOnDataLoss="false", ownership=ownership)
    assert job.written() == [0, 1, *range(10, 20)]


# What a running query sees while its topic is away.
AWAY = "[EOSKAFKA_NO_SUCH_TOPIC]"


def test_a_topic_created_again_under_a_running_query_stops_it(job: Job) -> None:
    job.send(0, 1)
    query = job.streams.start(job.writer().trigger(processingTime="200 milliseconds"))
    until(lambda: job.written() == [0, 1], "the first batch", QUERY_S)
    recreate(job)
    job.send(*range(10, 20))
    until(lambda: not query.isActive, "the query's end", QUERY_S)
    error = str(query.exception())
    assert "[EOSKAFKA_DATA_LOSS]" in error or AWAY in error
    assert job.written() == [0, 1]


def test_a_topic_created_again_under_a_running_query_is_read_if_loss_is_allowed(job: Job) -> None:
    def start() -> StreamingQuery:
        writer = job.writer(failOnDataLoss="false")
        return job.streams.start(writer.trigger(processingTime="200 milliseconds"))

    def all_written() -> bool:
        if not queries[-1].isActive:
            assert AWAY in str(queries[-1].exception())
            queries.append(start())
        return job.written() == [0, 1, *range(10, 20)]

    job.send(0, 1)
    queries = [start()]
    until(lambda: job.written() == [0, 1], "the first batch", QUERY_S)
    recreate(job)
    job.send(*range(10, 20))
    until(all_written, "the new topic's records", QUERY_S, lambda: f"{job.written()}")
    assert job.streams.finished(queries[-1], job.output) == [0, 1, *range(10, 20)]
