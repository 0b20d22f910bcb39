"""What a batch query does alike here and with Spark's built-in connector."""

from __future__ import annotations

import json
import time

import pytest
from kafka import TopicPartition
from pyspark.sql import DataFrame
from streams import Options, Streams, kv

NOON = int(time.time()) // 1000 * 1_000_000
SECOND = 1_000


def numbers(rows: DataFrame) -> list[int]:
    """Their values, sorted."""
    return sorted(int(row.value) for row in rows.select("value").collect())


def offsets(topic: str, *of_each: int) -> str:
    """Numbers for partitions 0, 1, ... in JSON."""
    return json.dumps({topic: {str(p): offset for p, offset in enumerate(of_each)}})


@pytest.fixture
def counted(streams: Streams) -> str:
    """Two partitions, 0..9 and 100..109, a second between two records from noon on."""
    topic = streams.topic()
    for partition in (0, 1):
        for n in range(10):
            number = 100 * partition + n
            streams.send(topic, number, partition=partition, at_ms=NOON + SECOND * n)
    return topic


ALL = [*range(10), *range(100, 110)]


@pytest.mark.parametrize(
    ("starting", "ending", "wanted"),
    [
        ("earliest", "latest", ALL),
        ((0, 0), (10, 10), ALL),
        ((-2, -2), (-1, -1), ALL),
        ((3, -2), (5, -1), [3, 4, *range(100, 110)]),
        ((9, 10), (-1, -1), [9]),
        ((4, 4), (4, 5), [104]),
        ("earliest", (1, 0), [0]),
        ((8, 9), "latest", [8, 9, 109]),
    ],
)
def test_explicit_offsets(
    either: Streams, counted: str, starting: object, ending: object, wanted: list[int]
) -> None:
    def text(bound: object) -> str:
        return bound if isinstance(bound, str) else offsets(counted, *bound)  # type: ignore[misc]

    options: Options = {"startingOffsets": text(starting), "endingOffsets": text(ending)}
    assert numbers(either.batch(counted, options)) == wanted


def test_what_counts_first(either: Streams, counted: str) -> None:
    by_offset: Options = {
        "startingOffsets": offsets(counted, 9, 9),
        "endingOffsets": offsets(counted, 10, 10),
    }
    by_partition: Options = {
        "startingOffsetsByTimestamp": offsets(counted, NOON + 5 * SECOND, NOON + 5 * SECOND),
        "endingOffsetsByTimestamp": offsets(counted, NOON + 7 * SECOND, NOON + 7 * SECOND),
    }
    of_all: Options = {
        "startingTimestamp": NOON + 2 * SECOND,
        "endingTimestamp": NOON + 3 * SECOND,
    }
    assert numbers(either.batch(counted, by_offset)) == [9, 109]
    assert numbers(either.batch(counted, {**by_offset, **by_partition})) == [5, 6, 105, 106]
    assert numbers(either.batch(counted, {**by_offset, **by_partition, **of_all})) == [2, 102]


def test_an_end_after_the_last_record(either: Streams, counted: str) -> None:
    options = {"startingTimestamp": NOON + 8 * SECOND, "endingTimestamp": NOON + 60 * SECOND}
    assert numbers(either.batch(counted, options)) == [8, 9, 108, 109]


# What cannot be, with what each of the two connectors says of it.
BOUNDS: list[tuple[Options, str, str]] = [
    (
        {"startingOffsets": "latest"},
        "would read nothing from these",
        "starting offset can't be latest",
    ),
    (
        {"startingOffsets": offsets("{topic}", 0, -1)},
        "would read nothing from these",
        "startingOffsets for {topic}-1 can't be latest",
    ),
    (
        {"endingOffsets": "earliest"},
        "would read nothing from these",
        "ending offset can't be earliest",
    ),
    (
        {"endingOffsets": offsets("{topic}", -2, -1)},
        "would read nothing from these",
        "ending offset for {topic}-0 can't be earliest",
    ),
    (
        {"startingOffsets": offsets("{topic}", 0)},
        "startingOffsets must name exactly .* Missing: {topic}-1. Unknown: none",
        r"Specified: Set\({topic}-0\) Assigned: Set\({topic}-0, {topic}-1\)",
    ),
    (
        {"endingOffsets": offsets("{topic}", 5, 5, 5)},
        "endingOffsets must name exactly .* Missing: none. Unknown: {topic}-2",
        r"Specified: Set\({topic}-0, {topic}-1, {topic}-2\) Assigned: Set\({topic}-0, {topic}-1\)",
    ),
    (
        {"endingOffsets": offsets("{topic}", 99, -1), "kafkaConsumer.pollTimeoutMs": 1_000},
        "ending offset of {topic}-0 is 99, but what can be read ends at 10",
        r"Could not read records in offset \[10, 99\) for topic partition {topic}-0",
    ),
    (
        {"startingOffsets": offsets("{topic}", 7, 7), "endingOffsets": offsets("{topic}", 5, 9)},
        "ending offset of {topic}-0 is 7, but the batch ends at offset 5",
        "start offset 7 is greater than the end offset 5 for topic {topic} partition 0",
    ),
    (
        {"startingOffsets": "whenever"},
        "startingOffsets is whenever",
        "Expected e.g. .* got whenever",
    ),
    (
        {"startingTimestamp": NOON + 90 * SECOND},
        f"at the time {NOON + 90 * SECOND} .* but {{topic}}-[01] has no record at or after it",
        f"No offset matched .* {{topic}}-[01] and timestamp {NOON + 90 * SECOND}",
    ),
    (
        {"startingTimestamp": NOON + 6 * SECOND, "endingTimestamp": NOON + 2 * SECOND},
        "ending offset of {topic}-[01] is 6, but the batch ends at offset 2",
        "start offset 6 is greater than the resolved end offset 2 for topic {topic}",
    ),
]


