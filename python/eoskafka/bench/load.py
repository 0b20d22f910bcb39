"""Fills the input topic, with librdkafka: kafka-python would take minutes for it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from eoskafka.bench.errors import BenchError
from eoskafka.bench.values import FEWEST_BYTES, values

# Records in a row that go to one partition, unless told otherwise.
RUN_RECORDS = 1_000
_PORTION = 1_000
_FLUSH_S = 60.0
_SETTINGS = {
    "enable.idempotence": True,
    "delivery.report.only.error": True,
    "linger.ms": 20,
    "batch.size": 256 * 1024,
    "queue.buffering.max.messages": 1_000_000,
    "queue.buffering.max.kbytes": 256 * 1024,
}


def load(
    bootstrap_servers: str,
    topic: str,
    *,
    partitions: int,
    records: int,
    record_bytes: int,
    keyed: bool,
    run_records: int = RUN_RECORDS,
    first: int = 0,
) -> None:
    """Write records `first` to `records` - 1.

    Record `n` goes to partition `(n // run_records) % partitions`.

    Args:
        bootstrap_servers: `host:port,...`.
        topic: it must exist, with this number of `partitions`, and be empty.
        partitions: of the topic.
        records: how many.
        record_bytes: length of each value, in bytes.
        keyed: give each record its number as its key; otherwise it has none.
        run_records: in a row that go to one partition.
        first: the first record's number; a multiple of `run_records`.

    Raises:
        BenchError: a record was not written.
    """
    producer = Producer({"bootstrap.servers": bootstrap_servers, **_SETTINGS})
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(error)

    try:
        for start in range(first, records, _PORTION):
            numbers = np.arange(start, min(start + _PORTION, records), dtype=np.uint64)
            for n, row in enumerate(values(numbers, record_bytes), start):
                value = row.tobytes()
                key = value[:FEWEST_BYTES] if keyed else None
                partition = n // run_records % partitions
                produce(producer, topic, value, key, partition, delivered)
            producer.poll(0)
            if failures:
                break
        left = producer.flush(_FLUSH_S)
    except KafkaException as error:
        raise BenchError(f"the input was not written: {error}") from error
    if failures or left:
        reason = (
            failures[0]
            if failures
            else f"{left:,} records were not acknowledged within {_FLUSH_S:g} s"
        )
        raise BenchError(f"the input was not written: {reason}")


def produce(
    producer: Producer,
    topic: str,
    value: bytes,
    key: bytes | None,
    partition: int,
    delivered: Callable[[KafkaError | None, Message], None],
) -> None:
    """Hand a record to a producer, as soon as its queue has room."""
    while True:
        try:
            producer.produce(topic, value, key, partition, on_delivery=delivered)
            return
        except BufferError:
            # The queue is full: wait until something of it has gone.
            producer.poll(0.1)
