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


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": "latest"},
        {"endingOffsets": "earliest"},
        {"startingOffsets": '{"t":{"0":-1,"1":-1}}'},
        {"endingOffsets": '{"t":{"0":-2,"1":-2}}'},
        {"startingOffsets": '{"t":{"0":0}}'},
        {"endingOffsets": '{"t":{"0":5,"1":5,"2":5}}'},
        {"startingOffsets": '{"t":{"0":7,"1":7}}', "endingOffsets": '{"t":{"0":5,"1":9}}'},
        {"startingOffsets": "whenever"},
        {"startingTimestamp": NOON + 90 * SECOND},
        {"startingTimestamp": NOON + 6 * SECOND, "endingTimestamp": NOON + 2 * SECOND},
    ],
    ids=str,
)
def test_bounds_that_cannot_be(either: Streams, counted: str, options: Options) -> None:
    given = {name: str(value).replace('"t"', f'"{counted}"') for name, value in options.items()}
    with pytest.raises(Exception, match=r"(?i)offset|timestamp|topicA"):
        either.batch(counted, given).collect()


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


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"startingOffsets": "latest"}, "cannot have startingOffsets at latest"),
        ({"startingOffsets": offsets("{topic}", 0, -1)}, "cannot have startingOffsets at latest"),
        ({"endingOffsets": "earliest"}, "cannot have endingOffsets at earliest"),
        ({"endingOffsets": offsets("{topic}", -2, -1)}, "cannot have endingOffsets at earliest"),
        ({"endingOffsets": offsets("{topic}", 3)}, "endingOffsets must name exactly"),
        ({"startingOffsets": offsets("{topic}", 0, 0, 0)}, "startingOffsets must name exactly"),
        ({"endingOffsets": offsets("{topic}", 99, -1)}, "what can be read ends at 10"),
        (
            {
                "startingOffsets": offsets("{topic}", 5, 0),
                "endingOffsets": offsets("{topic}", 3, 9),
            },
            "the batch is to end at 3",
        ),
        ({"startingTimestamp": NOON + 99_000}, "has no record at or after"),
    ],
)
def test_the_error_says_why(streams: Streams, counted: str, options: Options, wanted: str) -> None:
    given = {name: str(value).replace("{topic}", counted) for name, value in options.items()}
    with pytest.raises(Exception, match=wanted):
        streams.batch(counted, given).count()


def test_a_stream_has_no_end(streams: Streams) -> None:
    topic = streams.topic(records=2)
    source = streams.source(topic, {"endingOffsets": "latest"})
    with pytest.raises(Exception, match="EOSKAFKA_STREAM_WITH_END"):
        streams.run(streams.sink(kv(source), streams.topic()))
