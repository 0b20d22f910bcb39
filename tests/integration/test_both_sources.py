"""What a stream's source does alike here and with Spark's built-in connector.

Where the two differ on purpose, docs/builtin.md says why, and a test here has a case for each.
"""

from __future__ import annotations

import json
import re
import shutil
import struct
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from eoskafka import offsets
from eoskafka.cluster import LocalCluster
from eoskafka.errors import OffsetsError
from harness import until, until_ended
from harness.versions import needs_built_in, reports
from kafka import KafkaProducer, TopicPartition
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.functions import col, count, lit, window
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery
from streams import LARGE, QUERY_S, SMALL_FETCHES, Options, Streams, held, kv, read

SLOW = pytest.mark.slow
NOON = int(time.time()) // 1000 * 1_000_000
FAST = "100 milliseconds"

# Without an answer from any broker.
STOP_S = 20


def running(
    streams: Streams, rows: DataFrame, output: str, checkpoint: object = None
) -> StreamingQuery:
    """A query without end."""
    writer = streams.sink(rows, output, checkpoint)  # type: ignore[arg-type]
    return streams.start(writer.trigger(processingTime=FAST))


def reaches(streams: Streams, output: str, wanted: list[int], query: StreamingQuery) -> None:
    """Wait until exactly these numbers are in the output."""
    until(
        lambda: streams.numbers(output) == sorted(wanted),
        f"{sorted(wanted)}",
        QUERY_S,
        lambda: f"{streams.numbers(output)}, {query.exception()}",
    )


def refusal(streams: Streams, options: Options) -> str:
    """The error of a stream with these options."""
    try:
        read(streams, options)
    except Exception as error:
        return str(error)
    raise AssertionError("nothing was refused")


def counts(rows: DataFrame) -> DataFrame:
    """How many records there are, in each version of the answer."""
    return rows.groupBy(lit("all").alias("key")).agg(count("*").cast("string").alias("value"))


# ---- where it begins


def chosen(topic: str, how: str, partitions: int = 2) -> Options:
    """The option that chooses a topic."""
    if how == "assign":
        return {"assign": json.dumps({topic: [*range(partitions)]})}
    return {how: topic}


def by_partition(topic: str, number: int) -> str:
    return json.dumps({topic: {"0": number, "1": number}})


BEGINNINGS = ("latest", "earliest", "offsets", "timestamps", "timestamp")


def beginning(topic: str, name: str) -> Options:
    """Options to begin at half of what is there, for `latest` and `earliest` at an end of it."""
    beginnings: dict[str, Options] = {
        "latest": {"startingOffsets": "latest"},
        "earliest": {"startingOffsets": "earliest"},
        "offsets": {"startingOffsets": by_partition(topic, 5)},
        "timestamps": {"startingOffsetsByTimestamp": by_partition(topic, NOON)},
        "timestamp": {"startingTimestamp": NOON},
    }
    return beginnings[name]


# Each beginning and each choice once in `make test`, all pairs of them in `make prove`.
PAIRS = [
    pytest.param(name, how, fail, marks=() if quick else SLOW, id=f"{name}-{how}-{fail}")
    for i, name in enumerate(BEGINNINGS)
    for j, how in enumerate(("subscribe", "subscribePattern", "assign"))
    for fail in (True, False)
    for quick in [j == i % 3 and fail == (i % 2 == 0)]
]


