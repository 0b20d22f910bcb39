"""What brokers say of a consumer group: its offsets, who is in it, and what holds its offsets open.

Read by `eoskafka.upgrade` and `eoskafka.offsets`; nothing here changes anything.
"""

from __future__ import annotations

import base64
import json
import re
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient, OffsetSpec
from kafka.errors import (
    BrokerNotAvailableError,
    ClusterAuthorizationFailedError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    KafkaConfigurationError,
    KafkaError,
    NoError,
    NotCoordinatorError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
    TransactionalIdNotFoundError,
    UnknownTopicOrPartitionError,
    UnstableOffsetCommitError,
    for_code,
)
from kafka.protocol.metadata import MetadataRequest
from kafka.structs import OffsetAndMetadata

from eoskafka.errors import AuthorizationError, ConfigurationError, UnreachableError

_T = TypeVar("_T")
_OPEN = ["Ongoing", "PrepareCommit", "PrepareAbort"]
OFFSETS_TOPIC = "__consumer_offsets"
_TRANSACTIONS_TOPIC = "__transaction_state"
_TIMEOUT_MS = 10_000
# A cluster's first group waits for the offsets topic, any other for a broker that takes over.
COORDINATOR_S = 30.0
COORDINATOR_COMES = (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
)
_RESOURCES: dict[type[KafkaError], str] = {
    TopicAuthorizationFailedError: "the topic",
    GroupAuthorizationFailedError: "the group",
    TransactionalIdAuthorizationFailedError: "the transactional id",
    ClusterAuthorizationFailedError: "the cluster",
}
REFUSALS = tuple(_RESOURCES)
# As kafka-python names the group or the transactional id whose coordinator it has looked for.
_NAMED = re.compile(r"\b(?:GROUP|TRANSACTION)/(.+?): ?$")
_TOPIC = re.compile(r"[A-Za-z0-9._-]+")
_GRANT = (
    "Grant it (kafka-acls.sh --add; docs/security.md lists the rights that each command needs), "
    "and repeat the command"
)


def lacks(right: str, refusal: KafkaError | type[KafkaError], name: str = "") -> str:
    """What a refusal of the brokers means, as the beginning of a sentence.

    Args:
        right: the operation that was refused.
        refusal: one of `REFUSALS`.
        name: of the resource, if the refusal does not have it.
    """
    kind = refusal if isinstance(refusal, type) else type(refusal)
    on = next((text for each, text in _RESOURCES.items() if issubclass(kind, each)), "a resource")
    text = "" if isinstance(refusal, type) or not refusal.args else str(refusal.args[0])
    found = _NAMED.search(text)
    named = found[1] if found else text if _TOPIC.fullmatch(text) else name
    return f"this user lacks {right} on {on} {named}".rstrip()


@dataclass(frozen=True)
class Connection:
    """Where a cluster is, and how to speak to it.

    Attributes:
        servers: `host:port,...`.
        settings: further settings of kafka-python's clients.
    """

    servers: str
    settings: Mapping[str, Any]

    def admin(self, servers: str = "") -> closing[KafkaAdminClient]:
        """A client of all brokers, or of these."""
        given: dict[str, object] = {
            "request_timeout_ms": _TIMEOUT_MS,
            "bootstrap_timeout_ms": _TIMEOUT_MS,
            **self.settings,
        }
        try:
            client = KafkaAdminClient(
                bootstrap_servers=(servers or self.servers).split(","), **given
            )
        except (KafkaConfigurationError, TypeError, ValueError, AssertionError) as error:
            raise ConfigurationError(
                f"the client refuses an address or a setting: {error}. It is kafka-python's, whose "
                "settings have underscores or dots: security_protocol"
            ) from error
        return closing(client)

    def consumer(self, **given: Any) -> closing[KafkaConsumer]:
        """A consumer that commits nothing; what is given here comes before the user's settings."""
        settings = {
            **self.settings,
            "isolation_level": "read_committed",
            "enable_auto_commit": False,
            **given,
        }
        return closing(KafkaConsumer(bootstrap_servers=self.servers.split(","), **settings))

    @contextmanager
    def looking_at(
        self,
        what: str,
        *,
        topics: str = "Describe",
        groups: str = "Describe",
        ids: str = "Describe",
    ) -> Iterator[None]:
        """Turn a failure inside the block into an UnreachableError or an AuthorizationError.

        Args:
            what: for a message.
            topics: what a user needs on topics for everything that the command does.
            groups: the same on groups.
            ids: the same on transactional ids.
        """
        try:
            yield
        except REFUSALS as error:
            right = "Describe"
            if isinstance(error, TopicAuthorizationFailedError):
                right = topics
            elif isinstance(error, GroupAuthorizationFailedError):
                right = groups
            elif isinstance(error, TransactionalIdAuthorizationFailedError):
                right = ids
            raise AuthorizationError(
                f"{lacks(right, error)}, so {what} could not be looked at. The command has changed "
                f"nothing. {_GRANT}"
            ) from error
        except (KafkaError, OSError) as error:
            raise UnreachableError(
                f"{what} could not be looked at on {self.servers}: {error!r}. Check the address, "
                "that its brokers are up, that the log-in and the brokers' certificate are valid "
                "(the client does not tell a refused log-in from a broker that is away), and that "
                "this user may describe the cluster, the group, its transactions and the topic "
                f"{OFFSETS_TOPIC}"
            ) from error

    @contextmanager
    def changing(self, what: str, look: str, right: str, name: str = "") -> Iterator[None]:
        """Turn a failure inside the block, where things are changed, as `looking_at` does.

        Args:
            what: for a message.
            look: how to find out what became of the change.
            right: what a user needs for it.
            name: of the group or the transactional id.
        """
        try:
            yield
        except REFUSALS as error:
            raise AuthorizationError(
                f"{lacks(right, error, name)}, and the change of {what} was refused. {_GRANT}"
            ) from error
        except (KafkaError, OSError) as error:
            raise UnreachableError(
                f"the change of {what} on {self.servers} got no clear answer: {error!r}. It was "
                f"made, in part or not at all: {look}, and repeat the command"
            ) from error


