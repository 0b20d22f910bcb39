"""`Movable`: a query whose offsets `eoskafka offsets` shows, moves and adopts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from eoskafka import offsets
from eoskafka.errors import ConfigurationError, OffsetsError
from eoskafka.offsets import Move
from harness import until_ended
from kafka import KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata
from pyspark.sql.streaming import DataStreamWriter
from streams import Streams, kv


class Movable:
    """One query from a topic with two partitions to another."""

    def __init__(self, streams: Streams, records: int = 0) -> None:
        self.streams = streams
        self.input = streams.topic(records=records)
        self.output = streams.topic()
        self.group = streams.group()
        self.checkpoint = streams.checkpoint()

    def writer(self, group: str | None = None, **options: str) -> DataStreamWriter:
        given = {"kafka.group.id": group or self.group} if self.streams.form == "eoskafka" else {}
        rows = kv(self.streams.source(self.input, given))
        return self.streams.sink(rows, self.output, self.checkpoint, options)

    def run(self, **options: str) -> None:
        self.streams.run(self.writer(**options))

    def written(self) -> list[int]:
        return self.streams.numbers(self.output)

    def moved(self, to: str, **how: Any) -> tuple[Move, ...]:
        return offsets.reset(self.streams.servers, self.group, to, **how)

    def refused(self, to: str) -> str:
        before = self.streams.committed(self.group, self.input)
        with pytest.raises((OffsetsError, ConfigurationError)) as error:
            self.moved(to)
        assert self.streams.committed(self.group, self.input) == before
        return str(error.value)

    def adopted(self, **how: Any) -> offsets.Adoption:
        return offsets.adopt(self.streams.servers, str(self.checkpoint), **how)

    @contextmanager
    def offsets_in_an_open_transaction(self, partition: int, offset: int) -> Iterator[str]:
        """As an executor leaves them whose driver has died."""
        name = f"left-{self.group}"
        with self.transaction(name, partition, OffsetAndMetadata(offset, "", -1)) as producer:
            yield name
            producer.abort_transaction()
        until_ended(self.streams.servers, name)

    @contextmanager
    def transaction(
        self, name: str, partition: int, offset: OffsetAndMetadata
    ) -> Iterator[KafkaProducer]:
        """A transaction with an offset of the group."""
        with closing(
            KafkaProducer(bootstrap_servers=self.streams.servers, transactional_id=name)
        ) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send_offsets_to_transaction(
                {TopicPartition(self.input, partition): offset}, self.group
            )
            yield producer
