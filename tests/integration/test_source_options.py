"""Where a source begins, which topics it reads and how much a batch takes."""

from __future__ import annotations

import json
import threading
import time
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path

import pytest
from eoskafka import Sink, Source
from harness import until
from kafka import KafkaProducer
from streams import QUERY_S, Options, Streams, kv, read

# Recent: retention goes by the time of records.
NOON = int(time.time()) // 1000 * 1_000_000


def timed(streams: Streams, partitions: int = 2) -> str:
    """A topic with records 0, 1, 2 a minute apart in each partition p, as 10p, 10p + 1, 10p + 2."""
    topic = streams.topic(partitions)
    for partition in range(partitions):
        for minute in range(3):
            number = 10 * partition + minute
            streams.send(topic, number, partition=partition, at_ms=NOON + 60_000 * minute)
    return topic


# ---- startingTimestamp, startingOffsetsByTimestamp


def test_one_timestamp_counts_before_those_by_partition_and_both_before_offsets(
    streams: Streams,
) -> None:
    topic = timed(streams)
    by_partition = json.dumps({topic: {"0": NOON + 60_000, "1": NOON + 60_000}})
    source: Options = {
        "subscribe": topic,
        "startingOffsets": "earliest",
        "startingOffsetsByTimestamp": by_partition,
    }
    assert read(streams, source) == [1, 2, 11, 12]
    assert read(streams, {**source, "startingTimestamp": NOON + 120_000}) == [2, 12]


def test_a_time_after_the_last_record_is_an_error_or_the_end(streams: Streams) -> None:
    topic = timed(streams)
    streams.send(topic, 3, partition=0, at_ms=NOON + 200_000)
    source: Options = {"subscribe": topic, "startingTimestamp": NOON + 150_000}
    output = streams.topic()
    error = streams.failure(streams.sink(kv(streams.source(options=source)), output))
    assert "[EOSKAFKA_NO_RECORD_AT_TIMESTAMP]" in error
    assert f"begin at the time {NOON + 150_000}" in error
    assert f"but {topic}-1 has no record at or after it" in error
    assert read(streams, {**source, "startingOffsetsByTimestampStrategy": "latest"}) == [3]


def test_the_time_counts_once_and_a_partition_that_comes_later_begins_at_its_first_record(
    streams: Streams,
) -> None:
    topic, output, checkpoint = timed(streams), streams.topic(), streams.checkpoint()
    source: Options = {"subscribe": topic, "startingTimestamp": NOON + 60_000}

    def run(**options: str | int) -> None:
        rows = kv(streams.source(options={**source, **options}))
        streams.run(streams.sink(rows, output, checkpoint))

    run()
    streams.add_partitions(topic, 3)
    streams.send(topic, 20, partition=2, at_ms=NOON)
    streams.send(topic, 3, partition=0, at_ms=NOON)
    run(startingTimestamp=NOON + 900_000)
    assert streams.numbers(output) == [1, 2, 3, 11, 12, 20]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"startingTimestamp": "noon"}, "EOSKAFKA_OPTION_INVALID"),
        ({"startingTimestamp": -1}, "EOSKAFKA_OPTION_INVALID"),
        ({"startingOffsetsByTimestamp": "noon"}, "EOSKAFKA_BAD_OFFSET_JSON"),
        ({"startingOffsetsByTimestamp": "{}"}, "startingOffsetsByTimestamp must name exactly"),
        ({"startingOffsetsByTimestampStrategy": "earliest"}, "error or latest"),
        ({"maxTriggerDelay": "soon"}, "a time with its unit"),
        ({"fetchOffset.numRetries": 0}, "EOSKAFKA_OPTION_INVALID"),
        ({"minOffsetsPerTrigger": 5, "maxOffsetsPerTrigger": 4}, "at most maxOffsetsPerTrigger"),
    ],
)
def test_what_is_no_time_or_number_is_refused(
    streams: Streams, options: Options, wanted: str
) -> None:
    topic = streams.topic(records=2)
    with pytest.raises(Exception, match=wanted):
        read(streams, {"subscribe": topic, **options})


def test_a_topic_that_is_written_to_begins_at_its_end_without_an_error(streams: Streams) -> None:
    topic, output = streams.topic(), streams.topic()
    done = threading.Event()

    def write() -> None:
        with closing(KafkaProducer(bootstrap_servers=streams.servers)) as producer:
            while not done.wait(0.001):
                producer.send(topic, value=b"1")

    writing = threading.Thread(target=write)
    writing.start()
    try:
        for starting in ("latest", "earliest", "latest"):
            streams.copy(topic, output, options={"startingOffsets": starting})
            assert (
                streams.spark.read.format("eoskafka")
                .options(**{"kafka.bootstrap.servers": streams.servers, "subscribe": topic})
                .load()
                .count()
            )
    finally:
        done.set()
        writing.join()


# ---- which topics


def test_a_list_of_topics(streams: Streams) -> None:
    first, second = streams.topic(records=3), streams.topic()
    streams.send(second, 7)
    assert read(streams, {"subscribe": f"{first}, {second}"}) == [0, 1, 2, 7]


def test_assigned_partitions_only(streams: Streams) -> None:
    topic = streams.topic(partitions=3)
    for partition in range(3):
        streams.send(topic, partition, partition=partition)
    assert read(streams, {"assign": json.dumps({topic: [0, 2]})}) == [0, 2]