@pytest.mark.parametrize(("name", "how", "fail"), PAIRS)
def test_beginning_stopping_going_on_and_new_partitions(
    either: Streams, name: str, how: str, fail: bool
) -> None:
    topic, output, checkpoint = either.topic(), either.topic(), either.checkpoint()
    for partition in (0, 1):
        for n in range(5):
            either.send(topic, 10 * partition + n, partition=partition, at_ms=NOON - 60_000)
            either.send(topic, 10 * partition + n + 5, partition=partition, at_ms=NOON)
    # In offset order: 0, 5, 1, 6, ... so that the first offset at or after noon is 1.
    logs = {0: [0, 5, 1, 6, 2, 7, 3, 8, 4, 9], 1: [10, 15, 11, 16, 12, 17, 13, 18, 14, 19]}
    first = {"latest": 10, "earliest": 0, "offsets": 5, "timestamps": 1, "timestamp": 1}[name]
    wanted = [n for log in logs.values() for n in log[first:]]

    options: dict[str, Any] = {**chosen(topic, how), "failOnDataLoss": fail}
    rows = kv(either.source(options={**options, **beginning(topic, name)}))
    query = running(either, rows, output, checkpoint)
    if name == "latest":
        # It has begun where the topic ended then.
        until(lambda: _has_begun(query), "the first look at the topic", QUERY_S)
        either.send(topic, 20, 21)
        wanted += [20, 21]
    reaches(either, output, wanted, query)
    query.stop()

    either.send(topic, 30, 31)
    wanted += [30, 31]
    rows = kv(either.source(options={**options, **beginning(topic, "latest")}))
    query = running(either, rows, output, checkpoint)
    reaches(either, output, wanted, query)

    if how != "assign":
        either.add_partitions(topic, 4)
        either.send(topic, 40, 41, 42, 43)
        wanted += [40, 41, 42, 43]
        reaches(either, output, wanted, query)
    assert either.finished(query, output) == sorted(wanted)


def _has_begun(query: StreamingQuery) -> bool:
    return any(p.sources[0].endOffset is not None for p in reports(query)) or (
        query.status["message"] == "Waiting for next trigger"
    )


@pytest.mark.parametrize("option", ["startingTimestamp", "startingOffsetsByTimestamp"])
def test_a_time_without_a_record(either: Streams, option: str) -> None:
    topic = either.topic()
    either.send(topic, 0, 1, at_ms=NOON - 60_000)
    time_of = NOON if option == "startingTimestamp" else by_partition(topic, NOON)
    options: Options = {"subscribe": topic, option: time_of}
    assert str(NOON) in refusal(either, options)
    assert read(either, {**options, "startingOffsetsByTimestampStrategy": "latest"}) == []


@needs_built_in
def test_a_whole_topic_by_its_name(streams: Streams) -> None:
    first, second = streams.topic(records=4), streams.topic(records=6)
    starts = json.dumps({first: "earliest", second: {"0": -1, "1": 2}})
    options: dict[str, Any] = {"subscribe": f"{first},{second}", "startingOffsets": starts}
    assert read(streams, options) == [0, 1, 2, 3, 5]
    streams.form = "kafka"
    assert "Expected e.g." in refusal(streams, options)  # Spark has it after 4.2


def test_a_whole_topic_by_its_name_before_it_is_there(streams: Streams) -> None:
    stem, output = streams.topic(records=2), streams.topic()
    later = f"{stem}-later"
    options: dict[str, Any] = {
        "subscribePattern": stem,
        "startingOffsets": json.dumps({stem: "latest", later: "latest"}),
    }
    query = running(streams, kv(streams.source(options=options)), output)
    until(lambda: _has_begun(query), "the first look at the topics", QUERY_S)
    streams.create(later, 1)
    streams.send(later, 7)
    streams.send(stem, 8)
    # A topic that comes later begins at its first record, so that none is missed.
    reaches(streams, output, [7, 8], query)
    assert streams.finished(query, output) == [7, 8]


# ---- how much a batch takes


def ends(query: StreamingQuery, topic: str) -> list[dict[str, int]]:
    """Where each batch with rows has ended, by partition."""
    # From the JSON: before Spark 4.2 Python's attribute has the text of a dictionary.
    found = [json.loads(p.json)["sources"][0] for p in reports(query) if p.numInputRows > 0]
    return [source["endOffset"][topic] for source in found]


def uneven(streams: Streams) -> str:
    """Two partitions, one with nine times the records of the other."""
    topic = streams.topic()
    streams.send(topic, *range(90), partition=0)
    streams.send(topic, *range(90, 100), partition=1)
    return topic


def test_a_limit_is_shared_out_by_what_there_is(either: Streams) -> None:
    topic, output = uneven(either), either.topic()
    query = either.copy(topic, output, options={"maxOffsetsPerTrigger": 40})
    assert ends(query, topic) == [{"0": 36, "1": 4}, {"0": 72, "1": 8}, {"0": 90, "1": 10}]
    assert either.numbers(output) == [*range(100)]


