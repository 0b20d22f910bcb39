"""What a sink does alike here and with Spark's built-in connector: streams and batches."""

from __future__ import annotations

import pytest
from eoskafka.audit import read_committed
from kafka import KafkaConsumer, TopicPartition
from pyspark.sql import DataFrame
from streams import Options, Streams, kv

BATCH, STREAM = "batch", "stream"
KINDS = pytest.mark.parametrize("kind", [STREAM, BATCH])


def write(
    streams: Streams,
    kind: str,
    expressions: list[str],
    topic: str | None,
    options: Options | None = None,
    records: int = 4,
) -> None:
    """Rows made of the records 0, 1, ... by these expressions, in a stream or a batch."""
    source = streams.topic(records=records)
    if kind == BATCH:
        streams.save(streams.batch(source).selectExpr(*expressions), topic, options)
    else:
        rows = streams.source(source).selectExpr(*expressions)
        streams.run(streams.sink(rows, topic, options=options))


def refusal(
    streams: Streams,
    kind: str,
    expressions: list[str],
    topic: str | None,
    options: Options | None = None,
) -> str:
    """The error of such a write."""
    try:
        write(streams, kind, expressions, topic, options)
    except Exception as error:
        return str(error)
    raise AssertionError("nothing was refused")


def by_partition(streams: Streams, topic: str, partitions: int = 2) -> list[int]:
    """How many records each partition has, whatever their transactions."""
    consumer = KafkaConsumer(bootstrap_servers=streams.servers)
    wanted = [TopicPartition(topic, p) for p in range(partitions)]
    consumer.assign(wanted)
    consumer.seek_to_beginning()
    counts = [0] * partitions
    ends = consumer.end_offsets(wanted)
    while any(consumer.position(tp) < ends[tp] for tp in wanted):
        for tp, records in consumer.poll(1_000).items():
            counts[tp.partition] += len(records)
    consumer.close()
    return counts


# ---- which topic


@KINDS
def test_the_option_topic(either: Streams, kind: str) -> None:
    output = either.topic()
    write(either, kind, ["key", "value"], output)
    assert either.numbers(output) == [0, 1, 2, 3]


@KINDS
def test_the_column_topic(either: Streams, kind: str) -> None:
    even, odd = either.topic(), either.topic()
    topic = f"if(cast(cast(value as string) as int) % 2 = 0, '{even}', '{odd}') as topic"
    write(either, kind, ["value", topic], None)
    assert (either.numbers(even), either.numbers(odd)) == ([0, 2], [1, 3])


@KINDS
def test_the_option_counts_before_the_column(either: Streams, kind: str) -> None:
    output, other = either.topic(), either.topic()
    write(either, kind, ["value", f"'{other}' as topic"], output)
    assert (either.numbers(output), either.numbers(other)) == ([0, 1, 2, 3], [])


@KINDS
def test_neither_is_an_error(either: Streams, kind: str) -> None:
    assert "topic" in refusal(either, kind, ["key", "value"], None)


@KINDS
def test_a_null_in_the_column_is_an_error(either: Streams, kind: str) -> None:
    error = refusal(either, kind, ["value", "cast(null as string) as topic"], None)
    assert "null topic" in error.lower() or "[EOSKAFKA_NULL_TOPIC]" in error


@KINDS
def test_a_topic_that_does_not_exist_is_an_error(either: Streams, kind: str) -> None:
    # Of a name that no broker would make by itself.
    error = refusal(either, kind, ["value"], "no such topic", {"kafka.max.block.ms": 2_000})
    assert "no such topic" in error


# ---- columns


