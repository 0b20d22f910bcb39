"""What a broker says of the cluster, of its topics and of their logs."""

from __future__ import annotations

import base64
import json
import uuid
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient, OffsetSpec
from kafka.errors import TopicAuthorizationFailedError, for_code
from kafka.structs import OffsetAndTimestamp


def nodes(admin: KafkaAdminClient) -> list[dict[str, Any]]:
    """The brokers that are there, each with at least `broker_id`, `host` and `port`."""
    try:
        found: list[dict[str, Any]] = admin.describe_cluster()["brokers"]
    except KeyError:
        # kafka-python 3.0 expects a field of Kafka 3.7 in the answer.
        metadata = admin._manager.run(admin._get_cluster_metadata, [])
        found = [{**each, "broker_id": each["node_id"]} for each in metadata["brokers"]]
    return found


def described_topics(admin: KafkaAdminClient, topics: Collection[str]) -> list[dict[str, Any]]:
    """The descriptions of these topics; if none is given, of all that this user may see.

    Raises:
        TopicAuthorizationFailedError: this user may not describe one of these.
    """
    return permitted(admin.describe_topics(sorted(topics) or None))


def permitted(topics: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """These descriptions of topics.

    Raises:
        TopicAuthorizationFailedError: this user may not describe one.
    """
    for topic in topics:
        if for_code(topic["error_code"]) is TopicAuthorizationFailedError:
            raise TopicAuthorizationFailedError(topic["name"])
    return topics


def topic_ids(admin: KafkaAdminClient, topics: Collection[str]) -> dict[TopicPartition, str]:
    """All partitions of those of these topics that are there, with their topics' ids.

    Raises:
        TopicAuthorizationFailedError: this user may not describe one.
    """
    return ids_of(described_topics(admin, topics) if topics else [])


def ids_of(described: list[dict[str, Any]]) -> dict[TopicPartition, str]:
    """All partitions of described topics, with their topics' ids."""
    return {
        # In Kafka's own form, as stamps have them.
        TopicPartition(topic["name"], each["partition_index"]): base64.urlsafe_b64encode(
            uuid.UUID(str(topic["topic_id"])).bytes
        )
        .decode()
        .rstrip("=")
        for topic in described
        for each in topic["partitions"]
    }


def log_offsets(
    admin: KafkaAdminClient,
    partitions: Collection[TopicPartition],
    spec: OffsetSpec,
    isolation: str = "read_uncommitted",
) -> dict[TopicPartition, int]:
    """Where the logs of these partitions begin or end."""
    found = _listed(admin, partitions, spec, isolation)
    return {partition: each.offset for partition, each in found.items()}


def log_ends(
    admin: KafkaAdminClient, partitions: Collection[TopicPartition], isolation: str
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """The log ends of these partitions, and the leader epochs of the brokers that returned them.

    Other vendors' brokers may return no leader epoch; the partition is then left out.
    """
    found = _listed(admin, partitions, OffsetSpec.LATEST, isolation)
    return (
        {p: each.offset for p, each in found.items()},
        {p: each.leader_epoch for p, each in found.items() if each.leader_epoch is not None},
    )


def _listed(
    admin: KafkaAdminClient,
    partitions: Collection[TopicPartition],
    spec: OffsetSpec,
    isolation: str,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    wanted = dict.fromkeys(partitions, spec)
    return admin.list_partition_offsets(wanted, isolation_level=isolation) if wanted else {}


def offset_json(offsets: Mapping[TopicPartition, int]) -> str:
    """Offsets in the form of the option `startingOffsets`; an empty text where there are none."""
    by_topic: dict[str, dict[str, int]] = defaultdict(dict)
    for partition in sorted(offsets):
        by_topic[partition.topic][str(partition.partition)] = offsets[partition]
    return json.dumps(by_topic, separators=(",", ":")) if by_topic else ""


def names_of(partitions: Sequence[TopicPartition]) -> str:
    """The first ten of these partitions, for a message."""
    shown = ", ".join(f"{each.topic}-{each.partition}" for each in partitions[:10])
    return shown + (" ..." if len(partitions) > 10 else "")