@pytest.mark.parametrize("option", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger"])
def test_the_greatest_limit_there_is(either: Streams, option: str) -> None:
    topic, output = uneven(either), either.topic()
    query = either.copy(topic, output, options={option: 2**63 - 1})
    assert ends(query, topic) == [{"0": 90, "1": 10}]
    assert either.numbers(output) == [*range(100)]


def test_all_that_is_available_now_comes_within_the_limit(either: Streams) -> None:
    topic, output = either.topic(records=25), either.topic()
    query = either.copy(topic, output, options={"maxOffsetsPerTrigger": 10})
    taken = [p.numInputRows for p in reports(query) if p.numInputRows]
    assert len(taken) == 3
    assert max(taken) <= 10
    assert either.numbers(output) == [*range(25)]


def test_once_takes_all_whatever_the_limits(either: Streams) -> None:
    topic, output = either.topic(records=25), either.topic()
    limits = {"maxOffsetsPerTrigger": 10, "minOffsetsPerTrigger": 3}
    rows = kv(either.source(topic, limits))
    query = either.run(either.sink(rows, output).trigger(once=True))
    assert [p.numInputRows for p in reports(query) if p.numInputRows] == [25]
    assert either.numbers(output) == [*range(25)]


DELAY_S = 4


def test_a_lower_limit_waits_and_a_delay_ends_the_wait(either: Streams) -> None:
    topic, output = either.topic(records=10), either.topic()
    limits: Options = {
        "minOffsetsPerTrigger": 10,
        "maxOffsetsPerTrigger": 12,
        "maxTriggerDelay": f"{DELAY_S}s",
    }
    query = running(either, kv(either.source(topic, limits)), output)
    reaches(either, output, [*range(10)], query)
    either.send(topic, 10, 11, 12)
    reaches(either, output, [*range(13)], query)

    def reported() -> list[Any]:
        return [p for p in reports(query) if p.numInputRows]

    until(lambda: len(reported()) == 2, "two reports", QUERY_S)
    both = reported()
    assert [p.numInputRows for p in both] == [10, 3]
    first, second = (datetime.fromisoformat(p.timestamp.replace("Z", "+00:00")) for p in both)
    # A trigger has its time before it looks at the clock of the delay.
    assert (second - first).total_seconds() > DELAY_S - 1, "three records are not ten"
    assert either.finished(query, output) == [*range(13)]


def test_a_batch_with_both_limits_has_no_more_than_the_upper_one(either: Streams) -> None:
    topic, output = either.topic(records=40), either.topic()
    limits = {"minOffsetsPerTrigger": 10, "maxOffsetsPerTrigger": 12}
    query = running(either, kv(either.source(topic, limits)), output)

    def counts() -> list[int]:
        return [p.numInputRows for p in reports(query) if p.numInputRows]

    until(lambda: len(counts()) == 3, "three reports", QUERY_S)
    # It looks once more, and the last four records are too few.
    assert len(either.finished(query, output)) == 36
    assert counts() == [12, 12, 12]


# ---- what a record brings


def test_columns_and_their_types(either: Streams) -> None:
    topic = either.topic(partitions=1)
    either.send(topic, 7, at_ms=NOON)
    (row,) = either.batch(topic).collect()
    assert (bytes(row.key), bytes(row.value)) == (b"k7", b"7")
    assert (row.topic, row.partition, row.offset, row.timestampType) == (topic, 0, 0, 0)
    assert row.timestamp.timestamp() * 1_000 == NOON
    described = either.source(topic, {"includeHeaders": "true"}).schema
    assert [(field.name, field.dataType.simpleString()) for field in described] == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]


def test_null_keys_and_values_and_headers_with_null_values_and_repeated_keys(
    either: Streams,
) -> None:
    topic = either.topic(partitions=1)
    rows = either.spark.sql(
        """
        select cast(null as string) key, 'no key' value, null headers union all
        select 'no value', null, null union all
        select null, 'h', array(('a', cast('1' as binary)), ('b', cast('' as binary)), ('a', null))
        """
    ).selectExpr("key", "value", "cast(headers as array<struct<key:string,value:binary>>) headers")
    either.save(rows.coalesce(1), topic)
    found = either.batch(topic, {"includeHeaders": "true"}).orderBy("offset").collect()
    assert [(row.key, row.value and bytes(row.value)) for row in found] == [
        (None, b"no key"),
        (bytearray(b"no value"), None),
        (None, b"h"),
    ]
    assert [row.headers for row in found[:2]] == [None, None]
    assert [(h.key, h.value) for h in found[2].headers] == [
        ("a", bytearray(b"1")),
        ("b", bytearray(b"")),
        ("a", None),
    ]


