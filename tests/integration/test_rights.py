"""What `doctor` and `txn` say of rights that a user lacks; test_acls.py has the queries."""

from __future__ import annotations

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
from streams import USER, Streams


def rules(kind: ResourceType, name: str, operation: ACLOperation) -> list[ACL]:
    """Everything but this operation on everything whose name begins so."""
    on = ResourcePattern(kind, name, ACLResourcePatternType.PREFIXED)
    return [
        ACL(USER, "*", ACLOperation.ALL, ACLPermissionType.ALLOW, on),
        ACL(USER, "*", operation, ACLPermissionType.DENY, on),
    ]


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
