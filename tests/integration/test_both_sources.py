"""Where a stream's source begins, how much a batch takes, and how it ends: alike with either.

`either` is this connector or Spark's built-in one.

Where the two differ on purpose, docs/builtin.md says why, and a test here has a case for each.
"""

from __future__ import annotations

import json
import shutil
import time
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from either import NOON, reaches, running
from eoskafka.cluster import LocalCluster
from harness import until
from harness.versions import needs_built_in, reports
from kafka import TopicPartition
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQuery
from streams import LARGE, QUERY_S, SMALL_FETCHES, Options, Streams, held, kv, read

SLOW = pytest.mark.slow

# Without an answer from any broker.
STOP_S = 20
# Longer than a Kafka client waits for an answer by default.
ANSWER_S = 90


def refusal(streams: Streams, options: Options) -> str:
    """The error of a stream with these options."""
    try:
        read(streams, options)
    except Exception as error:
        return str(error)
    raise AssertionError("nothing was refused")


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


@SLOW
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
    # The built-in connector waits for the answer to a request that it has just sent.
    assert took < (STOP_S if either.form == "eoskafka" else ANSWER_S)


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