# Kafka's numbers of them, in the attributes of a batch of records.
CODECS = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
# What a batch of records begins with, from its length on: the epoch of the partition's leader, the
# version, a checksum and the attributes.
BATCH = struct.Struct(">iibIH")
CONTROL = 0x20


def codecs(cluster: LocalCluster, topic: str) -> set[int]:
    """Those of all batches in a topic's log, as the broker's files have them."""
    found = set()
    for file in cluster.data_dir.glob(f"broker-*/data/{topic}-*/*.log"):
        log, at = file.read_bytes(), 0
        while at < len(log):
            length, _, _, _, attributes = BATCH.unpack_from(log, at + 8)
            if not attributes & CONTROL:
                found.add(attributes & 7)
            at += 12 + length
    return found


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec(either: Streams, cluster: LocalCluster, codec: str) -> None:
    topic, output = either.topic(), either.topic()
    compressed: Options = {"kafka.compression.type": codec}
    rows = either.spark.range(200).selectExpr("cast(id as string) value")
    either.save(rows, topic, compressed)
    assert codecs(cluster, topic) == {CODECS[codec]}
    either.run(either.sink(kv(either.source(topic)), output, options=compressed))
    assert codecs(cluster, output) == {CODECS[codec]}
    assert sorted(int(row.value) for row in either.batch(output).collect()) == [*range(200)]


# ---- transactions and gaps in the input


def transactional(streams: Streams) -> tuple[str, list[int], list[int]]:
    """A topic with committed, aborted and empty transactions; what is committed, and all."""
    topic = streams.topic(partitions=1)
    committed, every = [], []
    ident = f"{topic}-producer"
    with closing(
        KafkaProducer(bootstrap_servers=streams.servers, transactional_id=ident)
    ) as producer:
        producer.init_transactions()
        for part in range(12):
            producer.begin_transaction()
            numbers = [*range(10 * part, 10 * part + part % 4)]
            for number in numbers:
                producer.send(topic, value=str(number).encode(), partition=0)
            producer.flush()
            every += numbers
            if part % 3 == 0:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
                committed += numbers
    until_ended(streams.servers, ident)
    streams.send_values(topic, "999")
    return topic, [*committed, 999], [*every, 999]


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("limit", [None, 3])
def test_aborted_records_gaps_and_empty_ranges(
    either: Streams, isolation: str, limit: int | None
) -> None:
    topic, committed, every = transactional(either)
    options: Options = {"kafka.isolation.level": isolation}
    if limit:
        # Batches that have only a control record, or only aborted ones, among others.
        options = {**options, "maxOffsetsPerTrigger": limit}
    output = either.topic()
    query = either.copy(topic, output, options=options)
    wanted = committed if isolation == "read_committed" else every
    assert either.numbers(output) == sorted(wanted)
    assert sum(p.numInputRows for p in reports(query)) == len(wanted)


@needs_built_in
def test_the_default_isolation_is_one_of_the_differences(streams: Streams) -> None:
    topic, committed, every = transactional(streams)
    assert read(streams, {"subscribe": topic}) == sorted(committed)
    streams.form = "kafka"
    assert read(streams, {"subscribe": topic}) == sorted(every)


@SLOW
def test_a_compacted_topic_has_gaps_that_are_no_loss(either: Streams) -> None:
    topic, output = f"compacted-{either.group()}", either.topic()
    settings = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "100",
    }
    either.create(topic, 1, settings)
    for _ in range(6):
        either.send(topic, *range(50))
        time.sleep(0.3)  # segments that are full can be compacted, the last one never is

    def left() -> int:
        return either.batch(topic, {"failOnDataLoss": "true"}).count()

    until(lambda: left() < 6 * 50, "the log cleaner", 120)
    either.copy(topic, output, options={"failOnDataLoss": "true", "maxOffsetsPerTrigger": 60})
    assert set(either.numbers(output)) == set(range(50))


