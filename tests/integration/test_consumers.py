"""What docs/consumers.md says of clients' defaults."""

from __future__ import annotations

from contextlib import closing

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as Partition
from streams import Streams

COMMITTED, ABORTED, END = "committed", "aborted", "end"
ANSWER_S = 60


@pytest.fixture
def topic(streams: Streams) -> str:
    """A topic with a transaction that was aborted between two that were committed."""
    name = streams.topic(partitions=1)
    producer = Producer(
        {"bootstrap.servers": streams.servers, "transactional.id": f"consumers-{name}"}
    )
    producer.init_transactions()
    for value in (COMMITTED, ABORTED, END):
        producer.begin_transaction()
        producer.produce(name, value.encode())
        producer.flush()
        if value == ABORTED:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    return name


def test_kafka_python_reads_aborted_records_by_default(streams: Streams, topic: str) -> None:
    def read(**settings: str) -> list[str]:
        consumer = KafkaConsumer(
            bootstrap_servers=streams.servers, consumer_timeout_ms=ANSWER_S * 1000, **settings
        )
        with closing(consumer):
            consumer.assign([Partition(topic, 0)])
            consumer.seek_to_beginning()
            values: list[str] = []
            while END not in values:
                values.append(next(consumer).value.decode())
            return values

    assert read() == [COMMITTED, ABORTED, END]
    assert read(isolation_level="read_committed") == [COMMITTED, END]


def test_librdkafka_skips_aborted_records_by_default(streams: Streams, topic: str) -> None:
    consumer = Consumer({"bootstrap.servers": streams.servers, "group.id": f"consumers-{topic}"})
    with closing(consumer):
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        records = [consumer.poll(ANSWER_S) for _ in range(2)]
    assert [(record.value() or b"").decode() for record in records if record] == [COMMITTED, END]
