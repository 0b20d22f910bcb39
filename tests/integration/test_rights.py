"""Rights that a user lacks: each is named, and nothing is lost."""

from __future__ import annotations

import eoskafka
import pytest
from eoskafka import doctor, transactions
from eoskafka.doctor import Level
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourceType,
)
from pyspark.sql.streaming import DataStreamWriter
from streams import QUERY_S, USER, Streams, kv


def rules(kind: ResourceType, name: str, operation: ACLOperation) -> list[ACL]:
    """Everything but this operation on everything whose name begins so."""
    on = ResourcePattern(kind, name, ACLResourcePatternType.PREFIXED)
    return [
        ACL(USER, "*", ACLOperation.ALL, ACLPermissionType.ALLOW, on),
        ACL(USER, "*", operation, ACLPermissionType.DENY, on),
    ]


CASES = {
    "to read the input": (ResourceType.TOPIC, "input", ACLOperation.READ, "Read on the topic"),
    "to write the output": (ResourceType.TOPIC, "output", ACLOperation.WRITE, "Write on the topic"),
    "to be in the group": (ResourceType.GROUP, "group", ACLOperation.READ, "Read on the group"),
    "to have transactions": (
        ResourceType.TRANSACTIONAL_ID,
        "prefix",
        ACLOperation.WRITE,
        "on transactional ids",
    ),
}


@pytest.mark.parametrize("ownership", ["exclusive", pytest.param("shared", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CASES)
def test_a_right_that_is_missing_is_named(guarded: Streams, name: str, ownership: str) -> None:
    kind, what, operation, wanted = CASES[name]
    names = {"input": guarded.topic(records=4), "output": guarded.topic()}
    names |= {"group": guarded.group(), "prefix": guarded.group()}
    checkpoint = guarded.checkpoint()

    def writer() -> object:
        options = {"kafka.group.id": names["group"], "ownership": ownership}
        rows = kv(guarded.source(names["input"], options))
        prefix = {"transactionalIdPrefix": names["prefix"]}
        return guarded.sink(rows, names["output"], checkpoint, prefix)

    acls = rules(kind, names[what], operation)
    guarded.admin.create_acls(acls)
    query = guarded.start(writer())  # type: ignore[arg-type]
    with pytest.raises(eoskafka.AuthorizationError) as error:
        query.awaitTermination(QUERY_S)
    found = eoskafka.error_of(error.value)
    assert found is not None
    assert found.condition == "EOSKAFKA_NOT_AUTHORIZED"
    text = str(found)
    assert wanted in text
    assert what == "prefix" or names[what] in text
    guarded.admin.delete_acls(acls)
    guarded.run(writer())  # type: ignore[arg-type]
    assert guarded.numbers(names["output"]) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("operation", "wanted"),
    [
        (ACLOperation.READ, "Read on the topic "),
        (ACLOperation.DESCRIBE_CONFIGS, "DescribeConfigs on a topic of the query"),
    ],
)
def test_a_right_on_the_decision_topic_that_is_missing_is_named(
    guarded: Streams, operation: ACLOperation, wanted: str
) -> None:
    topic, output, decisions = guarded.topic(records=4), guarded.topic(), guarded.group()
    checkpoint = guarded.checkpoint()
    options = {"transactionScope": "epoch", "decisionTopic": decisions}

    def writer() -> DataStreamWriter:
        return guarded.sink(kv(guarded.source(topic)), output, checkpoint, options)

    guarded.run(writer())
    guarded.send(topic, 4)
    acls = rules(ResourceType.TOPIC, decisions, operation)
    guarded.admin.create_acls(acls)
    error = guarded.failure(writer())
    assert "[EOSKAFKA_NOT_AUTHORIZED]" in error
    assert wanted in error
    guarded.admin.delete_acls(acls)
    guarded.run(writer())
    assert guarded.numbers(output) == [0, 1, 2, 3, 4]


def test_doctor_names_a_right_that_is_missing(guarded: Streams) -> None:
    topics = {"Read": guarded.topic(), "Write": guarded.topic()}
    group = guarded.group()

    def levels() -> list[str]:
        found = doctor.cluster(
            guarded.servers, inputs=[topics["Read"]], outputs=[topics["Write"]], group=group
        )
        names = (f"topic {topics['Read']}", f"topic {topics['Write']}", f"group {group}")
        return [each.found for each in found if each.about in names]

    assert levels() == ["this user has Read", "this user has Write", "this user has Read"]
    acls = [
        *rules(ResourceType.TOPIC, topics["Read"], ACLOperation.READ),
        *rules(ResourceType.TOPIC, topics["Write"], ACLOperation.WRITE),
        *rules(ResourceType.GROUP, group, ACLOperation.READ),
    ]
    guarded.admin.create_acls(acls)
    assert levels() == ["this user lacks Read", "this user lacks Write", "this user lacks Read"]
    guarded.admin.delete_acls(acls)


def test_doctor_says_what_it_may_not_see(guarded: Streams) -> None:
    cluster = ResourcePattern(ResourceType.CLUSTER, "kafka-cluster", ACLResourcePatternType.LITERAL)
    acls = [
        ACL(USER, "*", ACLOperation.ALL, ACLPermissionType.ALLOW, cluster),
        ACL(USER, "*", ACLOperation.DESCRIBE_CONFIGS, ACLPermissionType.DENY, cluster),
    ]
    guarded.admin.create_acls(acls)
    found = {each.about: each for each in doctor.cluster(guarded.servers)}
    for setting in ("transaction.max.timeout.ms", "offsets.retention.minutes"):
        assert found[setting].level is Level.UNKNOWN
        assert found[setting].found.startswith("not shown to this user, so it is not known how")
    guarded.admin.delete_acls(acls)


def test_a_transaction_that_this_user_may_not_see_is_not_called_hanging(guarded: Streams) -> None:
    topic = guarded.topic(partitions=1)
    every_id = ResourcePattern(ResourceType.TRANSACTIONAL_ID, "*", ACLResourcePatternType.LITERAL)
    acls = [ACL("User:somebody", "*", ACLOperation.ALL, ACLPermissionType.ALLOW, every_id)]
    with guarded.open_transaction(topic, 1):
        (seen,) = transactions.blocked(guarded.servers, [topic])
        assert (seen.is_hanging, seen.is_unknown) == (False, False)
        guarded.admin.create_acls(acls)
        (unseen,) = transactions.blocked(guarded.servers, [topic])
        guarded.admin.delete_acls(acls)
        assert (unseen.is_hanging, unseen.is_unknown) == (False, True)
    assert unseen.producer_id == seen.producer_id