# ---- topics that go and come


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


# ---- checkpoints


def logged(checkpoint: Path) -> list[dict[str, dict[str, int]]]:
    """The offsets of each batch in a checkpoint of one source, in their order."""
    files = sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
    return [json.loads(file.read_text().splitlines()[2]) for file in files]


def test_no_batch_without_offsets_is_logged(either: Streams) -> None:
    topic, output, checkpoint = either.topic(), either.topic(), either.checkpoint()
    either.copy(topic, output, checkpoint)
    either.send(topic, 0, 1)
    either.copy(topic, output, checkpoint)
    offsets = logged(checkpoint)
    assert offsets[-1] == {topic: {"0": 1, "1": 1}}
    assert all(batch[topic] for batch in offsets)


def test_nor_one_without_topics(either: Streams) -> None:
    stem, output, checkpoint = either.group(), either.topic(), either.checkpoint()

    def run(finds: bool = True) -> None:
        options: dict[str, Any] = {"subscribePattern": stem, "failOnDataLoss": "false"}
        writer = either.sink(kv(either.source(options=options)), output, checkpoint)
        if finds or either.form == "kafka":
            either.run(writer)
        else:
            # One of the differences.
            assert "[EOSKAFKA_NO_SUCH_TOPIC]" in either.failure(writer)

    run(finds=False)
    assert logged(checkpoint) == []
    either.create(f"{stem}-1", 1)
    either.send(f"{stem}-1", 0, 1)
    run()
    either.delete(f"{stem}-1")
    run(finds=False)
    assert logged(checkpoint) == [{f"{stem}-1": {"0": 2}}]
    either.create(f"{stem}-2", 1)
    either.send(f"{stem}-2", 2)
    run()
    assert logged(checkpoint) == [{f"{stem}-1": {"0": 2}}, {f"{stem}-2": {"0": 1}}]
    assert either.numbers(output) == [0, 1, 2]


def test_a_start_without_a_batch_counts_in_the_next_run(either: Streams) -> None:
    topic, output, checkpoint = either.topic(records=4), either.topic(), either.checkpoint()
    query = either.copy(topic, output, checkpoint, {"startingOffsets": "latest"})
    assert [p.numInputRows for p in reports(query)] in ([], [0])
    either.send(topic, 10, 11)
    # The option counts once, and it has counted.
    either.copy(topic, output, checkpoint, {"startingOffsets": "earliest"})
    assert either.numbers(output) == [10, 11]


def test_initial_offsets_of_a_version_to_come_are_refused(either: Streams) -> None:
    topic, output, checkpoint = either.topic(records=2), either.topic(), either.checkpoint()
    either.copy(topic, output, checkpoint)
    initial = checkpoint / "sources" / "0" / "0"
    initial.write_bytes(initial.read_bytes().replace(b"v1\n", b"v99999\n"))
    (initial.parent / ".0.crc").unlink(missing_ok=True)
    for log in ("offsets", "commits"):
        for file in (checkpoint / log).iterdir():
            file.unlink()
    error = either.failure(either.sink(kv(either.source(topic)), output, checkpoint))
    wanted = "v99999" if either.form == "kafka" else "EOSKAFKA_CHECKPOINT_UNREADABLE"
    assert wanted in error


@needs_built_in
@pytest.mark.parametrize(
    "plan", [kv, pytest.param(lambda rows: kv(rows).repartition(2), marks=SLOW), counts]
)
def test_a_checkpoint_is_the_others_too(
    streams: Streams, plan: Callable[[DataFrame], DataFrame]
) -> None:
    topic, output, checkpoint = streams.topic(), streams.topic(), streams.checkpoint()
    for number, form in enumerate(("kafka", "eoskafka", "kafka", "kafka", "eoskafka", "eoskafka")):
        streams.form = form
        streams.send(topic, 2 * number, 2 * number + 1)
        mode = "update" if plan is counts else "append"
        streams.run(streams.sink(plan(streams.source(topic)), output, checkpoint, mode=mode))
        if plan is counts:
            assert max(streams.numbers(output)) == 2 * number + 2
    if plan is not counts:
        assert streams.numbers(output) == [*range(12)]


