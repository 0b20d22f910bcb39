"""Topics that come and go under a source, here and with Spark's built-in connector."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from either import reaches, running
from harness import until
from pyspark.errors import StreamingQueryException
from streams import QUERY_S, Streams, kv


def test_a_topic_that_a_pattern_had_found_is_deleted(either: Streams) -> None:
    stem, output, checkpoint = either.topic(records=4), either.topic(), either.checkpoint()
    other = f"{stem}-other"
    either.create(other, 2)
    either.send(other, 10, 11)

    def run(fail: bool) -> None:
        options: dict[str, Any] = {"subscribePattern": f"{stem}.*", "failOnDataLoss": fail}
        either.run(either.sink(kv(either.source(options=options)), output, checkpoint))

    run(True)
    either.delete(other)
    either.send(stem, 4, 5)
    with pytest.raises(StreamingQueryException) as failed:
        run(True)
    assert other in str(failed.value)
    run(False)
    assert either.numbers(output) == [0, 1, 2, 3, 4, 5, 10, 11]
    either.send(stem, 6)
    run(True)
    assert either.numbers(output) == [0, 1, 2, 3, 4, 5, 6, 10, 11]


def test_a_pattern_that_is_narrowed(either: Streams) -> None:
    stem, output, checkpoint = either.topic(records=4), either.topic(), either.checkpoint()
    other = f"{stem}-other"
    either.create(other, 2)
    either.send(other, 10, 11)

    def run(pattern: str, fail: bool) -> None:
        options: dict[str, Any] = {"subscribePattern": pattern, "failOnDataLoss": fail}
        either.run(either.sink(kv(either.source(options=options)), output, checkpoint))

    run(stem, True)
    either.send(stem, 4)
    with pytest.raises(StreamingQueryException) as failed:
        run(f"^{stem}$", True)
    assert f"{other}-0" in str(failed.value)
    run(f"^{stem}$", False)
    assert either.numbers(output) == [0, 1, 2, 3, 4, 10, 11]


def test_a_topic_that_is_deleted_under_a_running_query(either: Streams) -> None:
    stem, output = either.topic(records=4), either.topic()
    other = f"{stem}-other"
    either.create(other, 2)
    either.send(other, 10, 11)
    options: dict[str, Any] = {"subscribePattern": f"{stem}.*", "failOnDataLoss": "false"}
    query = running(either, kv(either.source(options=options)), output)
    reaches(either, output, [0, 1, 2, 3, 10, 11], query)
    either.delete(other)
    either.send(stem, 4, 5)
    reaches(either, output, [0, 1, 2, 3, 4, 5, 10, 11], query)
    assert either.finished(query, output) == [0, 1, 2, 3, 4, 5, 10, 11]


def test_a_topic_that_is_deleted_before_the_first_batch(streams: Streams) -> None:
    stem, output, checkpoint = streams.topic(), streams.topic(), streams.checkpoint()
    other = f"{stem}-other"
    streams.create(other, 1)

    def run(fail: bool) -> None:
        options: dict[str, Any] = {"subscribePattern": f"{stem}.*", "failOnDataLoss": fail}
        streams.run(streams.sink(kv(streams.source(options=options)), output, checkpoint))

    run(True)  # both are empty, so no batch is logged
    streams.send(other, 1)
    streams.delete(other)
    streams.send(stem, 2)
    with pytest.raises(StreamingQueryException, match="EOSKAFKA_PARTITION_GONE"):
        run(True)
    run(False)
    assert streams.numbers(output) == [2]


def test_a_topic_that_is_deleted_under_a_query_without_our_sink(streams: Streams) -> None:
    stem, name = streams.topic(records=4), "goes"
    other = f"{stem}-other"
    streams.create(other, 2)
    streams.send(other, 10, 11)
    options: dict[str, Any] = {"subscribePattern": f"{stem}.*", "failOnDataLoss": "false"}
    rows = streams.source(options=options).selectExpr("cast(value as string) value")
    writer = rows.writeStream.format("memory").queryName(name).trigger(processingTime="3 seconds")
    query = streams.start(writer)

    def read() -> list[int]:
        return sorted(int(row.value) for row in streams.spark.table(name).collect())

    until(lambda: read() == [0, 1, 2, 3, 10, 11], "the first batch", QUERY_S)
    # Before the next trigger, at which the batch's ends are committed to the group.
    streams.delete(other)
    streams.send(stem, 4)
    until(
        lambda: read() == [0, 1, 2, 3, 4, 10, 11],
        "the next",
        QUERY_S,
        lambda: str(query.exception()),
    )


def test_partitions_come_while_a_batch_is_tried_again(either: Streams) -> None:
    topic, output, checkpoint = either.topic(records=4), either.topic(), either.checkpoint()
    failing = either.source(topic).selectExpr(
        "key", "if(value = cast('3' as binary), raise_error('no'), value) value"
    )
    with pytest.raises(StreamingQueryException):
        either.run(either.sink(failing, output, checkpoint))
    either.add_partitions(topic, 4)
    either.send(topic, 10, 11, 12, 13)
    before = either.numbers(output)
    either.run(either.sink(kv(either.source(topic)), output, checkpoint))
    # At least once, with the built-in connector: what the failed batch had written is there twice.
    twice = Counter(before) if either.form == "kafka" else Counter()
    assert Counter(either.numbers(output)) == Counter([0, 1, 2, 3, 10, 11, 12, 13]) + twice