@pytest.mark.parametrize(
    ("options", "ours", "theirs"), BOUNDS, ids=[str(options) for options, *_ in BOUNDS]
)
def test_bounds_that_cannot_be(
    either: Streams, counted: str, options: Options, ours: str, theirs: str
) -> None:
    given = {name: str(value).replace("{topic}", counted) for name, value in options.items()}
    wanted = ours if either.form == "eoskafka" else theirs
    with pytest.raises(Exception, match=wanted.replace("{topic}", counted)):
        either.batch(counted, given).count()


WHOLE_TOPICS: list[tuple[str, str, list[int] | str]] = [
    ("startingOffsets", "earliest", ALL),
    ("endingOffsets", "latest", ALL),
    ("startingOffsets", "latest", "would read nothing from these"),
    ("endingOffsets", "earliest", "would read nothing from these"),
]


@pytest.mark.parametrize(("option", "offset", "wanted"), WHOLE_TOPICS)
def test_a_whole_topic_by_its_name(
    either: Streams, counted: str, option: str, offset: str, wanted: list[int] | str
) -> None:
    options = {option: json.dumps({counted: offset})}
    if either.form == "kafka":
        wanted = "Expected e.g."  # Spark has it after 4.2
    if isinstance(wanted, str):
        with pytest.raises(Exception, match=wanted):
            either.batch(counted, options).count()
    else:
        assert numbers(either.batch(counted, options)) == wanted


def test_a_time_without_a_record_is_the_end(either: Streams, counted: str) -> None:
    times = offsets(counted, NOON + 8 * SECOND, NOON + 90 * SECOND)
    options: Options = {"startingOffsetsByTimestamp": times}
    with pytest.raises(Exception, match=f"{counted}-1"):
        either.batch(counted, options).count()
    latest: Options = {"startingOffsetsByTimestampStrategy": "latest"}
    assert numbers(either.batch(counted, {**options, **latest})) == [8, 9]
    of_all: Options = {"startingTimestamp": NOON + 90 * SECOND}
    assert numbers(either.batch(counted, {**of_all, **latest})) == []


def test_topics_by_list_pattern_and_partition(either: Streams) -> None:
    stem = either.topic(records=4)
    either.create(f"{stem}-b", 1)
    either.send(f"{stem}-b", 9)
    assert numbers(either.batch(f"{stem},{stem}-b")) == [0, 1, 2, 3, 9]
    assert numbers(either.batch(options={"subscribePattern": f"{stem}.*"})) == [0, 1, 2, 3, 9]
    assigned = json.dumps({stem: [1], f"{stem}-b": [0]})
    assert numbers(either.batch(options={"assign": assigned})) == [1, 3, 9]


def test_the_end_is_that_of_the_moment_of_reading(either: Streams, counted: str) -> None:
    rows = either.batch(counted)
    assert numbers(rows) == ALL
    either.send(counted, 10, partition=0)
    assert numbers(rows) == [*range(11), *range(100, 110)]


def test_the_beginning_too(either: Streams, counted: str) -> None:
    rows = either.batch(counted, {"failOnDataLoss": "true"})
    assert numbers(rows) == ALL
    either.admin.delete_records({TopicPartition(counted, 0): 4})
    assert numbers(rows) == [*range(4, 10), *range(100, 110)]


def test_records_that_are_gone_before_it_begins(either: Streams, counted: str) -> None:
    either.admin.delete_records({TopicPartition(counted, 0): 4})
    assert numbers(either.batch(counted)) == [*range(4, 10), *range(100, 110)]
    named: Options = {"startingOffsets": offsets(counted, 2, 5)}
    with pytest.raises(Exception, match=r"(?i)lost|out of range|OUT_OF_RANGE|LOSS"):
        either.batch(counted, {**named, "failOnDataLoss": "true"}).collect()
    left = either.batch(counted, {**named, "failOnDataLoss": "false"})
    assert numbers(left) == [*range(4, 10), *range(105, 110)]


