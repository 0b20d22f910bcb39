"""What coordinators say of transactions that have not ended."""

from __future__ import annotations

import uuid
from collections.abc import Collection

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import (
    BrokerNotAvailableError,
    KafkaError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
    TransactionalIdNotFoundError,
    UnknownTopicOrPartitionError,
    for_code,
)

from eoskafka.brokers.agreement import WAY_OUT, former_leader
from eoskafka.brokers.connection import OFFSETS_TOPIC, Connection
from eoskafka.brokers.groups import partition_of
from eoskafka.brokers.topics import described_topics

OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort")
_TRANSACTIONS_TOPIC = "__transaction_state"


def open_ids(admin: KafkaAdminClient) -> list[str]:
    """The transactional ids of all transactions that have not ended.

    Raises:
        BrokerNotAvailableError: a coordinator did not list its own, so that some may be missing.
    """
    listed = admin.list_transactions(state_filters=list(OPEN))
    silent = silent_coordinators(admin, listed)
    if silent:
        raise BrokerNotAvailableError(
            f"the transactions that broker {sorted(silent)[0]} coordinates are not listed (broker "
            "-1: their coordinator is not available)"
        )
    return sorted({each.transactional_id for some in listed.values() for each in some})


def silent_coordinators(admin: KafkaAdminClient, listed: Collection[int]) -> set[int]:
    """Coordinators of transactions that are not among these brokers; -1: one that is not there.

    Raises:
        TopicAuthorizationFailedError: this user may not see which brokers are coordinators.
    """
    (topic,) = described_topics(admin, [_TRANSACTIONS_TOPIC])
    return {each["leader_id"] for each in topic["partitions"]} - set(listed)


def lists_everything(cluster: Connection, admin: KafkaAdminClient, listed: Collection[int]) -> bool:
    """Whether these brokers have listed all transactions, as far as this user may know."""
    try:
        return (
            not silent_coordinators(admin, listed)
            and not _former_coordinator(cluster, admin)
            and sees_every_transaction(admin)
        )
    except TopicAuthorizationFailedError:
        return False


def _former_coordinator(cluster: Connection, admin: KafkaAdminClient) -> str:
    """Why the coordinators cannot be trusted; empty if all connected brokers name them.

    A broker that is cut off from the controllers still claims to be a coordinator, and does not
    list transactions that have begun since.
    """
    (topic,) = described_topics(admin, [_TRANSACTIONS_TOPIC])
    return former_leader(
        cluster,
        {
            TopicPartition(_TRANSACTIONS_TOPIC, each["partition_index"]): each["leader_epoch"]
            for each in topic["partitions"]
        },
    )


def sees_every_transaction(admin: KafkaAdminClient) -> bool:
    """Whether this user may describe any transactional id: brokers do not list the others."""
    (topic,) = admin.describe_topics([_TRANSACTIONS_TOPIC])
    if for_code(topic["error_code"]) is UnknownTopicOrPartitionError:
        # There has been no transaction, and a broker that is asked for one makes this topic.
        return True
    try:
        admin.describe_transactions([f"nobody-{uuid.uuid4()}"])
    except TransactionalIdAuthorizationFailedError:
        return False
    except TransactionalIdNotFoundError:
        pass
    return True


def open_transactions(cluster: Connection, admin: KafkaAdminClient, group: str) -> tuple[str, ...]:
    """Open transactions that hold offsets in the partition where the group's offsets are.

    Raises:
        BrokerNotAvailableError: some may be missing.
        TopicAuthorizationFailedError: this user may not describe Kafka's internal topics, which
            show the partition.
    """
    ids = open_ids(admin)
    if problem := _former_coordinator(cluster, admin):
        raise BrokerNotAvailableError(
            f"it is not known which transactions are open: {problem}. {WAY_OUT}"
        )
    (topic,) = described_topics(admin, [OFFSETS_TOPIC])
    if not topic["partitions"]:
        raise KafkaError(f"{OFFSETS_TOPIC} cannot be described")
    if not ids:
        return ()
    where = TopicPartition(OFFSETS_TOPIC, partition_of(group, len(topic["partitions"])))
    described = admin.describe_transactions(ids)
    return tuple(
        sorted(name for name, found in described.items() if where in found.topic_partitions)
    )
