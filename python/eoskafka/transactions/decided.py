"""Whether the query of a writer has decided on its transaction, as the decision topic says.

A broker that is cut off from the others may still claim to be the leader of the topic, and return
an end before the last decision. So the final answer comes from reading up to a record that the
command has written itself, as a driver does at its start (`io.eoskafka.decision.DecisionLog`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import OffsetSpec
from kafka.errors import (
    InvalidProducerEpochError,
    KafkaError,
    LogTruncationError,
    OffsetOutOfRangeError,
    ProducerFencedError,
)

from eoskafka.brokers.connection import Connection
from eoskafka.brokers.topics import log_offsets
from eoskafka.decisions import Decision, Entries
from eoskafka.errors import TransactionError
from eoskafka.transactions.model import Transaction

_READ_S = 60.0
_POLL_MS = 500
_RETRY_S = 0.1
# To find the leader soon if a former one has answered.
_METADATA_MAX_AGE_MS = 5_000
# The record is given up before its transaction times out. Until then a command that was killed
# hides the decisions of other queries, whose starts wait for 60 s.
_REQUEST_MS = 10_000
_DELIVERY_MS = 20_000
_TRANSACTION_MS = 30_000


def named_ends(cluster: Connection, topic: str, writer: Transaction) -> dict[TopicPartition, int]:
    """Where the partitions with decisions end, as the brokers say that answer first.

    Raises:
        TransactionError: the topic cannot be read.
    """
    with cluster.consumer() as consumer:
        count = len(consumer.partitions_for_topic(topic) or ())
    # Decisions are in the even partitions. The odd ones have presence records, which open writers
    # hide.
    partitions = [TopicPartition(topic, number) for number in range(0, count, 2)]
    if not partitions:
        raise TransactionError(
            f"the topic {topic} cannot be read, so it is not known whether '{writer.id}' "
            "is decided. Nothing was aborted. Check that this is the query's decisionTopic"
        )
    with cluster.admin() as admin:
        return log_offsets(admin, partitions, OffsetSpec.LATEST)


def fence(
    cluster: Connection, topic: str, writer: Transaction, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """Fence the query of a writer, and commit a record to each of these partitions.

    The records have no value, so they are no entries, and compaction removes them. The commit
    succeeds only if no driver has started since the id was initialised. So all that the query has
    decided comes before the records.

    Returns:
        the offsets of the records.

    Raises:
        TransactionError: a driver of the query has started meanwhile.
        AuthorizationError: this user may not write the id or the topic.
        UnreachableError: the brokers did not say whether the records were committed.
    """
    decision_id = re.sub(r"-w[0-9.]+$", "-decisions", writer.id)
    look = f"look with `eoskafka txn describe {decision_id}`"
    with cluster.changing(f"'{decision_id}'", look, "Write", decision_id):
        settings = {
            **cluster.settings,
            "request_timeout_ms": _REQUEST_MS,
            "delivery_timeout_ms": _DELIVERY_MS,
            "transaction_timeout_ms": _TRANSACTION_MS,
        }
        producer = KafkaProducer(
            bootstrap_servers=cluster.servers.split(","),
            transactional_id=decision_id,
            **settings,
        )
        try:
            producer.init_transactions()
            with cluster.changing(f"the topic {topic}", look, "Write", topic), _fenced(writer):
                return _commit_records(producer, f"fence:{writer.owner}", partitions)
        finally:
            # It aborts nothing: what an interrupt has left open ends with its timeout.
            producer.close(timeout=10)


@contextmanager
def _fenced(writer: Transaction) -> Iterator[None]:
    try:
        yield
    except (ProducerFencedError, InvalidProducerEpochError) as error:
        raise TransactionError(
            f"'{writer.id}' was not aborted: its query was started meanwhile, which settles its "
            "transactions, or the brokers of the decision topic are slow. If the query does not "
            "run, repeat the command"
        ) from error


def _commit_records(
    producer: KafkaProducer, key: str, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """Commit a record without a value to each of these partitions; their offsets."""
    producer.begin_transaction()
    try:
        sent = {
            each: producer.send(each.topic, key=key.encode(), partition=each.partition)
            for each in partitions
        }
        producer.flush()
        offsets = {each: int(future.get().offset) for each, future in sent.items()}
        unknown = [each for each, offset in offsets.items() if offset < 0]
        if unknown:
            raise KafkaError(f"the broker has not reported the offset of a record in {unknown[0]}")
    except Exception:
        with suppress(KafkaError):
            producer.abort_transaction()
        raise
    producer.commit_transaction()
    return offsets


def is_decided(
    cluster: Connection, topic: str, writer: Transaction, ends: Mapping[TopicPartition, int]
) -> bool:
    """Whether the query's last decision before these ends names a writer's transaction.

    Raises:
        TransactionError: the topic has nothing of the query, or it cannot be read up to there.
    """
    settings = {"auto_offset_reset": "none", "metadata_max_age_ms": _METADATA_MAX_AGE_MS}
    with cluster.consumer(**settings) as consumer:
        count = len(consumer.partitions_for_topic(topic) or ())
        entries = _read(consumer, topic, writer, ends)
    runs = {partition: each.run() for partition, each in entries.items()}
    if not any(runs.values()):
        raise TransactionError(
            f"'{writer.id}' was not aborted: the topic {topic} has no entry of its query, so it is "
            "not known whether it is decided. Name the query's decisionTopic with --decision-topic"
        )
    for partition, run in runs.items():
        prefix = run.decision_id.removesuffix(f"-{writer.owner}-decisions") if run else ""
        decision = entries[partition].last(prefix, count)
        if decision is not None and takes_effect(decision, writer):
            return True
    return False


def takes_effect(decision: Decision, writer: Transaction) -> bool:
    """Whether a query's last decision may be on the open transaction of a writer.

    A coordinator that was deposed describes an earlier transaction of the same id. So the producer
    need not be the one that the decision names. Only if the same producer has a later epoch now,
    the decision is on an earlier transaction, which has ended before the epoch was raised.
    """
    return any(
        name == writer.id and not (number == writer.producer_id and epoch < writer.producer_epoch)
        for name, number, epoch in decision.transactions
    )


def _read(
    consumer: KafkaConsumer, topic: str, writer: Transaction, ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Entries]:
    """The query's entries before these ends."""
    entries = {partition: Entries(topic, writer.owner) for partition in ends}
    consumer.assign(list(ends))
    consumer.seek_to_beginning(*ends)
    deadline = time.monotonic() + _READ_S
    while any(consumer.position(partition) < end for partition, end in ends.items()):
        if time.monotonic() > deadline:
            raise TransactionError(
                f"a transaction is open over decisions in {topic}, or the broker that answers is "
                f"cut off from the others, so it is not yet known whether '{writer.id}' is "
                "decided. Nothing was aborted; repeat this in a minute"
            )
        try:
            polled = consumer.poll(timeout_ms=_POLL_MS)
        except (OffsetOutOfRangeError, LogTruncationError):
            # A former leader's log ends before: the one that was elected has the records.
            time.sleep(_RETRY_S)
            continue
        for partition, records in polled.items():
            for record in records:
                if record.offset < ends[partition]:
                    entries[partition].take(record.key, record.value)
    return entries
