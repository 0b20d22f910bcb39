"""The ACL lists in conf/ are enough for what they are for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from pyspark.sql import DataFrame
from streams import USER, Streams, kv

CONF = Path(__file__).parents[2] / "conf"
KINDS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
    "cluster": ResourceType.CLUSTER,
}


def rules(file: str, **names: str) -> list[ACL]:
    """What a list allows, with these in place of its variables."""
    found = []
    for line in (CONF / file).read_text(encoding="utf-8").splitlines():
        if not line.startswith("acl --"):
            continue
        operations = re.findall(r"--operation (\w+)", line)
        ((kind, variable),) = re.findall(
            r'--(topic|group|transactional-id|cluster)(?: "\$(\w+)")?', line
        )
        name = names[variable] if variable else "kafka-cluster"
        pattern = (
            ACLResourcePatternType.PREFIXED
            if "--resource-pattern-type prefixed" in line
            else ACLResourcePatternType.LITERAL
        )
        found += [
            ACL(
                *(USER, "*", ACLOperation[_upper(operation)], ACLPermissionType.ALLOW),
                ResourcePattern(KINDS[kind], name, pattern),
            )
            for operation in operations
        ]
    return found


def _upper(operation: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operation).upper()


def close_to_all(streams: Streams) -> None:
    """A rule for somebody else on everything: who has none of his own is refused then."""
    everything = [
        ResourcePattern(KINDS[kind], "*", ACLResourcePatternType.LITERAL)
        for kind in ("topic", "group", "transactional-id")
    ]
    streams.admin.create_acls(
        [
            ACL("User:somebody", "*", ACLOperation.ALL, ACLPermissionType.ALLOW, each)
            for each in everything
        ]
    )


def open_to_all(streams: Streams) -> None:
    streams.admin.delete_acls(
        [
            ACLFilter(
                *(None, None, ACLOperation.ANY, ACLPermissionType.ANY),
                ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY),
            )
        ]
    )


def assert_copied(
    streams: Streams, given: Sequence[ACL], rows: DataFrame, output: str, options: dict[str, str]
) -> None:
    """The query runs with these rights alone, and has copied twenty records."""
    try:
        streams.admin.create_acls(given)
        close_to_all(streams)
        streams.run(streams.sink(rows, output, streams.checkpoint(), options))
    finally:
        open_to_all(streams)
    assert streams.numbers(output) == list(range(20))


@pytest.mark.parametrize("scope", ["task", "epoch"])
def test_the_lists_are_enough_for_their_scope(guarded: Streams, scope: str) -> None:
    topic, output = guarded.topic(records=20), guarded.topic()
    prefix, decisions = guarded.group(), guarded.group()
    given = rules(
        "acls-task-scope.sh",
        INPUT=topic,
        OUTPUT=output,
        GROUP=prefix,
        TRANSACTIONAL_ID_PREFIX=prefix,
    )
    if scope == "epoch":
        given += rules("acls-epoch-scope.sh", DECISION_TOPIC=decisions)
        # With a rule on the cluster it is closed too, to the broker and to this test's own changes.
        cluster = given[-1].resource_pattern
        given += [
            ACL(USER, "*", operation, ACLPermissionType.ALLOW, cluster)
            for operation in (ACLOperation.CLUSTER_ACTION, ACLOperation.ALTER)
        ]
    rows = kv(guarded.source(topic, {"groupIdPrefix": prefix}))
    options = {
        "transactionScope": scope,
        "transactionalIdPrefix": prefix,
        "decisionTopic": decisions,
    }
    assert_copied(guarded, given, rows, output, options)


def test_rights_on_less_than_the_prefix_are_enough_for_what_they_cover(guarded: Streams) -> None:
    topic, output, prefix = guarded.topic(records=20), guarded.topic(), guarded.group()
    given = rules(
        "acls-task-scope.sh",
        INPUT=topic,
        OUTPUT=output,
        GROUP=prefix,
        # Of the names that this query's producers have, and not of every one with its prefix.
        TRANSACTIONAL_ID_PREFIX=f"{prefix}-{prefix}",
    )
    rows = kv(guarded.source(topic, {"groupIdPrefix": prefix}))
    options = {"transactionScope": "task", "transactionalIdPrefix": prefix}
    assert_copied(guarded, given, rows, output, options)
