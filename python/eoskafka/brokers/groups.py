"""What a coordinator says of a consumer group: its offsets, and who is in it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import (
    GroupAuthorizationFailedError,
    NoError,
    UnknownTopicOrPartitionError,
    UnstableOffsetCommitError,
    for_code,
)
from kafka.structs import OffsetAndMetadata

from eoskafka.brokers.connection import COORDINATOR_COMES, Connection, until_elected


def committed(cluster: Connection, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
    """A group's offsets; partitions that have none are left out."""
    found = _ask(cluster, lambda admin: admin.list_group_offsets([group])[group])
    return {partition: each for partition, each in found.items() if each.offset >= 0}


def pending(
    cluster: Connection, group: str, partitions: Collection[TopicPartition]
) -> set[TopicPartition]:
    """The partitions, among these, that have a later offset in an open transaction.

    This needs no list of transactions, which could be incomplete: the user may lack the right to
    describe their ids, or a coordinator may be moving.
    """
    found: set[TopicPartition] = _ask(cluster, lambda admin: stable(admin, group, partitions)[1])
    return found


def stable(
    admin: KafkaAdminClient, group: str, partitions: Collection[TopicPartition]
) -> tuple[dict[TopicPartition, OffsetAndMetadata], set[TopicPartition]]:
    """A group's stable offsets of these partitions: those without one in an open transaction.

    Returns:
        the offsets, and the partitions with a later offset in an open transaction, for which the
        coordinator returns no offset.
    """
    return _offsets(admin, group, partitions, None)


def offsets_at(
    admin: KafkaAdminClient, broker: int, group: str, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, OffsetAndMetadata]:
    """A group's committed offsets on this broker, even while a transaction holds later ones.

    Raises:
        NotCoordinatorError: the broker is not, or no longer, the group's coordinator.
    """
    return _offsets(admin, group, partitions, broker)[0]


def _offsets(
    admin: KafkaAdminClient, group: str, partitions: Collection[TopicPartition], broker: int | None
) -> tuple[dict[TopicPartition, OffsetAndMetadata], set[TopicPartition]]:
    if not partitions:
        return {}, set()
    topics = admin._manager.run(_fetch, admin, group, list(partitions), broker)
    offsets, open_ = {}, set()
    for topic in topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            error = for_code(each.error_code)
            if error is UnstableOffsetCommitError:
                open_.add(partition)
            elif error not in (NoError, UnknownTopicOrPartitionError):
                raise error(f"of {partition.topic}-{partition.partition}")
            elif each.committed_offset >= 0:
                offsets[partition] = OffsetAndMetadata(
                    each.committed_offset, each.metadata, each.committed_leader_epoch
                )
    return offsets, open_


async def _fetch(
    admin: KafkaAdminClient, group: str, partitions: list[TopicPartition], broker: int | None
) -> Any:
    """This broker's answer with any offsets; if it is None, the coordinator's with stable ones."""
    # This client's own method asks the coordinator for any offsets.
    node = await admin._find_coordinator_id(group) if broker is None else broker
    ((_, request),) = admin._list_group_offsets_requests({group: partitions})
    request.require_stable = broker is None
    response = await admin._manager.send(request, node_id=node)
    found = response.groups[0] if response.API_VERSION >= 8 else response
    if (error := for_code(found.error_code)) is not NoError:
        raise error(f"of group '{group}'")
    return found.topics


def members(cluster: Connection, group: str) -> tuple[str, ...]:
    """Who is in a group now."""
    found = _ask(cluster, lambda admin: _described(admin, group))
    if found["error"] or found["group_state"] == "Dead":
        # The answer for a group of the consumer protocol, or for one that the broker does not have.
        with cluster.admin() as admin:
            listed = {g["group_id"]: g for g in admin.list_groups()}
        state = listed.get(group, {}).get("group_state", "")
        return (
            (f"members of a {state} group that this client cannot list",)
            if state in ("Stable", "Assigning", "Reconciling")
            else ()
        )
    return tuple(
        sorted(
            f"{member['member_id']} (client {member['client_id']} at {member['client_host']})"
            for member in found["members"]
        )
    )


def _described(admin: KafkaAdminClient, group: str) -> Any:
    """Describe a group; raise errors that are not about it, which this client returns as text."""
    found = admin.describe_groups([group])[group]
    for error in (*COORDINATOR_COMES, GroupAuthorizationFailedError):
        if error.__name__ in (found["error"] or ""):
            raise error
    return found


def _ask(cluster: Connection, question: Callable[[KafkaAdminClient], Any]) -> Any:
    """A coordinator's answer, waited for where there is none yet."""

    def ask() -> Any:
        # A new client each time: one keeps the coordinator that it has found.
        with cluster.admin() as admin:
            return question(admin)

    return until_elected(ask)


def partition_of(name: str, count: int) -> int:
    """The partition in which brokers keep the state of a group or of a transactional id.

    Args:
        count: the number of partitions of the offsets topic, or of the transaction log.

    Returns:
        the partition, from the absolute value of Java's `String.hashCode` of the name.
    """
    value = 0
    units = name.encode("utf-16-be")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    signed = value - 2**32 if value >= 2**31 else value
    return (0 if signed == -(2**31) else abs(signed)) % count
