"""What docs/schemas-python.md shows runs, with values that Confluent's serializers have written."""

from __future__ import annotations

import re
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
from harness.registry import RegistryServer
from kafka import KafkaProducer
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


def message(file: str, name: str, *more: str) -> descriptor_pb2.FileDescriptorProto:
    """A file with one message: an id and numbers."""
    made = descriptor_pb2.FileDescriptorProto(name=file, package="shop", syntax="proto3")
    kind = made.message_type.add(name=name)
    for number, field in enumerate(("id", *more), 1):
        kind.field.add(name=field, number=number, type=DOUBLE if field in more else LONG, label=1)
    return made


def class_of(file: descriptor_pb2.FileDescriptorProto) -> Any:
    """Its message's class, in a pool of its own."""
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    name = f"shop.{file.message_type[0].name}"
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


ORDER = message("orders.proto", "Order", "price")
# Of the next version: one field more.
ORDER_2 = message("orders.proto", "Order", "price", "tax")
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
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
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
    newer = protobuf(registry, "orders-value", ORDER_2, id=3, price=20.0, tax=1.0)
    foreign = protobuf(registry, "others-value", TOTAL, id=4, total=1.0)
    second = good[0][:5] + b"\2\2" + good[0][6:]
    wrong = [b"", b"\0\0", foreign, second, good[0][:-3]]
    protobuf(registry, "totals-value", TOTAL)
    send(streams, topic, *good, newer, None, *wrong)
    code = blocks[0].replace('"subscribe", "orders"', f'"subscribe", "{topic}"')
    code = code.replace('topic="totals"', f'topic="{output}"').replace("orders-dead", dead)
    exec(compile(code, str(PAGE), "exec"), names)
    query = names["query"]
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert values(streams, dead) == wrong
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
    protobuf(registry, "orders-value", ORDER)
    protobuf(registry, "totals-value", TOTAL)
    context = SerializationContext("refunds", MessageField.VALUE)
    write = JSONSerializer(REFUND, client(registry))
    good = write({"id": 1, "amount": 2.5, "note": "more"}, context)
    assert good is not None
    texts = [b'{"id": "1", "amount": 2.5}', b'{"id": 1, "amount": -2}', b'{"id": 1}', b"no JSON"]
    wrong = [b"", b"\0\0\0\0\1" + good[5:], *(good[:5] + text for text in texts)]
    # The first program's query is not started here.
    exec(compile(blocks[0].partition("orders = (")[0], str(PAGE), "exec"), names)
    exec(compile(blocks[1], str(PAGE), "exec"), names)
    rows = [(number, each) for number, each in enumerate([good, None, *wrong])]
    frame = streams.spark.createDataFrame(rows, "number int, value binary")
    read = frame.select("number", names["refund"]("value").alias("r")).orderBy("number").collect()
    assert read[0].r.value.asDict() == {"id": 1, "amount": 2.5}
    assert read[0].r.error is None
    assert (read[1].r.value, read[1].r.error) == (None, None)
    assert all(row.r.value is None and row.r.error for row in read[2:])
