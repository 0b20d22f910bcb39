"""`Shop`: topics of orders in the wire format, and the registry that has their schemas."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import NamedTuple

from eoskafka.audit import read_committed
from eoskafka.schemas import Registry
from harness.registry import RegistryServer
from harness.schemas import framed, unframed
from kafka import KafkaProducer
from pyspark.sql import DataFrame
from streams import Streams

V1 = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
# Another order of fields, one more, and one less: with V1 it would be read as something else.
V2 = {
    **V1,
    "fields": [
        {"name": "price", "type": "double", "default": 1.5},
        {"name": "id", "type": "long"},
    ],
}
V3 = {**V1, "fields": [*V2["fields"], {"name": "by", "type": "string", "default": "-"}]}
TOTAL = {
    "type": "record",
    "name": "Total",
    "fields": [{"name": "id", "type": "long"}, {"name": "total", "type": "double"}],
}


class Shop(NamedTuple):
    """A registry, and the streams that use it."""

    streams: Streams
    server: RegistryServer
    registry: Registry

    def values(self, *values: bytes | None) -> DataFrame:
        """A column `value` with these."""
        rows = [(None if v is None else bytearray(v),) for v in values]
        return self.streams.spark.createDataFrame(rows, "value binary")

    def send(self, topic: str, values: Sequence[bytes | None]) -> None:
        """To the partitions of the topic in turn."""
        with closing(KafkaProducer(bootstrap_servers=self.streams.servers)) as producer:
            for place, value in enumerate(values):
                producer.send(topic, key=b"k", value=value, partition=place % 2)

    def read(self, topic: str) -> list[bytes | None]:
        """The values of all committed records."""
        return [record.value for record in read_committed(self.streams.servers, topic)]

    def totals(self, topic: str, ident: int) -> dict[int, float]:
        """What the topic says; each id is there once."""
        found = [unframed(ident, TOTAL, value) for value in self.read(topic)]
        assert len({each["id"] for each in found}) == len(found)
        return {each["id"]: each["total"] for each in found}


def of_v1(*numbers: int) -> list[bytes]:
    """Orders with these ids."""
    return [framed(300, V1, {"id": n, "note": "x"}) for n in numbers]


def of_v2(shop: Shop, *numbers: int) -> list[bytes]:
    """The same of V2, which the registry has from now on."""
    number = shop.server.add("orders", V2)
    return [framed(number, V2, {"id": n, "price": 9.0}) for n in numbers]