@pytest.mark.parametrize("fail", [True, False])
def test_records_that_go_between_planning_and_reading(
    either: Streams, counted: str, fail: bool
) -> None:
    options: Options = {
        "startingOffsets": offsets(counted, 0, 0),
        "endingOffsets": offsets(counted, 10, 10),
        "failOnDataLoss": fail,
    }
    planned = either.batch(counted, options).selectExpr("cast(value as string) value").rdd
    assert planned.getNumPartitions() == 2
    either.admin.delete_records({TopicPartition(counted, 0): 4})
    if fail:
        with pytest.raises(Exception, match=r"(?i)lost|OffsetOutOfRange|LOSS"):
            planned.collect()
    else:
        found = sorted(int(row.value) for row in planned.collect())
        assert found == [*range(4, 10), *range(100, 110)]


def test_records_that_are_all_gone(either: Streams, counted: str) -> None:
    either.admin.delete_records({TopicPartition(counted, p): 10 for p in (0, 1)})
    assert numbers(either.batch(counted, {"failOnDataLoss": "true"})) == []


@pytest.mark.parametrize("least", [2, 3, 7, 19, 20, 50])
def test_tiny_ranges_are_not_dropped(either: Streams, counted: str, least: int) -> None:
    rows = either.batch(counted, {"minPartitions": least})
    assert numbers(rows) == ALL
    tasks = rows.rdd.getNumPartitions()
    if either.form == "eoskafka":
        assert tasks == min(least, 20)
    else:
        assert tasks >= 2


def test_limits_of_streams_do_not_count(either: Streams, counted: str) -> None:
    limits = {"maxOffsetsPerTrigger": 5, "minOffsetsPerTrigger": 5}
    assert numbers(either.batch(counted, limits)) == ALL


def test_rows_are_counted_without_being_read(either: Streams, counted: str) -> None:
    rows = either.batch(counted)
    assert rows.count() == 20
    assert rows.where("partition = 1 and offset >= 8").count() == 2
    assert rows.limit(3).count() == 3


def test_a_view_of_sql(either: Streams, counted: str) -> None:
    name = f"v{either.group()}"
    either.spark.sql(
        f"""
        create temporary view {name} using {either.form} options (
            kafka.bootstrap.servers '{either.servers}', subscribe '{counted}')
        """
    )
    (row,) = either.spark.sql(f"select count(*) n, max(offset) last from {name}").collect()
    assert (row.n, row.last) == (20, 9)


def test_a_table_of_sql(either: Streams, counted: str) -> None:
    name = f"t{either.group()}"
    servers = f"kafka.bootstrap.servers '{either.servers}'"
    either.spark.sql(
        f"create table {name} using {either.form} options ({servers}, subscribe '{counted}')"
    )
    try:
        (row,) = either.spark.sql(f"select count(*) n, max(offset) last from {name}").collect()
        assert (row.n, row.last) == (20, 9)
    finally:
        either.spark.sql(f"drop table {name}")


def test_a_time_that_does_not_fit_into_the_column_is_an_error(either: Streams) -> None:
    topic = f"late-{either.group()}"
    either.create(topic, 1, {"message.timestamp.after.max.ms": str(2**63 - 1)})
    either.send(topic, 1, at_ms=2**62)
    with pytest.raises(Exception, match=r"(?i)timestamp"):
        either.batch(topic).collect()


# ---- of this connector alone


def test_aborted_and_open_transactions_are_hidden(streams: Streams) -> None:
    topic = streams.topic(records=4)
    with streams.open_transaction(topic, 90, 91):
        assert numbers(streams.batch(topic)) == [0, 1, 2, 3]
        seen = streams.batch(topic, {"kafka.isolation.level": "read_uncommitted"})
        assert numbers(seen) == [0, 1, 2, 3, 90, 91]
    streams.send(topic, 4)
    assert numbers(streams.batch(topic)) == [0, 1, 2, 3, 4]


def test_what_a_batch_has_read_can_be_written_as_one(streams: Streams) -> None:
    topic, output = streams.topic(records=30), streams.topic()
    streams.save(kv(streams.batch(topic)), output)
    assert streams.numbers(output) == [*range(30)]


def test_a_stream_has_no_end(streams: Streams) -> None:
    topic = streams.topic(records=2)
    source = streams.source(topic, {"endingOffsets": "latest"})
    with pytest.raises(Exception, match="EOSKAFKA_STREAM_WITH_END"):
        streams.run(streams.sink(kv(source), streams.topic()))
