"""What docs/builtin.md says that Spark's built-in connector does otherwise: shown with both."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from typing import Any

import pytest
from harness import until
from pyspark.sql.streaming import StreamingQuery
from streams import QUERY_S, Options, Streams, kv, read

SLOW = pytest.mark.slow


def is_ours(streams: Streams) -> bool:
    """Whether this connector is asked, not the built-in one."""
    return streams.form == "eoskafka"


def error_of(run: Callable[[], Any]) -> str:
    """The error of what must fail."""
    try:
        run()
    except Exception as error:
        return str(error)
    raise AssertionError("nothing was refused")


def rows_of(query: StreamingQuery) -> list[int]:
    """How many records each batch has had."""
    return [p.numInputRows for p in query.recentProgress if p.numInputRows]


# ---- groups


def test_the_offsets_are_in_the_group(either: Streams) -> None:
    topic, group = either.topic(records=4), either.group()
    either.copy(topic, either.topic(), options={"kafka.group.id": group})
    assert either.offsets(group, topic) == ({0: 2, 1: 2} if is_ours(either) else {})


def test_two_sources_in_one_group(either: Streams) -> None:
    group: Options = {"kafka.group.id": either.group()}
    rows = [kv(either.source(either.topic(records=3), group)) for _ in range(2)]
    output = either.topic()
    writer = either.sink(rows[0].union(rows[1]), output)
    if is_ours(either):
        assert "[EOSKAFKA_FOREIGN_MEMBER]" in either.failure(writer)
    else:
        either.run(writer)
        assert either.numbers(output) == [0, 0, 1, 1, 2, 2]


def test_without_its_checkpoint_a_query_goes_on_where_its_group_is(either: Streams) -> None:
    topic, output, checkpoint = either.topic(records=4), either.topic(), either.checkpoint()
    either.copy(topic, output, checkpoint)
    shutil.rmtree(checkpoint)
    either.copy(topic, output, checkpoint)
    assert either.numbers(output) == sorted([0, 1, 2, 3] * (1 if is_ours(either) else 2))


# ---- how much a batch takes


def test_a_rest_that_is_less_than_the_minimum_is_available_too(either: Streams) -> None:
    topic, output = either.topic(partitions=1, records=25), either.topic()
    limits = {"minOffsetsPerTrigger": 10, "maxOffsetsPerTrigger": 10}
    query = either.copy(topic, output, options=limits)
    assert rows_of(query) == [10, 10, 5][: 3 if is_ours(either) else 2]


def test_a_long_wait_is_over_when_a_record_comes(either: Streams) -> None:
    delay_s = 8
    topic, output = either.topic(records=10), either.topic()
    limits: Options = {"minOffsetsPerTrigger": 10, "maxTriggerDelay": f"{delay_s}s"}
    rows = kv(either.source(topic, limits))
    query = either.start(either.sink(rows, output).trigger(processingTime="100 milliseconds"))

    def wait_for(records: int) -> None:
        until(lambda: sum(rows_of(query)) == records, f"{records} records", QUERY_S)

    wait_for(10)
    # The last batch is longer ago than the delay; the built-in connector's clock starts anew.
    time.sleep(delay_s + 0.3)
    either.send(topic, 10)
    sent = time.monotonic()
    wait_for(11)
    waited_s = time.monotonic() - sent
    assert waited_s < 4 if is_ours(either) else waited_s > 4


# ---- tasks


def tasks(streams: Streams, topic: str, options: Options | None = None) -> int:
    """How many tasks read what is in a topic, in a stream of one batch."""
    output = streams.topic()
    rows = streams.source(topic, options).selectExpr("cast(spark_partition_id() as string) value")
    streams.run(streams.sink(rows, output))
    return len(set(streams.values(output)))


def test_a_batch_has_a_task_for_each_slot_or_for_each_partition(either: Streams) -> None:
    topic = either.topic(partitions=4, records=8)
    assert tasks(either, topic) == (2 if is_ours(either) else 4)


def test_partitions_without_news_count_for_min_partitions(either: Streams) -> None:
    topic = either.topic(partitions=4)
    either.send(topic, *range(8), partition=3)
    assert tasks(either, topic, {"minPartitions": 4}) == (1 if is_ours(either) else 4)


# ---- topics


def test_a_pattern_that_finds_nothing(either: Streams) -> None:
    nothing: Options = {"subscribePattern": "never-made-.*"}
    runs: list[Callable[[], list[Any]]] = [
        lambda: read(either, nothing),
        lambda: either.batch(options=nothing).collect(),
    ]
    for run in runs:
        if is_ours(either):
            assert "[EOSKAFKA_NO_SUCH_TOPIC]" in error_of(run)
        else:
            assert run() == []


def test_a_partition_that_is_not_there(either: Streams) -> None:
    topic = either.topic(records=4)
    assigned: Options = {"assign": json.dumps({topic: [0, 5]})}
    if is_ours(either):
        assert f"The cluster has no {topic}-5" in error_of(lambda: read(either, assigned))
        assert f"{topic}-5" in error_of(lambda: either.batch(options=assigned).count())
    else:
        assert read(either, assigned) == [0, 2]
        assert either.batch(options=assigned).count() == 2


@pytest.mark.parametrize("records", [6, pytest.param(2, marks=SLOW)])
def test_a_topic_that_was_deleted_and_created_again(either: Streams, records: int) -> None:
    topic, output = either.topic(partitions=1, records=4), either.topic()
    checkpoint = either.checkpoint()
    either.copy(topic, output, checkpoint)
    either.delete(topic)
    either.create(topic, 1)
    later = [*range(10, 10 + records)]
    either.send(topic, *later)
    may_lose: Options = {"failOnDataLoss": "false"}
    if is_ours(either) or records < 4:
        error = error_of(lambda: either.copy(topic, output, checkpoint))
        wanted = "[EOSKAFKA_DATA_LOSS]" if is_ours(either) else "data may have been lost"
        assert wanted in error
        either.copy(topic, output, checkpoint, may_lose)
    else:
        # It says nothing, and goes on at the offset 4.
        either.copy(topic, output, checkpoint)
    assert either.numbers(output) == [0, 1, 2, 3, *(later if is_ours(either) else later[4:])]


# ---- batch queries


def test_an_end_beyond_the_last_stable_offset(either: Streams) -> None:
    topic, wait_s = either.topic(partitions=1, records=4), 20 if is_ours(either) else 2
    options: Options = {
        "endingOffsets": json.dumps({topic: {"0": 6}}),
        "kafka.isolation.level": "read_committed",
        "kafkaConsumer.pollTimeoutMs": wait_s * 1_000,
    }
    with either.open_transaction(topic, 90, 91):
        started = time.monotonic()
        error = error_of(lambda: either.batch(topic, options).count())
        took_s = time.monotonic() - started
    if is_ours(either):
        assert "what can be read ends at 4" in error
        assert took_s < wait_s
    else:
        assert "Could not read records in offset [4, 6)" in error
        assert took_s >= wait_s


# ---- options


def test_a_misspelt_option(either: Streams) -> None:
    topic, output = either.topic(records=4), either.topic()
    misspelt: Options = {"maxOffsetPerTrigger": 1}
    if is_ours(either):
        error = error_of(lambda: either.copy(topic, output, options=misspelt))
        assert "Did you mean maxOffsetsPerTrigger?" in error
    else:
        assert rows_of(either.copy(topic, output, options=misspelt)) == [4]


@pytest.mark.parametrize(
    ("option", "wanted"),
    [
        ("topic", "[EOSKAFKA_OPTION_WRONG_SIDE]"),
        ("kafka.partition.assignment.strategy", "[EOSKAFKA_OPTION_REFUSED]"),
        ("kafka.max.poll.interval.ms", "[EOSKAFKA_OPTION_REFUSED]"),
        ("kafka.group.instance.id", "[EOSKAFKA_OPTION_REFUSED]"),
    ],
)
def test_options_of_a_source_that_are_refused(either: Streams, option: str, wanted: str) -> None:
    strategy = "org.apache.kafka.clients.consumer.RangeAssignor"
    options: Options = {
        "subscribe": either.topic(records=4),
        option: strategy if option.endswith("strategy") else "100000",
    }
    if is_ours(either):
        assert wanted in error_of(lambda: read(either, options))
    else:
        assert read(either, options) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("option", "value", "wanted"),
    [
        ("kafka.acks", "1", "must be all or -1"),
        ("kafka.acks", "0", "must be all or -1"),
        ("kafka.enable.idempotence", "false", "must be true"),
        ("kafka.retries", "0", "must be a whole number above 0"),
        ("kafka.max.in.flight.requests.per.connection", "6", "must be 1, 2, 3, 4 or 5"),
        ("kafka.transactional.id", "mine", "use transactionalIdPrefix"),
        ("kafka.transaction.two.phase.commit.enable", "true", "leave it out"),
    ],
)
def test_settings_of_a_producer_that_are_refused(
    either: Streams, option: str, value: str, wanted: str
) -> None:
    output = either.topic()
    rows = either.spark.range(3).selectExpr("cast(id as string) value")

    # A producer with an id waits for transactions that the built-in connector never begins.
    soon: Options = {"kafka.delivery.timeout.ms": 3_000, "kafka.request.timeout.ms": 2_000}

    def write() -> None:
        either.save(rows, output, {option: value, **soon})

    if is_ours(either):
        error = error_of(write)
        assert option in error
        assert wanted in error
    elif option == "kafka.transactional.id":
        assert "Producer with transactionalId 'mine'" in error_of(write)
    else:
        write()
    is_written = not is_ours(either) and option != "kafka.transactional.id"
    assert either.numbers(output) == ([0, 1, 2] if is_written else [])


def test_a_schema_of_ones_own(either: Streams) -> None:
    topic = either.topic(records=2)
    columns = either.batch(topic).schema
    reader = either.spark.read.format(either.form).schema(columns)
    options = {"kafka.bootstrap.servers": either.servers, "subscribe": topic}
    if is_ours(either):
        wanted = "does not support user-specified schema"
        assert wanted in error_of(lambda: reader.options(**options).load())
    else:
        assert reader.options(**options).load().count() == 2
