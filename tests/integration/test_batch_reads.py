"""Batch queries: topics as a table, from one offset of each partition to another."""

from __future__ import annotations

import json
import time

import pytest
from kafka import TopicPartition
from pyspark.sql import DataFrame
from streams import Options, Streams, kv

NOON = int(time.time()) // 1000 * 1_000_000


def rows(streams: Streams, topic: str | None, **options: str | int) -> DataFrame:
    """A batch query's."""
    given: Options = {
        "kafka.bootstrap.servers": streams.servers,
        **({"subscribe": topic} if topic else {}),
        **options,
    }
    return streams.spark.read.format("eoskafka").options(**given).load()


def numbers(found: DataFrame) -> list[int]:
    """Their values, sorted."""
    return sorted(int(row.value) for row in found.selectExpr("cast(value as string)").collect())


def ranges(topic: str, *offsets: int) -> str:
    """Offsets of partitions 0, 1, ... in JSON."""
    return json.dumps({topic: {str(p): offset for p, offset in enumerate(offsets)}})


def counted(streams: Streams) -> str:
    """Two partitions, 0..9 and 100..109, a second between two records."""
    topic = streams.topic()
    for partition in (0, 1):
        for n in range(10):
            streams.send(topic, 100 * partition + n, partition=partition, at_ms=NOON + 1_000 * n)
    return topic


def test_all_that_is_there_without_further_options(streams: Streams) -> None:
    topic = streams.topic(records=50)
    found = rows(streams, topic)
    assert found.columns == [
        *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    ]
    assert numbers(found) == [*range(50)]
    assert found.count() == 50
    assert {(row.topic, row.partition) for row in found.collect()} == {(topic, 0), (topic, 1)}


def test_offsets_of_each_partition(streams: Streams) -> None:
    topic = counted(streams)
    starts, ends = ranges(topic, 3, -2), ranges(topic, 5, -1)
    found = rows(streams, topic, startingOffsets=starts, endingOffsets=ends)
    assert numbers(found) == [3, 4, *range(100, 110)]


def test_times_of_each_partition_and_of_all(streams: Streams) -> None:
    topic = counted(streams)
    found = rows(
        streams,
        topic,
        startingOffsetsByTimestamp=ranges(topic, NOON + 7_000, NOON + 500),
        endingTimestamp=NOON + 9_000,
    )
    assert numbers(found) == [7, 8, *range(101, 109)]
    # Nothing is at or after the end: it is the topic's.
    found = rows(streams, topic, startingTimestamp=NOON + 8_000, endingTimestamp=NOON + 99_000)
    assert numbers(found) == [8, 9, 108, 109]


def test_times_count_before_offsets(streams: Streams) -> None:
    topic = counted(streams)
    found = rows(
        streams,
        topic,
        startingOffsets="earliest",
        startingOffsetsByTimestamp=ranges(topic, NOON + 1_000, NOON + 1_000),
        startingTimestamp=NOON + 5_000,
        endingOffsets="latest",
        endingOffsetsByTimestamp=ranges(topic, NOON + 7_000, NOON + 7_000),
    )
    assert numbers(found) == [5, 6, 105, 106]


def test_the_end_is_that_of_the_moment_of_reading(streams: Streams) -> None:
    topic = streams.topic(records=4)
    found = rows(streams, topic)
    assert found.count() == 4
    streams.send(topic, 4, 5)
    assert found.count() == 6


def test_several_topics_by_list_pattern_and_partition(streams: Streams) -> None:
    first, second = streams.topic(records=3), streams.topic()
    streams.send(second, 7, partition=1)
    assert numbers(rows(streams, f"{first},{second}")) == [0, 1, 2, 7]
    assert numbers(rows(streams, None, subscribePattern=f"{first}|{second}")) == [0, 1, 2, 7]
    assert numbers(rows(streams, None, assign=json.dumps({second: [1]}))) == [7]


def test_aborted_and_open_transactions_are_hidden(streams: Streams) -> None:
    topic = streams.topic(records=4)
    with streams.open_transaction(topic, 90, 91):
        assert numbers(rows(streams, topic)) == [0, 1, 2, 3]
        seen = rows(streams, topic, **{"kafka.isolation.level": "read_uncommitted"})
        assert numbers(seen) == [0, 1, 2, 3, 90, 91]
    streams.send(topic, 4)
    assert numbers(rows(streams, topic)) == [0, 1, 2, 3, 4]


def test_what_a_batch_has_read_can_be_written_as_one(streams: Streams) -> None:
    topic, output = streams.topic(records=30), streams.topic()
    options = {"kafka.bootstrap.servers": streams.servers, "topic": output}
    kv(rows(streams, topic)).write.format("eoskafka").options(**options).save()
    assert streams.numbers(output) == [*range(30)]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"startingOffsets": "latest"}, "cannot have startingOffsets at latest"),
        ({"startingOffsets": ranges("{topic}", 0, -1)}, "cannot have startingOffsets at latest"),
        ({"endingOffsets": "earliest"}, "cannot have endingOffsets at earliest"),
        ({"endingOffsets": ranges("{topic}", -2, -1)}, "cannot have endingOffsets at earliest"),
        ({"endingOffsets": ranges("{topic}", 3)}, "endingOffsets must name exactly"),
        ({"startingOffsets": ranges("{topic}", 0, 0, 0)}, "startingOffsets must name exactly"),
        ({"endingOffsets": ranges("{topic}", 99, -1)}, "what can be read ends at 10"),
        (
            {"startingOffsets": ranges("{topic}", 5, 0), "endingOffsets": ranges("{topic}", 3, 9)},
            "the batch is to end at 3",
        ),
        ({"startingTimestamp": NOON + 99_000}, "has no record at or after"),
    ],
)
def test_what_cannot_be_read_is_an_error(streams: Streams, options: Options, wanted: str) -> None:
    topic = counted(streams)
    given = {name: str(value).replace("{topic}", topic) for name, value in options.items()}
    with pytest.raises(Exception, match=wanted):
        rows(streams, topic, **given).count()


def test_records_that_are_gone_are_an_error_or_left_out(streams: Streams) -> None:
    topic = counted(streams)
    streams.admin.delete_records({TopicPartition(topic, 0): 4})
    starts = ranges(topic, 0, 5)
    with pytest.raises(Exception, match="EOSKAFKA_BATCH_OUT_OF_RANGE"):
        rows(streams, topic, startingOffsets=starts).count()
    allowed = rows(streams, topic, startingOffsets=starts, failOnDataLoss="false")
    assert numbers(allowed) == [*range(4, 10), *range(105, 110)]


def test_a_stream_has_no_end(streams: Streams) -> None:
    topic = streams.topic(records=2)
    source = streams.source(topic, {"endingOffsets": "latest"})
    with pytest.raises(Exception, match="EOSKAFKA_STREAM_WITH_END"):
        streams.run(streams.sink(kv(source), streams.topic()))
