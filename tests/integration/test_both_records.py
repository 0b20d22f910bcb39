"""What a stream's source makes of records, here and with Spark's built-in connector.

Columns, codecs, transactions and gaps in the input, and what plans make of it.
"""

from __future__ import annotations

import struct
import time
from contextlib import closing

import pytest
from either import NOON, reaches, running
from eoskafka.cluster import LocalCluster
from harness import until, until_ended
from harness.versions import needs_built_in, reports
from kafka import KafkaProducer
from pyspark.sql.functions import col, count, lit, window
from streams import Options, Streams, kv, read

SLOW = pytest.mark.slow


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