@needs_built_in
def test_the_first_batch_after_the_builtin_connector_is_not_done_twice(streams: Streams) -> None:
    topic, output, checkpoint = streams.topic(), streams.topic(), streams.checkpoint()
    for number, form in enumerate(("eoskafka", "kafka", "eoskafka")):
        streams.form = form
        streams.send(topic, 2 * number, 2 * number + 1)
        streams.copy(topic, output, checkpoint)
    # As if its driver had died before it logged the batch as done.
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    streams.send(topic, 6)
    streams.copy(topic, output, checkpoint)
    assert streams.numbers(output) == [*range(7)]


def one_batch(streams: Streams, writer: DataStreamWriter) -> None:
    """Run a query's first batch, and stop it before it looks for another."""
    query = streams.start(writer.trigger(processingTime="1 hour"))
    until(lambda: len(reports(query)) > 0, "the batch", QUERY_S)
    query.stop()


@needs_built_in
def test_only_the_sink_goes_to_the_other_connector_and_back(streams: Streams) -> None:
    topic, output, checkpoint = streams.topic(), streams.topic(), streams.checkpoint()
    for number, form in enumerate(("eoskafka", "kafka", "eoskafka")):
        streams.send(topic, 2 * number, 2 * number + 1)
        one_batch(streams, streams.sink(kv(streams.source(topic)), output, checkpoint).format(form))
    assert streams.numbers(output) == [*range(6)]


@needs_built_in
def test_offsets_that_expired_while_the_other_connector_ran(streams: Streams) -> None:
    topic, output, group = streams.topic(), streams.topic(), streams.group()
    checkpoint, options = streams.checkpoint(), {"kafka.group.id": group}
    for number, form in enumerate(("eoskafka", "kafka", "eoskafka")):
        streams.form = form
        if number == 2:
            streams.admin.delete_groups([group])
        streams.send(topic, 2 * number, 2 * number + 1)
        streams.copy(topic, output, checkpoint, options if form == "eoskafka" else None)
    assert streams.numbers(output) == [*range(6)]


@needs_built_in
def test_a_path_that_the_other_connector_has_used_anew_is_refused(streams: Streams) -> None:
    topic, output, checkpoint = streams.topic(records=8), streams.topic(), streams.checkpoint()
    streams.copy(topic, output, checkpoint)
    shutil.rmtree(checkpoint)
    streams.form, other = "kafka", streams.topic()
    limited = streams.source(topic, {"maxOffsetsPerTrigger": 2})
    one_batch(streams, streams.sink(kv(limited), other, checkpoint))
    streams.form = "eoskafka"
    error = streams.failure(streams.sink(kv(streams.source(topic)), other, checkpoint))
    assert "[EOSKAFKA_LOG_BEHIND_GROUP]" in error
    # The command that the error names. It must say where both partitions continue.
    (group,) = re.findall("group '([^']+)' is at", error)
    with pytest.raises(
        OffsetsError, match=f"at offset 1 of {topic}-1, but group '{group}' is at 4"
    ):
        offsets.adopt(streams.servers, str(checkpoint), group, at=json.dumps({topic: {"0": 1}}))
    at = json.dumps({topic: {"0": 1, "1": 1}})
    offsets.adopt(streams.servers, str(checkpoint), group, at=at)
    streams.copy(topic, other, checkpoint)
    assert streams.numbers(other) == [*range(8)]


def test_a_source_without_news_is_no_sign_of_another_connector(streams: Streams) -> None:
    busy, idle, output = streams.topic(records=2), streams.topic(), streams.topic()
    checkpoint = streams.checkpoint()

    def run() -> None:
        rows = [
            kv(
                streams.source(
                    topic, {"kafka.group.id": f"{output}-{topic}", "ownership": "shared"}
                )
            )
            for topic in (busy, idle)
        ]
        streams.run(streams.sink(rows[0].union(rows[1]), output, checkpoint))

    run()
    streams.send(busy, 2, 3)
    run()
    streams.send(idle, 4)
    run()
    assert streams.numbers(output) == [*range(5)]


