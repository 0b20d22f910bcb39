"""What docs/schemas-python.md shows runs, with values that Confluent's serializers have written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from eoskafka.audit import read_committed
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from harness.pages import python_blocks
from harness.registry import RegistryServer
from kafka import KafkaProducer
from pyspark.errors import PythonException, StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery
from streams import Streams

PAGE = Path(__file__).parents[2] / "docs" / "schemas-python.md"
DOUBLE, LONG = 1, 3  # as descriptor.proto numbers the types
REFUND = """
{"type": "object", "required": ["id", "amount"], "additionalProperties": true,
 "properties": {"id": {"type": "integer"}, "amount": {"type": "number", "minimum": 0}}}
"""
# What protoc makes of a .proto file, without protoc.
MODULE = """
from google.protobuf import descriptor_pool, message_factory

pool = descriptor_pool.Default()
pool.AddSerializedFile({file!r})
{name} = message_factory.GetMessageClass(pool.FindMessageTypeByName({full_name!r}))
"""


def message(
    file: str, name: str, *more: str, before: str | None = None
) -> descriptor_pb2.FileDescriptorProto:
    """A file with one message of an id and numbers, or with another one before it."""
    made = descriptor_pb2.FileDescriptorProto(name=file, package="shop", syntax="proto3")
    for each in filter(None, (before, name)):
        kind = made.message_type.add(name=each)
        for number, field in enumerate(("id", *more), 1):
            of = DOUBLE if field in more else LONG
            kind.field.add(name=field, number=number, type=of, label=1)
    return made


def class_of(file: descriptor_pb2.FileDescriptorProto) -> Any:
    """Its last message's class, in a pool of its own."""
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    name = f"shop.{file.message_type[-1].name}"
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


ORDER = message("orders.proto", "Order", "price")
# The next version: one field more, and the message has moved.
ORDER_2 = message("orders.proto", "Order", "price", "tax", before="Header")
TOTAL = message("totals.proto", "Total", "total")


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with RegistryServer(user="user:password", first_id=300).running() as server:
        yield server


@pytest.fixture
def page(
    streams: Streams, registry: RegistryServer, tmp_path: Path
) -> tuple[list[str], dict[str, Any]]:
    """The page's programs for this machine, and the names that they have in common."""
    for file in ORDER, TOTAL:
        name = file.message_type[0].name
        module = tmp_path / f"{Path(file.name).stem}_pb2.py"
        module.write_text(
            MODULE.format(file=file.SerializeToString(), name=name, full_name=f"shop.{name}")
        )
        streams.spark.sparkContext.addPyFile(str(module))
    blocks = python_blocks(PAGE)
    there = {"broker:9092": streams.servers, "https://registry:8081": registry.url}
    there["/checkpoints"] = str(tmp_path)
    for old, new in there.items():
        blocks = [block.replace(old, new) for block in blocks]
    return blocks, {}


def client(registry: RegistryServer) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.url, "basic.auth.user.info": "user:password"})


def protobuf(
    registry: RegistryServer, subject: str, file: descriptor_pb2.FileDescriptorProto, **values: Any
) -> bytes:
    """A value as Confluent's serializer writes it, which registers its schema."""
    kind = class_of(file)
    serializer = ProtobufSerializer(kind, client(registry), {"use.deprecated.format": False})
    context = SerializationContext(subject.removesuffix("-value"), MessageField.VALUE)
    return bytes(serializer(kind(**values), context) or b"")


def send(streams: Streams, topic: str, *values: bytes | None) -> None:
    with closing(KafkaProducer(bootstrap_servers=streams.servers)) as producer:
        for value in values:
            producer.send(topic, key=b"k", value=value, partition=0)


def values(streams: Streams, topic: str) -> list[bytes | None]:
    return [record.value for record in read_committed(streams.servers, topic)]


def test_protobuf_comes_in_and_goes_out(
    streams: Streams, registry: RegistryServer, page: tuple[list[str], dict[str, Any]]
) -> None:
    blocks, names = page
    topic, output, dead = (streams.topic() for _ in range(3))
    good = [protobuf(registry, "orders-value", ORDER, id=n, price=10.0) for n in range(3)]
    second = good[0][:5] + b"\2\2" + good[0][6:]
    wrong = [b"", b"\0\0", b"\1" + good[0][1:], second, good[0][:-3]]
    protobuf(registry, "totals-value", TOTAL)
    send(streams, topic, *good, None, *wrong)
    code = blocks[0].replace('"subscribe", "orders"', f'"subscribe", "{topic}"')
    code = code.replace('topic="totals"', f'topic="{output}"').replace("orders-dead", dead)

    def run() -> StreamingQuery:
        exec(compile(code.replace("query.awaitTermination()", ""), str(PAGE), "exec"), names)
        query: StreamingQuery = names["query"]
        return query

    query = run()
    query.processAllAvailable()
    newer = protobuf(registry, "orders-value", ORDER_2, id=3, price=20.0, tax=1.0)
    header = newer[:5] + b"\0" + newer[7:]
    send(streams, topic, newer, header)
    with pytest.raises(StreamingQueryException, match="unknown schema id"):
        query.processAllAvailable()
    query = run()
    query.processAllAvailable()
    query.stop()
    assert values(streams, dead) == [*wrong, header]
    found = values(streams, output)
    read = ProtobufDeserializer(class_of(TOTAL), {"use.deprecated.format": False}, client(registry))
    totals = [read(value) for value in found if value is not None]
    assert {each.id: each.total for each in totals} == {0: 12.0, 1: 12.0, 2: 12.0, 3: 24.0}
    assert len(found) == 5
    assert found.count(None) == 1


def test_a_document_is_checked_against_its_json_schema(
    streams: Streams, registry: RegistryServer, page: tuple[list[str], dict[str, Any]]
) -> None:
    blocks, names = page
    context = SerializationContext("refunds", MessageField.VALUE)
    write = JSONSerializer(REFUND, client(registry))
    good = write({"id": 1, "amount": 2.5, "note": "more"}, context)
    assert good is not None
    texts = [
        b'{"id": "1", "amount": 2.5}',
        b'{"id": 1.0, "amount": 2.5}',
        b'{"id": 1, "amount": -2}',
        b'{"id": 1}',
        b'{"id": 1, "amount": NaN}',
        b'{"id": 1, "amount": 1e400}',
        b'{"id": 1, "amount": 9007199254740993}',
        b'{"id": 1, "amount": 1' + b"0" * 400 + b"}",
        b'{"id": 9223372036854775808, "amount": 1}',
        b"[" * 5_000,
        b"no JSON",
        "{}".encode("utf-16"),
    ]
    wrong = [b"", good[:4], *(good[:5] + text for text in texts)]
    # The first program's query is not started here, and neither is the second one's.
    exec(compile(blocks[0].partition("versions = ")[0], str(PAGE), "exec"), names)
    exec(compile(blocks[1], str(PAGE), "exec"), names)
    rows = [(number, each) for number, each in enumerate([good, None, *wrong])]
    frame = streams.spark.createDataFrame(rows, "number int, value binary")
    read = frame.select("number", names["refund"]("value").alias("r")).orderBy("number").collect()
    assert read[0].r.value.asDict() == {"id": 1, "amount": 2.5}
    assert read[0].r.error is None
    assert (read[1].r.value, read[1].r.error) == (None, None)
    assert all(row.r.value is None and row.r.error for row in read[2:])
    other = streams.spark.createDataFrame([(b"\0\0\0\0\1" + good[5:],)], "value binary")
    with pytest.raises(PythonException, match="unknown schema id 1"):
        other.select(names["refund"]("value").value).collect()
