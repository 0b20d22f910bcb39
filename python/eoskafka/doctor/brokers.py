"""A cluster: its brokers, features, limits and topics, and what a user may do there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import (
    GroupAuthorizationFailedError,
    IncompatibleBrokerVersion,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)

from eoskafka import properties
from eoskafka.brokers.connection import COORDINATOR_COMES, COORDINATOR_S, Connection
from eoskafka.brokers.topics import nodes
from eoskafka.doctor.model import Finding, Level
from eoskafka.upgrade import brokers

# Of a task's transaction, unless `kafka.transaction.timeout.ms` says otherwise.
_TASK_TIMEOUT_MS = 300_000
_DAY_MS = 86_400_000
_AGAIN_S = 0.2
_HIDES = (
    UnknownTopicOrPartitionError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
)
# Settings of the brokers, and what is not known without them.
_HIDDEN = {
    "transaction.max.timeout.ms": (
        "how long a transaction may be open: epoch scope asks for kafka.transaction.timeout.ms, or "
        "15 minutes, and the brokers refuse what is too long"
    ),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": (
        "when the brokers abort a transaction that has timed out: epoch scope keeps 60 s for it"
    ),
    "offsets.retention.minutes": (
        "how long a query may be down before its offsets are deleted, which stops it with an error"
    ),
    "transaction.state.log.replication.factor": (
        "whether transactions survive the loss of a broker"
    ),
    "offsets.topic.replication.factor": "whether offsets survive the loss of a broker",
}


def cluster(
    bootstrap_servers: str,
    *,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    group: str = "",
    decision_topic: str = "__eoskafka_decisions",
    client: Mapping[str, Any] | None = None,
) -> list[Finding]:
    """A cluster's brokers, features and limits, and this user's rights.

    Args:
        bootstrap_servers: `host:port,...`.
        inputs: topics that the query reads.
        outputs: topics that it writes to.
        group: its `kafka.group.id`.
        decision_topic: its `decisionTopic`.
        client: further settings of kafka-python's admin client.

    Raises:
        UnreachableError: the brokers do not answer.
    """
    at = Connection(bootstrap_servers, client or {})
    with at.looking_at("the cluster"):
        return [
            *_brokers(at),
            *_features(at),
            *_limits(at),
            _decisions(at, decision_topic),
            *_rights(at, inputs, outputs, group),
            *_consumers(outputs),
        ]


def _consumers(outputs: Sequence[str]) -> Iterator[Finding]:
    """Only a reminder, because brokers do not know what isolation level a consumer has."""
    for topic in outputs:
        yield Finding(
            f"consumers of {topic}",
            Level.NOTE,
            "exactly once only if they set isolation.level=read_committed",
            "Kafka's default, read_uncommitted, also returns the records of aborted transactions; "
            "docs/consumers.md has the setting of each client",
        )


def _brokers(at: Connection) -> Iterator[Finding]:
    for broker in brokers(at):
        about = f"broker {broker.id} ({broker.address})"
        if not broker.release:
            yield Finding(
                about, Level.PROBLEM, "does not answer", "start it, or check its advertised address"
            )
        elif broker.lacks:
            yield Finding(
                about,
                Level.PROBLEM,
                f"Kafka {broker.release}: it {'; it '.join(broker.lacks)}",
                "upgrade it to Kafka 3.0 or newer; for a Kafka-compatible service, ask its "
                "operator to support these requests",
            )
        else:
            yield Finding(about, Level.FINE, f"Kafka {broker.release} or newer")


def _features(at: Connection) -> Iterator[Finding]:
    with at.admin() as admin:
        found = admin.describe_features().get("transaction.version", {})
    supported, level = (found.get(what, (0, 0))[1] for what in ("supported", "finalized"))
    if supported < 2:
        yield Finding(
            "transaction.version",
            Level.NOTE,
            "these brokers have no version 2 (KIP-890, Kafka 4.0)",
            "on older brokers, a late record can leave a hanging transaction, for which readers "
            "wait forever: `eoskafka txn find-hanging` lists such transactions",
        )
    elif level < 2:
        yield Finding(
            "transaction.version",
            Level.NOTE,
            f"{level}, but these brokers support 2 (KIP-890)",
            "once all are upgraded: kafka-features.sh --bootstrap-server ... upgrade --feature "
            "transaction.version=2",
        )
    else:
        yield Finding("transaction.version", Level.FINE, str(level))


def _limits(at: Connection) -> Iterator[Finding]:
    with at.admin() as admin:
        present = nodes(admin)
        settings = _settings(admin, ConfigResourceType.BROKER, str(present[0]["broker_id"]))
    for setting, unknown in _HIDDEN.items():
        if setting not in settings:
            yield Finding(
                setting,
                Level.UNKNOWN,
                f"not shown to this user, so it is not known {unknown}",
                "grant DescribeConfigs on the cluster, or ask who operates it",
            )
    if "transaction.max.timeout.ms" in settings:
        yield _longest(int(settings["transaction.max.timeout.ms"]))
    if "offsets.retention.minutes" in settings:
        yield _kept(int(settings["offsets.retention.minutes"]) * 60_000)
    for log in ("transaction.state.log", "offsets.topic"):
        setting = f"{log}.replication.factor"
        if setting in settings:
            yield _copies(setting, int(settings[setting]), len(present))


def _longest(longest: int) -> Finding:
    about = "transaction.max.timeout.ms"
    if longest < _TASK_TIMEOUT_MS:
        return Finding(
            about,
            Level.PROBLEM,
            f"{longest:,} ms, but a transaction in task scope asks for {_TASK_TIMEOUT_MS:,}",
            f"raise it, or set kafka.transaction.timeout.ms={longest} in the sink",
        )
    return Finding(
        about,
        Level.FINE,
        f"{longest:,} ms: a batch in epoch scope must end within it, and a task in task scope "
        f"within {_TASK_TIMEOUT_MS:,}",
    )


def _kept(kept_ms: int) -> Finding:
    is_long = kept_ms >= 7 * _DAY_MS
    return Finding(
        "offsets.retention.minutes",
        Level.FINE if is_long else Level.NOTE,
        f"{kept_ms / _DAY_MS:g} days: a query that is down for longer loses its offsets, and stops "
        "with an error",
        ""
        if is_long
        else "raise it to the longest time that a query may be down, weekends included",
    )


def _copies(setting: str, copies: int, brokers_there: int) -> Finding:
    wanted = min(3, brokers_there)
    if copies < wanted:
        return Finding(
            setting,
            Level.NOTE,
            f"{copies}, on a cluster of {brokers_there} brokers",
            f"with {wanted}, the loss of one broker loses no transaction or offset",
        )
    return Finding(setting, Level.FINE, str(copies))


def _settings(admin: Any, kind: ConfigResourceType, name: str) -> dict[str, str]:
    """The settings; empty if brokers do not show them: this client hides a missing right."""
    resource = ConfigResource(kind, name)
    try:
        found = admin.describe_configs([resource], config_filter="all")
    except IncompatibleBrokerVersion:
        return {}
    shown = found[kind.name.lower()][name]
    return {setting: each["value"] for setting, each in shown.items() if each["value"] is not None}


def _decisions(at: Connection, topic: str) -> Finding:
    about = f"decision topic {topic}"
    with at.admin() as admin:
        if topic not in admin.list_topics():
            return Finding(
                about, Level.FINE, "it does not exist; the first query in epoch scope creates it"
            )
        settings = _settings(admin, ConfigResourceType.TOPIC, topic)
    if not settings:
        return Finding(
            about,
            Level.UNKNOWN,
            "its settings are not shown to this user",
            "grant DescribeConfigs on it",
        )
    wrong = [
        f"{name}={settings.get(name, 'not shown')}"
        for name, right in (
            ("cleanup.policy", "compact"),
            ("unclean.leader.election.enable", "false"),
        )
        if settings.get(name) != right
    ]
    return Finding(
        about,
        Level.PROBLEM if wrong else Level.FINE,
        ", ".join(wrong) or "compacted, without unclean elections",
        "set cleanup.policy=compact and unclean.leader.election.enable=false on it"
        if wrong
        else "",
    )


def _rights(
    at: Connection, inputs: Sequence[str], outputs: Sequence[str], group: str
) -> Iterator[Finding]:
    if not (inputs or outputs or group):
        yield Finding("rights", Level.UNKNOWN, "not checked", "give --input, --output and --group")
        return
    try:
        from confluent_kafka import TopicCollection
        from confluent_kafka.admin import AdminClient
    except ImportError:
        yield Finding("rights", Level.UNKNOWN, "not checked", "pip install 'eoskafka[verify]'")
        return
    admin = AdminClient({"bootstrap.servers": at.servers, **properties.of_librdkafka(at.settings)})
    wanted = [(topic, "Read") for topic in inputs] + [(topic, "Write") for topic in outputs]

    def of_topic(name: str) -> Any:
        found = admin.describe_topics(TopicCollection([name]), include_authorized_operations=True)
        return found[name].result()

    def of_group(name: str) -> Any:
        found = admin.describe_consumer_groups([name], include_authorized_operations=True)
        return found[name].result()

    for topic, needed in wanted:
        yield right(f"topic {topic}", partial(of_topic, topic), needed)
    if group:
        yield right(f"group {group}", partial(of_group, group), "Read")
    yield Finding(
        "transactional ids",
        Level.UNKNOWN,
        "brokers do not report who may use them",
        "grant Write and Describe on ids with the sink's transactionalIdPrefix",
    )


def right(about: str, describe: Callable[[], Any], wanted: str) -> Finding:
    """Whether a topic or a group that librdkafka's admin client describes gives a user a right."""
    from confluent_kafka import KafkaException

    deadline = time.monotonic() + COORDINATOR_S
    while True:
        try:
            allowed = [each.name for each in describe().authorized_operations]
        except KafkaException as error:
            refusal = error.args[0]
            comes = for_code(refusal.code()) in COORDINATOR_COMES
            if not comes or time.monotonic() > deadline:
                return _unseen(about, refusal)
            time.sleep(_AGAIN_S)
        else:
            break
    if wanted.upper() in allowed:
        return Finding(about, Level.FINE, f"this user has {wanted}")
    return Finding(about, Level.PROBLEM, f"this user lacks {wanted}", f"grant {wanted} on it")


def _unseen(about: str, refusal: Any) -> Finding:
    said = f"{refusal.name()} ({refusal.str()})"
    if for_code(refusal.code()) in _HIDES:
        return Finding(
            about,
            Level.PROBLEM,
            f"it does not exist, or this user may not see it: {said}",
            "create it, or grant Describe on it",
        )
    return Finding(
        about, Level.UNKNOWN, f"the brokers did not describe it: {said}", "run doctor again"
    )
