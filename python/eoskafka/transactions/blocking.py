"""Partitions whose `read_committed` readers wait for a transaction, and for which one."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient, OffsetSpec
from kafka.errors import (
    LeaderNotAvailableError,
    NotLeaderForPartitionError,
    OffsetNotAvailableError,
    TopicAuthorizationFailedError,
)

from eoskafka.brokers.connection import COORDINATOR_COMES, Connection, lacks, until_elected
from eoskafka.brokers.topics import described_topics, log_offsets
from eoskafka.brokers.transactions import OPEN, lists_everything
from eoskafka.errors import AuthorizationError, TransactionError
from eoskafka.transactions.listing import described
from eoskafka.transactions.model import Blocked, Transaction

_LOOKS = 2
_LOOK_AGAIN_S = 1.0
_LEADER_COMES = (LeaderNotAvailableError, NotLeaderForPartitionError, OffsetNotAvailableError)


def describe(
    bootstrap_servers: str,
    transactional_id: str,
    prefix: str = "eoskafka",
    client: Mapping[str, Any] | None = None,
) -> tuple[Transaction, tuple[Blocked, ...]]:
    """A transaction, and the partitions whose readers wait for it.

    Raises:
        TransactionError: no coordinator knows this id.
        UnreachableError: the cluster does not answer, or not to this user.
    """
    cluster = Connection(bootstrap_servers, client or {})
    with cluster.looking_at(f"'{transactional_id}'"), cluster.admin() as admin:
        found = described(admin, transactional_id, prefix)
        if found is None:
            raise TransactionError(
                f"no broker of {bootstrap_servers} knows the transactional id "
                f"'{transactional_id}': it was never used there, or it has expired"
            )
        if not found.is_open:
            return found, ()
        over = {TopicPartition(topic, number) for topic, number in found.partitions}
        return found, tuple(
            each
            for each in _blocked_among(cluster, over)
            if each.transactional_id == transactional_id
        )


def blocked(
    bootstrap_servers: str,
    topics: Collection[str] = (),
    client: Mapping[str, Any] | None = None,
) -> tuple[Blocked, ...]:
    """Partitions whose `read_committed` readers wait, and for which transaction.

    Args:
        bootstrap_servers: `host:port,...`.
        topics: the topics to look at; none for all.
        client: further settings of kafka-python's clients.

    Raises:
        UnreachableError: the cluster does not answer, or not to this user.
    """
    cluster = Connection(bootstrap_servers, client or {})
    with cluster.looking_at("partitions", topics="Read"), cluster.admin() as admin:
        described = described_topics(admin, topics)
        return _blocked_among(
            cluster,
            {
                TopicPartition(topic["name"], each["partition_index"])
                for topic in described
                for each in topic["partitions"]
            },
        )


def _blocked_among(
    cluster: Connection, partitions: Collection[TopicPartition]
) -> tuple[Blocked, ...]:
    """Look twice at what seems to hang: a transaction may end between two requests."""
    found = {(each.topic, each.partition): each for each in _look(cluster, partitions)}
    suspects = {place: each for place, each in found.items() if not each.transactional_id}
    for _ in range(_LOOKS):
        if not suspects:
            break
        time.sleep(_LOOK_AGAIN_S)
        again = _look(cluster, [TopicPartition(*place) for place in suspects])
        now = {(each.topic, each.partition): each for each in again}
        for place, before in list(suspects.items()):
            each = now.get(place)
            if each is None or (each.producer_id, each.stable) != (
                before.producer_id,
                before.stable,
            ):
                # The first one has ended; another one may have begun.
                del suspects[place], found[place]
                if each is not None and each.transactional_id:
                    found[place] = each
            elif each.transactional_id:
                found[place] = each
                del suspects[place]
            elif each.is_unknown:
                found[place] = each
    return tuple(found[place] for place in sorted(found))


def _producers(admin: KafkaAdminClient, partitions: Collection[TopicPartition]) -> Any:
    try:
        return admin.describe_producers(partitions)
    except TopicAuthorizationFailedError as error:
        topics = ", ".join(sorted({partition.topic for partition in partitions}))
        raise AuthorizationError(
            f"{lacks('Read', error, topics)}, so it is not known for which transactions its "
            "readers wait. The command has changed nothing. Grant Read on each topic that the "
            "command looks at, and repeat it"
        ) from error


def _look(cluster: Connection, partitions: Collection[TopicPartition]) -> tuple[Blocked, ...]:
    """Look, and repeat it while a newly elected broker cannot answer yet."""

    def look() -> tuple[Blocked, ...]:
        # With a new client: one that has asked a former coordinator keeps to it.
        with cluster.admin() as admin:
            return _look_once(cluster, admin, partitions)

    return until_elected(look, (*COORDINATOR_COMES, *_LEADER_COMES))


def _look_once(
    cluster: Connection, admin: KafkaAdminClient, partitions: Collection[TopicPartition]
) -> tuple[Blocked, ...]:
    stable = log_offsets(admin, partitions, OffsetSpec.LATEST, "read_committed")
    ends = log_offsets(admin, partitions, OffsetSpec.LATEST)
    hidden = sorted(p for p in partitions if stable[p] < ends[p])
    states = _producers(admin, hidden) if hidden else {}
    first = {}
    for partition in hidden:
        begun = [
            each
            for each in states[partition].active_producers
            if 0 <= each.current_transaction_start_offset <= stable[partition]
        ]
        if begun:
            first[partition] = min(begun, key=lambda each: each.current_transaction_start_offset)
    ids = sorted({each.producer_id for each in first.values()})
    listed = admin.list_transactions(producer_id_filters=ids) if ids else {}
    names: dict[int, list[str]] = defaultdict(list)
    # The producers for which a broker lists an open transaction, although the coordinator may not:
    # a deposed coordinator answers from its memory.
    may_be_open = set()
    for some in listed.values():
        for each in some:
            names[each.producer_id].append(each.transactional_id)
            if each.state.value in OPEN:
                may_be_open.add(each.producer_id)
    holders = {
        partition: [
            each
            for name in names[producer.producer_id]
            if (each := described(admin, name, ""))
            and each.is_open
            and (partition.topic, partition.partition) in each.partitions
        ]
        for partition, producer in first.items()
    }
    # Brokers list neither what another one coordinates nor ids that this user may not describe.
    is_complete = all(holders.values()) or lists_everything(cluster, admin, listed)
    found = []
    for partition, producer in first.items():
        known = holders[partition]
        nobody_holds = is_complete and producer.producer_id not in may_be_open
        found.append(
            Blocked(
                topic=partition.topic,
                partition=partition.partition,
                stable=stable[partition],
                end=ends[partition],
                transactional_id=known[0].id if known else "",
                is_hanging=not known and nobody_holds,
                producer_id=producer.producer_id,
                is_unknown=not known and not nobody_holds,
            )
        )
    return tuple(found)
