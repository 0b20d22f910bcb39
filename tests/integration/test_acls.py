"""The ACL lists in conf/ are enough for what they are for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from eoskafka.cluster import LocalCluster
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
from pyspark.sql import SparkSession
from streams import Streams, kv

CONF = Path(__file__).parents[2] / "conf"
# The local cluster knows one user.
USER = "User:ANONYMOUS"
GUARDED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
KINDS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
    "cluster": ResourceType.CLUSTER,
}


@pytest.fixture(scope="module")
def closed_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One broker where topics, groups and transactional ids are closed to who has no rule."""
    data_dir = tmp_path_factory.mktemp("closed")
    with LocalCluster(brokers=1, data_dir=data_dir, properties=GUARDED) as cluster:
        yield cluster


@pytest.fixture
def closed(
    shared_spark: SparkSession, closed_cluster: LocalCluster, tmp_path: Path
) -> Iterator[Streams]:
    """Queries there."""
    with closing(Streams(shared_spark, closed_cluster.bootstrap_servers, tmp_path)) as streams:
        yield streams


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


@pytest.mark.parametrize("scope", ["task", "epoch"])
def test_the_lists_are_enough_for_their_scope(closed: Streams, scope: str) -> None:
    topic, output = closed.topic(records=20), closed.topic()
    prefix, decisions = closed.group(), closed.group()
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
    rows = kv(closed.source(topic, {"groupIdPrefix": prefix}))
    options = {
        "transactionScope": scope,
        "transactionalIdPrefix": prefix,
        "decisionTopic": decisions,
    }
    try:
        closed.admin.create_acls(given)
        close_to_all(closed)
        closed.run(closed.sink(rows, output, closed.checkpoint(), options))
    finally:
        open_to_all(closed)
    assert closed.numbers(output) == list(range(20))