def nodes(admin: KafkaAdminClient) -> list[dict[str, Any]]:
    """The brokers that are there, each with at least `broker_id`, `host` and `port`."""
    try:
        found: list[dict[str, Any]] = admin.describe_cluster()["brokers"]
    except KeyError:
        # kafka-python 3.0 expects a field of Kafka 3.7 in the answer.
        metadata = admin._manager.run(admin._get_cluster_metadata, [])
        found = [{**each, "broker_id": each["node_id"]} for each in metadata["brokers"]]
    return found


def committed(cluster: Connection, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
    """A group's offsets; partitions that have none are left out."""
    found = _ask(cluster, lambda admin: admin.list_group_offsets([group])[group])
    return {partition: each for partition, each in found.items() if each.offset >= 0}


def pending(
    cluster: Connection, group: str, partitions: Collection[TopicPartition]
) -> set[TopicPartition]:
    """Those of these partitions with a later offset in an open transaction.

    No list of transactions is needed for that, which may lack some of them: of a user who may not
    describe their ids, or while a coordinator moves.
    """
    found: set[TopicPartition] = _ask(cluster, lambda admin: stable(admin, group, partitions)[1])
    return found


def stable(
    admin: KafkaAdminClient, group: str, partitions: Collection[TopicPartition]
) -> tuple[dict[TopicPartition, OffsetAndMetadata], set[TopicPartition]]:
    """A group's offsets of these partitions over which no transaction is open.

    Returns:
        the offsets, and the partitions with a later offset in an open transaction, of which the
        coordinator tells no offset.
    """
    return _offsets(admin, group, partitions, None)


def offsets_at(
    admin: KafkaAdminClient, broker: int, group: str, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, OffsetAndMetadata]:
    """A group's committed offsets, as this broker has them, also under an open transaction.

    Raises:
        NotCoordinatorError: the broker is not, or no more, the group's coordinator.
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
    """The answer of this broker of any offsets, or the coordinator's of stable ones."""
    # This client's own method asks the coordinator for any offsets.
    node = await admin._find_coordinator_id(group) if broker is None else broker
    ((_, request),) = admin._list_group_offsets_requests({group: partitions})
    request.require_stable = broker is None
    response = await admin._manager.send(request, node_id=node)
    found = response.groups[0] if response.API_VERSION >= 8 else response
    if (error := for_code(found.error_code)) is not NoError:
        raise error(f"of group '{group}'")
    return found.topics


def until_elected(
    ask: Callable[[], _T], coming: tuple[type[KafkaError], ...] = COORDINATOR_COMES
) -> _T:
    """An answer, asked for again while a broker that was just elected cannot give it yet.

    Args:
        coming: the errors that say so.
    """
    deadline = time.monotonic() + COORDINATOR_S
    while True:
        try:
            return ask()
        except coming:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _ask(cluster: Connection, question: Callable[[KafkaAdminClient], Any]) -> Any:
    """A coordinator's answer, waited for where there is none yet."""

    def ask() -> Any:
        # A new client each time: one keeps the coordinator that it has found.
        with cluster.admin() as admin:
            return question(admin)

    return until_elected(ask)


def members(cluster: Connection, group: str) -> tuple[str, ...]:
    """Who is in a group now."""
    found = _ask(cluster, lambda admin: _described(admin, group))
    if found["error"] or found["group_state"] == "Dead":
        # What a broker says of a group of the consumer protocol, or of one that it has not got.
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
    """Errors that say nothing of the group are raised: this client hands them over as a text."""
    found = admin.describe_groups([group])[group]
    for error in (*COORDINATOR_COMES, GroupAuthorizationFailedError):
        if error.__name__ in (found["error"] or ""):
            raise error
    return found


def open_ids(admin: KafkaAdminClient) -> list[str]:
    """The transactional ids of all transactions that have not ended.

    Raises:
        BrokerNotAvailableError: a coordinator did not list its own, so that some may be missing.
    """
    listed = admin.list_transactions(state_filters=_OPEN)
    silent = silent_coordinators(admin, listed)
    if silent:
        raise BrokerNotAvailableError(
            f"the transactions that broker {sorted(silent)[0]} coordinates are not listed (-1: "
            "their coordinator is not there)"
        )
    return sorted({each.transactional_id for some in listed.values() for each in some})


def silent_coordinators(admin: KafkaAdminClient, listed: Collection[int]) -> set[int]:
    """Coordinators of transactions that are not among these brokers; -1: one that is not there.

    Raises:
        TopicAuthorizationFailedError: this user may not see which brokers are coordinators.
    """
    (topic,) = described_topics(admin, [_TRANSACTIONS_TOPIC])
    return {each["leader_id"] for each in topic["partitions"]} - set(listed)


def lists_everything(admin: KafkaAdminClient, listed: Collection[int]) -> bool:
    """Whether these brokers have listed all transactions, as far as this user may know."""
    try:
        return not silent_coordinators(admin, listed) and sees_every_transaction(admin)
    except TopicAuthorizationFailedError:
        return False


def described_topics(admin: KafkaAdminClient, topics: Collection[str]) -> list[dict[str, Any]]:
    """These topics, as their brokers describe them; all that this user may see if there are none.

    Raises:
        TopicAuthorizationFailedError: this user may not describe one of these.
    """
    return _permitted(admin.describe_topics(sorted(topics) or None))


def _permitted(topics: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for topic in topics:
        if for_code(topic["error_code"]) is TopicAuthorizationFailedError:
            raise TopicAuthorizationFailedError(topic["name"])
    return topics


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


def log_offsets(
    admin: KafkaAdminClient,
    partitions: Collection[TopicPartition],
    spec: OffsetSpec,
    isolation: str = "read_uncommitted",
) -> dict[TopicPartition, int]:
    """Where the logs of these partitions begin or end."""
    wanted = dict.fromkeys(partitions, spec)
    found = admin.list_partition_offsets(wanted, isolation_level=isolation) if wanted else {}
    return {partition: each.offset for partition, each in found.items()}


def open_transactions(admin: KafkaAdminClient, group: str) -> tuple[str, ...]:
    """Transactions that have not ended, over the partition where the group's offsets are.

    Raises:
        TopicAuthorizationFailedError: this user may not describe the topics of Kafka's own that
            say where.
    """
    ids = open_ids(admin)
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


def topic_ids(admin: KafkaAdminClient, topics: Collection[str]) -> dict[TopicPartition, str]:
    """All partitions of those of these topics that are there, with their topics' ids.

    Raises:
        TopicAuthorizationFailedError: this user may not describe one.
    """
    return _ids_of(described_topics(admin, topics) if topics else [])


def _ids_of(described: list[dict[str, Any]]) -> dict[TopicPartition, str]:
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


@dataclass(frozen=True)
class Answer:
    """What one broker says.

    Attributes:
        brokers: those that it knows to be there: their addresses by their ids.
        topics: the topics that it was asked about, as it describes them.
    """

    brokers: Mapping[int, str]
    topics: list[dict[str, Any]]

    def topic_ids(self) -> dict[TopicPartition, str]:
        """All partitions of those of the topics that are there, with their topics' ids.

        Raises:
            TopicAuthorizationFailedError: this user may not describe one.
        """
        return _ids_of(_permitted(self.topics))


def answer_of(
    cluster: Connection, broker: int, address: str, topics: Collection[str]
) -> Answer | None:
    """What this broker knows of others and of these topics; None if it does not answer.

    It has a client of its own, which knows the broker even if the others do not list it.
    """
    try:
        with cluster.admin(address) as admin:
            found = admin._manager.run(_metadata, admin, broker, sorted(topics))
    except (KafkaError, OSError):
        return None
    return Answer(
        {each["node_id"]: f"{each['host']}:{each['port']}" for each in found["brokers"]},
        found["topics"],
    )


async def _metadata(admin: KafkaAdminClient, broker: int, topics: list[str]) -> Any:
    # This client's own method asks any broker.
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics],
        allow_auto_topic_creation=False,
    )
    response = await admin._manager.send(request, node_id=broker)
    return response.to_dict()


def offset_json(offsets: Mapping[TopicPartition, int]) -> str:
    """Offsets in the form of the option `startingOffsets`; an empty text where there are none."""
    by_topic: dict[str, dict[str, int]] = defaultdict(dict)
    for partition in sorted(offsets):
        by_topic[partition.topic][str(partition.partition)] = offsets[partition]
    return json.dumps(by_topic, separators=(",", ":")) if by_topic else ""


def partition_of(name: str, count: int) -> int:
    """Where brokers keep what belongs to a group's name, or to a transactional id.

    Args:
        count: partitions of the offsets topic, or of the transaction log.

    Returns:
        the partition, by the amount of Java's `String.hashCode` of the name.
    """
    value = 0
    units = name.encode("utf-16-be")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    signed = value - 2**32 if value >= 2**31 else value
    return (0 if signed == -(2**31) else abs(signed)) % count