def test_a_pattern_finds_topics_that_appear_later(streams: Streams) -> None:
    stem, output = streams.topic(records=2), streams.topic()
    streams.topic(records=5)
    rows = kv(streams.source(options={"subscribePattern": f"{stem}.*"}))
    query = streams.start(streams.sink(rows, output).trigger(processingTime="200 milliseconds"))
    until(lambda: streams.numbers(output) == [0, 1], "the first topic's records", QUERY_S)
    streams.create(f"{stem}-later", 1)
    streams.send(f"{stem}-later", 2, 3)
    until(
        lambda: streams.numbers(output) == [0, 1, 2, 3],
        "the later topic's records",
        QUERY_S,
        lambda: f"{query.exception()}",
    )
    assert streams.finished(query, output) == [0, 1, 2, 3]


def test_a_pattern_is_looked_for_within_the_name(streams: Streams) -> None:
    stem = streams.topic(records=2)
    streams.create(f"{stem}-more", 1)
    streams.send(f"{stem}-more", 9)
    assert read(streams, {"subscribePattern": stem}) == [0, 1, 9]
    assert read(streams, {"subscribePattern": f"^{stem}$"}) == [0, 1]


# ---- how much a batch takes


def test_all_that_is_available_now_is_read_though_the_rest_is_too_small(streams: Streams) -> None:
    topic = streams.topic(records=25)
    limits = {"minOffsetsPerTrigger": 10, "maxOffsetsPerTrigger": 10}
    assert read(streams, {"subscribe": topic, **limits}) == [*range(25)]


def test_a_batch_reads_of_each_partition_what_its_limit_allows(streams: Streams) -> None:
    topic, output = streams.topic(), streams.topic()
    streams.send(topic, *range(7), partition=0)
    streams.send(topic, 7, 8, partition=1)
    query = streams.copy(topic, output, options={"maxOffsetsPerPartition": 3})
    sources = [json.loads(p.json)["sources"][0] for p in query.recentProgress if p.numInputRows]
    assert [source["endOffset"][topic] for source in sources] == [
        {"0": 3, "1": 2},
        {"0": 6, "1": 2},
        {"0": 7, "1": 2},
    ]
    assert streams.numbers(output) == [*range(9)]


def test_available_now_leaves_what_comes_later(streams: Streams, tmp_path: Path) -> None:
    topic, output = streams.topic(records=20), streams.topic()
    query = streams.start(
        streams.sink(kv(streams.source(topic, {"maxOffsetsPerTrigger": 2})), output)
    )
    until(lambda: query.recentProgress, "the first batch", QUERY_S)
    streams.send(topic, *range(100, 120))
    assert query.awaitTermination(QUERY_S)
    assert streams.numbers(output) == [*range(20)]


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_slots_are_producers(streams: Streams, slots: int) -> None:
    topic, output, group = streams.topic(partitions=4, records=8), streams.topic(), streams.group()
    options: Options = {"slots": slots, "kafka.group.id": group}
    streams.copy(topic, output, options=options)
    assert streams.numbers(output) == [*range(8)]
    listed = streams.admin.list_transactions().values()
    ids = {t.transactional_id for transactions in listed for t in transactions}
    assert len([name for name in ids if f"-{group}-" in name]) == slots


# ---- groups


def test_a_group_without_a_name_begins_with_the_prefix(streams: Streams) -> None:
    topic, checkpoint = streams.topic(records=2), streams.checkpoint()
    streams.copy(topic, streams.topic(), checkpoint, {"groupIdPrefix": "payments"})
    kept = json.loads(Path(checkpoint, "sources/0/eoskafka-identity.json").read_text())
    assert kept["group"] == f"payments-{kept['checkpointId']}"


def test_a_pattern_does_not_find_what_the_query_writes_for_itself(streams: Streams) -> None:
    topic, output, group = streams.topic(records=4), streams.topic(), streams.group()
    decisions, checkpoint = f"{topic}-decisions", streams.checkpoint()
    for _ in range(2):
        rows = kv(streams.source(options={"subscribePattern": topic, "kafka.group.id": group}))
        epoch = {"transactionScope": "epoch", "decisionTopic": decisions}
        streams.run(streams.sink(rows, output, checkpoint, epoch))
    assert streams.numbers(output) == [0, 1, 2, 3]
    assert streams.committed(group, decisions) == {}


# ---- typed


def test_a_query_of_typed_options(streams: Streams) -> None:
    first, second, output = streams.topic(records=4), streams.topic(), streams.topic()
    streams.send(second, 10, 11, partition=0, at_ms=NOON)
    source = Source(
        bootstrap_servers=streams.servers,
        subscribe=[first, second],
        starting_offsets={first: {0: -2, 1: 1}, second: "earliest"},
        max_offsets_per_trigger=3,
        kafka={"fetch.max.bytes": 100_000},
    )
    sink = Sink(bootstrap_servers=streams.servers, topic=output, transaction_scope="task")
    writer = sink.stream(kv(source.stream(streams.spark)), checkpoint=str(streams.checkpoint()))
    streams.run(writer.trigger(availableNow=True))
    assert streams.numbers(output) == [0, 2, 3, 10, 11]

    at = datetime.fromtimestamp(NOON / 1_000, timezone.utc)
    batch = Source(
        bootstrap_servers=streams.servers,
        subscribe=second,
        starting_timestamp=at,
        starting_offsets_by_timestamp_strategy="latest",
    )
    Sink(bootstrap_servers=streams.servers, topic=output).save(kv(batch.batch(streams.spark)))
    assert streams.numbers(output) == [0, 2, 3, 10, 10, 11, 11]