# ---- plans


def test_the_watermark_goes_by_the_records_times(either: Streams) -> None:
    topic, output, checkpoint = either.topic(partitions=1), either.topic(), either.checkpoint()
    rows = (
        either.source(topic)
        .withWatermark("timestamp", "10 seconds")
        .groupBy(window("timestamp", "5 seconds"))
        .agg(count(lit(1)).alias("n"))
        .select(col("n").cast("string").alias("value"))
    )

    def run() -> None:
        either.run(either.sink(rows, output, checkpoint))

    base = NOON // 5_000 * 5_000
    for number in range(3):
        either.send(topic, number, at_ms=base + 1_000 * number)
    run()
    assert either.values(output) == []
    either.send(topic, 3, at_ms=base + 60_000)
    run()
    assert either.values(output) == ["3"]
    either.send(topic, 4, at_ms=base)  # too late
    either.send(topic, 5, at_ms=base + 200_000)
    run()
    assert either.values(output) == ["1", "3"]


def test_a_union_with_a_source_that_has_nothing(either: Streams) -> None:
    busy, idle, output = either.topic(records=4), either.topic(), either.topic()
    rows = kv(either.source(busy)).union(kv(either.source(idle)))
    query = running(either, rows, output)
    reaches(either, output, [0, 1, 2, 3], query)
    either.send(busy, 4)
    reaches(either, output, [0, 1, 2, 3, 4], query)
    either.send(idle, 9)
    reaches(either, output, [0, 1, 2, 3, 4, 9], query)
    assert either.finished(query, output) == [0, 1, 2, 3, 4, 9]


def test_a_stream_joined_with_itself(either: Streams) -> None:
    topic, output, checkpoint = either.topic(records=4), either.topic(), either.checkpoint()

    def run() -> None:
        rows = either.source(topic)
        left = rows.select(col("value").alias("l"))
        right = rows.select(col("value").alias("r"))
        joined = left.join(right, col("l") == col("r")).select(col("l").alias("value"))
        either.run(either.sink(joined, output, checkpoint))

    run()
    either.send(topic, 3, 4)
    run()
    assert either.numbers(output) == [0, 1, 2, 3, 3, 3, 3, 4]


# ---- reports


@pytest.mark.parametrize("limit", [None, 6])
def test_the_lag_is_that_of_the_batchs_end(either: Streams, limit: int | None) -> None:
    topic, output = either.topic(records=20), either.topic()
    options: Options = {"maxOffsetsPerTrigger": limit} if limit else {}
    query = either.copy(topic, output, options=options)
    lags = [
        {k: float(v) for k, v in p.sources[0].metrics.items() if "BehindLatest" in k}
        for p in reports(query)
        if p.numInputRows
    ]
    steps = [7.0, 4.0, 1.0, 0.0] if limit else [0.0]
    assert lags == [
        {"minOffsetsBehindLatest": n, "maxOffsetsBehindLatest": n, "avgOffsetsBehindLatest": n}
        for n in steps
    ]


def test_rows_in_and_out_are_counted(either: Streams) -> None:
    topic, output = either.topic(records=20), either.topic()
    rows = kv(either.source(topic, {"maxOffsetsPerTrigger": 8})).where(
        "value != cast('3' as binary)"
    )
    query = either.run(either.sink(rows, output))
    read = [p for p in reports(query) if p.numInputRows]
    assert [p.numInputRows for p in read] == [8, 8, 4]
    assert [p.sink.numOutputRows for p in read] in ([7, 8, 4], [8, 7, 4], [8, 8, 3])


@pytest.mark.parametrize("records", [1, 17])
def test_more_tasks_lose_nothing(either: Streams, records: int) -> None:
    topic, output = either.topic(partitions=3, records=records), either.topic()
    either.copy(topic, output, options={"minPartitions": 8, "maxOffsetsPerTrigger": 10})
    assert either.numbers(output) == [*range(records)]


