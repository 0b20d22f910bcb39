"""The open transactions of a cluster, as their coordinators know them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from kafka.admin import KafkaAdminClient
from kafka.errors import TransactionalIdNotFoundError

from eoskafka.brokers.connection import Connection
from eoskafka.brokers.transactions import open_ids
from eoskafka.transactions.model import Kind, Transaction, kind_and_owner


def transactions(
    bootstrap_servers: str,
    prefix: str = "eoskafka",
    everything: bool = False,
    client: Mapping[str, Any] | None = None,
) -> tuple[Transaction, ...]:
    """The open transactions of a cluster, the oldest first.

    Args:
        bootstrap_servers: `host:port,...`.
        prefix: the queries' `transactionalIdPrefix`.
        everything: whether to list transactions of other applications, too.
        client: further settings of kafka-python's clients.

    Raises:
        UnreachableError: the cluster does not answer, or not to this user.
    """
    cluster = Connection(bootstrap_servers, client or {})
    with cluster.looking_at("transactions"), cluster.admin() as admin:
        found = [described(admin, name, prefix) for name in open_ids(admin)]
    ours = [
        each
        for each in found
        if each is not None and each.is_open and (everything or each.kind is not Kind.OTHER)
    ]
    return tuple(sorted(ours, key=lambda each: each.started_ms or 0))


def described(admin: KafkaAdminClient, name: str, prefix: str) -> Transaction | None:
    """A transaction as its coordinator knows it; None if no coordinator knows its id."""
    try:
        found = admin.describe_transactions([name])[name]
    except TransactionalIdNotFoundError:
        return None
    started = found.transaction_start_time_ms if found.transaction_start_time_ms > 0 else None
    kind, owner = kind_and_owner(name, prefix)
    return Transaction(
        id=name,
        kind=kind,
        owner=owner,
        state=found.state.value,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        timeout_ms=found.transaction_timeout_ms,
        started_ms=started,
        age_ms=max(0, int(time.time() * 1_000) - started) if started else None,
        partitions=tuple(sorted((p.topic, p.partition) for p in found.topic_partitions)),
    )