BAD_ROWS = {
    "no value": ["key"],
    "a number as value": ["partition as value"],
    "a number as key": ["offset as key", "value"],
    "a long as partition": ["value", "offset as partition"],
    "a binary as topic": ["value", "key as topic"],
    "headers of text": ["value", "array(struct('a' as key, 'b' as value)) as headers"],
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_rows_that_cannot_be_records(either: Streams, name: str) -> None:
    output = either.topic()
    for kind in (STREAM, BATCH):
        error = refusal(either, kind, BAD_ROWS[name], None if "topic" in name else output)
        wrong = {"no": "value", "headers": "headers"}.get(name.split()[0], name.split()[-1])
        assert wrong in error
    assert either.values(output) == []


@KINDS
def test_strings_bytes_and_nulls(either: Streams, kind: str) -> None:
    output = either.topic(partitions=1)
    value = "if(value = cast('1' as binary), null, value) as value"
    write(either, kind, ["cast(null as string) as key", value], output)
    write(either, kind, ["cast(key as string) as key", "cast(value as string) as value"], output)
    assert either.values(output) == sorted(["-", "0", "2", "3", "0", "1", "2", "3"])
    found = either.batch(output).collect()
    assert sorted(row.key.decode() if row.key else "" for row in found) == [
        *[""] * 4,
        *("k0", "k1", "k2", "k3"),
    ]


@KINDS
def test_headers_there_and_back(either: Streams, kind: str) -> None:
    output = either.topic()
    headers = """
        array(struct('a' as key, value as value), struct('b' as key, cast(null as binary) as value),
              struct('a' as key, cast('' as binary) as value)) as headers
    """
    # On a sink the option means nothing: the column does.
    write(either, kind, ["value", headers], output, {"includeHeaders": "true"})
    found = either.batch(output, {"includeHeaders": "true"}).collect()
    assert len(found) == 4
    for row in found:
        assert [(h.key, h.value) for h in row.headers] == [
            ("a", row.value),
            ("b", None),
            ("a", bytearray(b"")),
        ]


@KINDS
def test_the_partition_column_counts_before_a_partitioner_and_that_before_the_keys(
    either: Streams, kind: str
) -> None:
    turns = "org.apache.kafka.clients.producer.RoundRobinPartitioner"
    in_turn: Options = {"kafka.partitioner.class": turns, "kafka.linger.ms": 0}
    same_key = "'k' as key"
    by_key, by_turn, by_column = either.topic(), either.topic(), either.topic()
    write(either, kind, [same_key, "value"], by_key, records=20)
    assert sorted(by_partition(either, by_key)) == [0, 20]
    write(either, kind, [same_key, "value"], by_turn, in_turn, records=20)
    assert min(by_partition(either, by_turn)) > 0
    column = "if(value = cast('3' as binary), 0, 1) as partition"
    write(either, kind, [same_key, "value", column], by_column, in_turn, records=20)
    assert by_partition(either, by_column) == [1, 19]


@KINDS
def test_a_null_in_the_partition_column_leaves_it_to_the_key(either: Streams, kind: str) -> None:
    output = either.topic(partitions=3)
    # 0, 1 and 2 go where the column says, the others to partition 2, where their key does.
    column = "if(value < cast('3' as binary), cast(cast(value as string) as int), null) partition"
    write(either, kind, ["'k' as key", "value", column], output, records=9)
    assert by_partition(either, output, 3) == [1, 1, 7]


# ---- sizes


@KINDS
@pytest.mark.parametrize("batch", [{"kafka.batch.size": 10_000}, {}], ids=str)
def test_more_than_the_producers_buffer_holds(either: Streams, kind: str, batch: Options) -> None:
    output = either.topic()
    small: Options = {"kafka.buffer.memory": 40_000, **batch}
    value = "rpad(cast(value as string), 9000, ' ') as value"
    write(either, kind, [value], output, small, records=40)
    assert sorted(int(v.strip()) for v in either.values(output)) == [*range(40)]


@KINDS
def test_columns_of_other_names_are_left_out(either: Streams, kind: str) -> None:
    output = either.topic()
    expressions = ["value", "'other' as KEY", "'abc' as Partition", "1 as Topic", "2 as more"]
    write(either, kind, expressions, f" {output} ", records=3)
    assert either.numbers(output) == [0, 1, 2]
    assert {record.key for record in read_committed(either.servers, output)} == {None}


SETTINGS: dict[str, Options] = {
    "what transactions need anyway": {"kafka.acks": "all", "kafka.enable.idempotence": "true"},
    "a short time to deliver": {"kafka.delivery.timeout.ms": 30_000},
    "a name": {"kafka.client.id": "payments"},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_of_the_client(either: Streams, name: str) -> None:
    for kind in (STREAM, BATCH):
        output = either.topic()
        write(either, kind, ["value"], output, SETTINGS[name], records=3)
        assert either.numbers(output) == [0, 1, 2]


@KINDS
def test_a_record_that_is_too_large(either: Streams, kind: str) -> None:
    output = either.topic()
    value = "if(value = cast('3' as binary), repeat('x', 3000000), value) as value"
    error = refusal(either, kind, [value], output)
    if either.form == "kafka":
        assert "RecordTooLargeException" in error
    else:
        assert "[EOSKAFKA_RECORD_TOO_LARGE]" in error
        assert f"topic '{output}'" in error
        assert "The message is 3" in error
        assert "max.request.size" in error
        # Each task of a stream like this one has a transaction, a batch is all or nothing.
        assert either.values(output) in ([[], ["0", "2"]] if kind == STREAM else [[]])


# ---- settings


@KINDS
@pytest.mark.parametrize("side", ["key", "value"])
def test_a_serializer_is_refused(either: Streams, kind: str, side: str) -> None:
    given: Options = {f"kafka.{side}.serializer": "org.example.Any"}
    assert f"{side}.serializer" in refusal(either, kind, ["value"], either.topic(), given)


def test_no_servers_are_an_error(either: Streams) -> None:
    rows = either.spark.range(1).selectExpr("cast(id as string) value")
    with pytest.raises(Exception, match=r"bootstrap\.servers"):
        rows.write.format(either.form).option("topic", either.topic()).mode("append").save()


# ---- batches


@pytest.mark.parametrize("mode", ["append", "error"])
def test_save_modes_that_add(either: Streams, mode: str) -> None:
    output = either.topic()
    rows = either.spark.range(5).selectExpr("cast(id as string) value")
    either.save(rows, output, mode=mode)
    either.save(rows, output, mode=mode)
    assert either.numbers(output) == sorted([*range(5)] * 2)


@pytest.mark.parametrize("mode", ["overwrite", "ignore"])
def test_save_modes_that_a_topic_does_not_have(either: Streams, mode: str) -> None:
    output = either.topic()
    rows = either.spark.range(5).selectExpr("cast(id as string) value")
    with pytest.raises(Exception, match=mode[0].upper() + mode[1:]):
        either.save(rows, output, mode=mode)
    assert either.values(output) == []


# ---- plans


def grouped(rows: DataFrame) -> DataFrame:
    """How often each value has come."""
    counts = rows.groupBy("value").count()
    return counts.selectExpr("concat(cast(value as string), '=', count) value")


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_aggregations(either: Streams, mode: str) -> None:
    topic, output, checkpoint = either.topic(records=3), either.topic(), either.checkpoint()
    for _ in range(2):
        rows = grouped(kv(either.source(topic)))
        either.run(either.sink(rows, output, checkpoint, mode=mode))
        either.send(topic, 1)
    rows = grouped(kv(either.source(topic)))
    either.run(either.sink(rows, output, checkpoint, mode=mode))
    changed = {"update": ["1=2", "1=3"], "complete": ["0=1", "1=2", "2=1", "0=1", "1=3", "2=1"]}
    assert either.values(output) == sorted(["0=1", "1=1", "2=1", *changed[mode]])