def test_deleted_records_between_two_runs(either: Streams) -> None:
    topic, output = either.topic(partitions=1, records=4), either.topic()
    checkpoint = either.checkpoint()
    either.copy(topic, output, checkpoint)
    either.send(topic, *range(4, 10))
    either.admin.delete_records({TopicPartition(topic, 0): 7})
    with pytest.raises(StreamingQueryException):
        either.copy(topic, output, checkpoint)
    either.copy(topic, output, checkpoint, {"failOnDataLoss": "false"})
    assert either.numbers(output) == [0, 1, 2, 3, 7, 8, 9]


@SLOW
def test_a_stop_while_readers_wait_for_records(either: Streams, tmp_path: Path) -> None:
    # Nothing comes any more, and the wait for it would last for ten minutes.
    forever = {"kafkaConsumer.pollTimeoutMs": 600_000, **SMALL_FETCHES}
    own = LocalCluster(brokers=1, data_dir=tmp_path / "own")
    with own, closing(Streams(either.spark, own.bootstrap_servers, tmp_path, either.form)) as there:
        topic, output = there.topic(partitions=1), there.topic()
        there.send_values(topic, *(f"{n}{LARGE}" for n in range(400)))
        writer = there.sink(held(there.source(topic, forever), topic), output)
        query = there.start_held(writer, topic)
        own.brokers[0].pause()
        time.sleep(5)  # past the reader's rest
        assert query.isActive
        before = time.monotonic()
        query.stop()
        took = time.monotonic() - before
        own.brokers[0].resume()
    assert took < STOP_S


def test_a_stop_between_batches_while_no_broker_answers(either: Streams, tmp_path: Path) -> None:
    # Of each of four slots a consumer rests that has a session with the broker.
    own = LocalCluster(brokers=1, data_dir=tmp_path / "own")
    with own, closing(Streams(either.spark, own.bootstrap_servers, tmp_path, either.form)) as there:
        topic, output = there.topic(partitions=4, records=40), there.topic()
        rows = there.source(topic, {"slots": 4} if either.form == "eoskafka" else None)
        query = running(there, kv(rows), output)
        reaches(there, output, [*range(40)], query)
        own.brokers[0].pause()
        before = time.monotonic()
        query.stop()
        took = time.monotonic() - before
        own.brokers[0].resume()
    assert took < STOP_S


def test_a_new_partition_whose_first_records_are_gone(either: Streams) -> None:
    topic, output, checkpoint = either.topic(records=4), either.topic(), either.checkpoint()
    either.copy(topic, output, checkpoint)
    either.add_partitions(topic, 3)
    either.send(topic, 10, 11, 12, 13, partition=2)
    either.admin.delete_records({TopicPartition(topic, 2): 2})
    either.failure(either.sink(kv(either.source(topic)), output, checkpoint))
    assert either.numbers(output) == [0, 1, 2, 3]
    either.copy(topic, output, checkpoint, {"failOnDataLoss": False})
    assert either.numbers(output) == [0, 1, 2, 3, 12, 13]


@pytest.mark.parametrize("option", ["subscribe", "subscribePattern", "assign"])
@pytest.mark.parametrize("value", ["", " ", ","])
def test_no_topics_are_an_error(either: Streams, option: str, value: str) -> None:
    if (option, value) == ("subscribePattern", ","):
        pytest.skip("a pattern, which no topic's name has in it")
    assert refusal(either, {option: value})


def test_a_source_that_only_reads_begins_anew_without_its_checkpoint(either: Streams) -> None:
    topic, checkpoint = either.topic(records=4), either.checkpoint()
    group = {"kafka.group.id": either.group()}

    def read() -> int:
        query = either.start(
            either.source(topic, group)
            .writeStream.format("noop")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
        )
        assert query.awaitTermination(QUERY_S)
        return sum(batch.numInputRows for batch in reports(query))

    assert read() == 4
    assert read() == 0
    shutil.rmtree(checkpoint)
    assert read() == 4


def test_starting_offsets_outside_the_log_are_named(streams: Streams) -> None:
    topic = streams.topic(records=4)
    beyond = json.dumps({topic: {"0": 99, "1": 0}})
    error = refusal(streams, {"subscribe": topic, "startingOffsets": beyond})
    assert "[EOSKAFKA_START_OUT_OF_RANGE] startingOffsets has 99" in error
    assert "from 0 (the start of the log) to 2 (its end" in error
