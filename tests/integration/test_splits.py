"""`minPartitions` and `maxRecordsPerPartition`: more tasks than there are partitions."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.functions import concat_ws, spark_partition_id
from streams import Options, Streams, kv

RECORDS = 40


def with_task(rows: DataFrame) -> DataFrame:
    """Each value with the number of the task that has read it."""
    value = concat_ws("/", rows.value.cast("string"), spark_partition_id())
    return rows.select("key", value.alias("value"))


def copied(streams: Streams, topic: str, options: Options) -> tuple[list[int], int, str]:
    """What a stream of one batch has copied, how many tasks it had, and its scope."""
    output = streams.topic()
    query = streams.run(
        streams.sink(
            with_task(streams.source(topic, {"startingOffsets": "earliest", **options})), output
        )
    )
    pairs = [value.split("/") for value in streams.values(output)]
    scopes = {p.sink.metrics["transactionScope"] for p in query.recentProgress if p.numInputRows}
    assert len(scopes) == 1
    return sorted(int(n) for n, _ in pairs), len({task for _, task in pairs}), scopes.pop()


@pytest.mark.parametrize(
    ("partitions", "options", "tasks", "scope"),
    [
        pytest.param(2, {"minPartitions": 6}, 6, "epoch", id="more tasks than partitions"),
        pytest.param(8, {"minPartitions": 6}, 6, "task", id="more tasks than slots"),
        pytest.param(2, {"minPartitions": 1}, 2, "task", id="fewer tasks than slots"),
        pytest.param(
            *(2, {"slots": 1, "minPartitions": 1}, 1, "task"),
            id="as many as slots",
            marks=pytest.mark.slow,
        ),
        pytest.param(2, {"maxRecordsPerPartition": 7}, 6, "epoch", id="a limit for a task"),
        pytest.param(
            *(2, {"maxRecordsPerPartition": 20}, 2, "task"),
            id="a limit that none reaches",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            2, {"minPartitions": 9, "maxRecordsPerPartition": 20}, 9, "epoch", id="both, the first"
        ),
        pytest.param(
            *(2, {"minPartitions": 3, "maxRecordsPerPartition": 4}, 10, "epoch"),
            id="both, the second",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *(2, {"minPartitions": 100}, RECORDS, "epoch"),
            id="a record for each task",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_stream_has_as_many_tasks_as_wanted(
    streams: Streams, partitions: int, options: Options, tasks: int, scope: str
) -> None:
    topic = streams.topic(partitions, records=RECORDS)
    assert copied(streams, topic, options) == ([*range(RECORDS)], tasks, scope)


def test_the_scope_does_not_go_by_how_many_partitions_have_news(streams: Streams) -> None:
    topic = streams.topic(partitions=8)
    streams.send(topic, *range(RECORDS), partition=3)
    assert copied(streams, topic, {"minPartitions": 6}) == ([*range(RECORDS)], 1, "task")


@pytest.mark.slow
def test_splitting_may_begin_and_end_between_runs(streams: Streams) -> None:
    topic, output, checkpoint = streams.topic(), streams.topic(), streams.checkpoint()
    for number, least in enumerate((1, 8, 5, 2, 6)):
        streams.send(topic, *range(number * RECORDS, (number + 1) * RECORDS))
        options: Options = {"minPartitions": least, "maxOffsetsPerTrigger": 15}
        streams.copy(topic, output, checkpoint, options)
    assert streams.numbers(output) == [*range(5 * RECORDS)]


def test_pieces_with_aborted_records_and_control_records_in_them(streams: Streams) -> None:
    topic = streams.topic(partitions=1)
    for number in range(5):
        streams.send(topic, 2 * number, 2 * number + 1)
        with streams.open_transaction(topic, 100, 101):
            pass
    numbers, _, _ = copied(streams, topic, {"minPartitions": 11})
    assert numbers == [*range(10)]


def test_a_batch_query_has_as_many_tasks_as_wanted(streams: Streams) -> None:
    topic = streams.topic(records=RECORDS)

    def tasks(options: Options) -> int:
        given = {"kafka.bootstrap.servers": streams.servers, "subscribe": topic, **options}
        rows = streams.spark.read.format("eoskafka").options(**given).load()
        found = [row.value.split("/") for row in with_task(rows).collect()]
        assert sorted(int(n) for n, _ in found) == [*range(RECORDS)]
        return len({task for _, task in found})

    assert tasks({}) == 2
    assert tasks({"minPartitions": 5}) == 5
    assert tasks({"maxRecordsPerPartition": 3}) == 14
    assert tasks({"minPartitions": 30, "maxRecordsPerPartition": 3}) == 30


def test_without_a_sink_of_ours_too(streams: Streams) -> None:
    topic, name = streams.topic(records=RECORDS), "splits"
    rows = with_task(streams.source(topic, {"minPartitions": 7}))
    writer = rows.writeStream.format("memory").queryName(name).trigger(availableNow=True)
    streams.run(writer)
    found = [row.value.split("/") for row in streams.spark.table(name).collect()]
    assert sorted(int(n) for n, _ in found) == [*range(RECORDS)]
    assert len({task for _, task in found}) == 7


@pytest.mark.parametrize(
    ("source", "sink", "wanted"),
    [
        ({"minPartitions": 0}, {}, "a whole number above 0"),
        ({"maxRecordsPerPartition": -5}, {}, "a whole number above 0"),
        ({"minPartitions": 3, "slots": 2}, {}, "at most 2, the value of slots"),
        (
            {"minPartitions": 3, "ownership": "shared", "kafka.group.id": "g"},
            {},
            "left out with ownership=shared",
        ),
        (
            {"maxRecordsPerPartition": 3, "ownership": "shared", "kafka.group.id": "g"},
            {},
            "left out with ownership=shared",
        ),
        (
            {"minPartitions": 6},
            {"transactionScope": "task"},
            "one partition to several tasks",
        ),
    ],
)
def test_what_cannot_be_split_is_refused(
    streams: Streams, source: Options, sink: Options, wanted: str
) -> None:
    topic = streams.topic(records=RECORDS)
    with pytest.raises(Exception, match=wanted):
        streams.run(streams.sink(kv(streams.source(topic, source)), streams.topic(), options=sink))
