"""Whether a job and its brokers can move to this version of eoskafka, seen from outside.

Reads only: the brokers' versions, a group's offsets with their stamps, its members, and the open
transactions that may hold offsets of it.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError, TopicAuthorizationFailedError
from kafka.structs import OffsetAndMetadata

from eoskafka import stamps
from eoskafka.brokers.connection import Connection
from eoskafka.brokers.groups import committed, members, pending
from eoskafka.brokers.topics import nodes, offset_json, topic_ids
from eoskafka.brokers.transactions import open_transactions, sees_every_transaction

# Api key, its name, lowest version, Kafka release that has it, what is missing before: as
# `io.eoskafka.wire.BrokerVersions` has it.
_NEEDS = (
    (
        28,
        "TxnOffsetCommit",
        3,
        "2.5",
        "cannot distinguish the offsets of a former driver from those of the current one",
    ),
    (9, "OffsetFetch", 7, "2.5", "does not wait for offsets in open transactions"),
    (66, "ListTransactions", 0, "3.0", "cannot list open transactions"),
    (65, "DescribeTransactions", 0, "3.0", "cannot say which query a transaction belongs to"),
    (22, "InitProducerId", 0, "0.11", "has no transactions"),
    (24, "AddPartitionsToTxn", 0, "0.11", "has no transactions"),
    (25, "AddOffsetsToTxn", 0, "0.11", "has no transactions"),
    (26, "EndTxn", 0, "0.11", "has no transactions"),
)


class Verdict(str, enum.Enum):
    """What `check` has come to."""

    FREE = "free"
    IN_USE = "in_use"
    READY = "ready"
    BROKERS_TOO_OLD = "brokers_too_old"
    NEWER = "newer"
    OTHER = "other"
    OVERWRITTEN = "overwritten"
    MIXED = "mixed"


@dataclass(frozen=True)
class Broker:
    """A broker of the cluster.

    Attributes:
        id: its node id.
        address: host:port.
        release: the newest Kafka release whose requests it knows, or an empty text if it did not
            answer.
        lacks: what it cannot do of what exactly-once needs.
    """

    id: int
    address: str
    release: str
    lacks: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """What `check` has found.

    Attributes:
        verdict: FREE if the group has neither offsets nor members, and no open transaction holds
            its first offsets; IN_USE if there are members or such a transaction, or if this cannot
            be determined without topic names; READY if this version can continue from the group's
            offsets, MIXED if these belong to several queries, OVERWRITTEN if others have committed
            some of them in the group of an eoskafka query.
        brokers: all of the cluster's.
        partitions: by kind (`task`, `epoch`, `source_only`, `none`, `older`, `newer`) how many
            topic-partitions have an offset of it.
        ownership: `shared` or `exclusive` where all stamps say so, else an empty text.
        members: who is in the group now.
        open_transactions: those that may hold offsets of the group.
        pending: how many topic-partitions have a later offset in an open transaction.
        starting_offsets: the group's offsets in the form of the option `startingOffsets`; empty if
            they do not say what has taken effect, or if some are pending.
        steps: what to do, in order.
    """

    verdict: Verdict
    brokers: tuple[Broker, ...]
    partitions: Mapping[str, int] = field(default_factory=dict)
    ownership: str = ""
    members: tuple[str, ...] = ()
    open_transactions: tuple[str, ...] = ()
    pending: int = 0
    starting_offsets: str = ""
    steps: tuple[str, ...] = ()


def check(
    bootstrap_servers: str,
    group: str,
    topics: Sequence[str] = (),
    client: Mapping[str, Any] | None = None,
) -> Report:
    """Look at a group and its brokers, and say what moving to this version takes.

    Args:
        bootstrap_servers: of the source's cluster, `host:port,...`.
        group: the query's `kafka.group.id`.
        topics: the query's; others of the group are left aside. None for all of them.
        client: further settings of kafka-python's admin client.

    Raises:
        UnreachableError: the cluster does not answer, or not to this user.
    """
    cluster = Connection(bootstrap_servers, client or {})
    with cluster.looking_at(f"group '{group}'"):
        return _check(cluster, group, topics)


def _check(cluster: Connection, group: str, topics: Sequence[str]) -> Report:
    present_brokers = brokers(cluster)
    if any(broker.lacks for broker in present_brokers):
        # A group's coordinator may be one of them: nothing else is asked.
        report = Report(Verdict.BROKERS_TOO_OLD, present_brokers)
        return replace(report, steps=_steps(report, group))
    offsets = {
        partition: offset
        for partition, offset in committed(cluster, group).items()
        if not topics or partition.topic in topics
    }
    kinds, identities = _kinds(offsets)
    exclusive = identities - {stamps.shared_identity(group)}
    is_shared = exclusive != identities
    present = members(cluster, group)
    with cluster.admin() as admin:
        # Includes partitions of named topics that have no offset: their first one may be pending.
        partitions = {*offsets, *topic_ids(admin, topics)}
        is_open = pending(cluster, group, partitions)
        transactions, is_listed = _transactions(cluster, admin, group)
        # If nothing could be asked for, the first offsets may be in any of these.
        may_be_open = not (partitions or present) and (
            bool(transactions) or not is_listed or not sees_every_transaction(admin)
        )
        verdict = _verdict(kinds, exclusive, bool(present or is_open or may_be_open))
        is_start = verdict is not Verdict.OVERWRITTEN and not is_open
        start = {p: each.offset for p, each in offsets.items()} if is_start else {}
        found = Report(
            verdict=verdict,
            brokers=present_brokers,
            partitions=kinds,
            ownership="shared" if is_shared else "exclusive" if exclusive else "",
            members=present,
            open_transactions=transactions,
            pending=len(is_open),
            starting_offsets=offset_json(start),
        )
    return replace(found, steps=_steps(found, group))


def brokers(cluster: Connection) -> tuple[Broker, ...]:
    """All brokers of a cluster, and what each of them cannot do."""
    with cluster.admin() as admin:
        found = nodes(admin)
    return tuple(_broker(cluster, node) for node in found)


def _broker(cluster: Connection, node: Mapping[str, object]) -> Broker:
    """Asked by a client of its own: one for all knows no newer versions than its first broker."""
    number, address = int(str(node["broker_id"])), f"{node['host']}:{node['port']}"
    try:
        with cluster.admin(address) as admin:
            known = admin.get_broker_version_data(number)
    except (KafkaError, OSError):
        return Broker(number, address, "", ())
    lacks = tuple(
        f"{why} ({name} version {version}, Kafka {release})"
        for api, name, version, release, why in _NEEDS
        if known.api_versions.get(api, (0, -1))[1] < version
    )
    return Broker(number, address, ".".join(map(str, known.broker_version)), lacks)


def _kinds(
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> tuple[dict[str, int], set[str]]:
    """How many offsets are of which kind, and the identities in the stamps of this version."""
    kinds: dict[str, int] = defaultdict(int)
    identities = set()
    for offset in offsets.values():
        stamp = stamps.parse(offset.metadata)
        if stamp is None:
            kinds[stamps.kind_of(offset.metadata).value] += 1
        else:
            kinds[stamp.scope.value] += 1
            identities.add(stamp.identity)
    return dict(kinds), identities


def _transactions(
    cluster: Connection, admin: KafkaAdminClient, group: str
) -> tuple[tuple[str, ...], bool]:
    """Those that may hold offsets of the group, and whether this user may ask for them."""
    try:
        return open_transactions(cluster, admin, group), True
    except TopicAuthorizationFailedError:
        return (), False


def _verdict(kinds: Mapping[str, int], exclusive: set[str], may_be_used: bool) -> Verdict:
    if not kinds:
        return Verdict.IN_USE if may_be_used else Verdict.FREE
    if stamps.Kind.NEWER.value in kinds:
        return Verdict.NEWER
    if stamps.Kind.NONE.value in kinds or stamps.Kind.OLDER.value in kinds:
        # If there are stamps of eoskafka too, others have overwritten offsets of a query that ran.
        is_own = any(scope.value in kinds for scope in stamps.Scope)
        return Verdict.OVERWRITTEN if is_own else Verdict.OTHER
    # A driver that had the group for itself before it was shared has its stamp on idle partitions.
    return Verdict.READY if len(exclusive) <= 1 else Verdict.MIXED


def _steps(found: Report, group: str) -> tuple[str, ...]:
    stop = "Stop everything that commits to the group now" + (
        f": {'; '.join(found.members)}." if found.members else " (it has no member)."
    )
    if found.open_transactions:
        stop += f" Wait until these transactions have ended: {', '.join(found.open_transactions)}."
    elif found.pending:
        stop += (
            " Wait until the open transaction that holds offsets of the group has ended. Its name "
            "is not known: its coordinator is moving, or this user lacks Describe on its "
            "transactional id."
        )
    if found.verdict is Verdict.BROKERS_TOO_OLD:
        old = [f"{b.id} ({b.address}, Kafka {b.release})" for b in found.brokers if b.lacks]
        return (
            f"Upgrade all brokers to Kafka 3.0 or newer: {', '.join(old)}.",
            "Run this check again, and only then start the job with eoskafka.",
        )
    if found.verdict is Verdict.FREE:
        return (
            f"A new query can begin with kafka.group.id={group}, at its startingOffsets.",
            "If a job has run with this group, its offsets have expired or were deleted, and it "
            "is not known how far it got: compare its output with its input first.",
        )
    if found.verdict is Verdict.IN_USE and not found.members and not found.pending:
        which = ", ".join(found.open_transactions) or "this user may not see every transaction"
        return (
            "Name the query's topics in --topics, and run this check again: it can find out "
            "whether an open transaction holds the group's first offsets only for topics that you "
            f"name ({which}).",
        )
    if found.verdict is Verdict.IN_USE:
        return (stop, "Run this check again: what it has read may still be committed.")
    if found.verdict is Verdict.READY:
        if found.ownership == "shared":
            return (
                "Start the new version beside the running one, with a checkpoint of its own, "
                "ownership=shared and handover=true; the running one stops by itself.",
                f"Or without a handover: {stop} Start it with the new version, on the same "
                "checkpoint: it continues from there.",
            )
        return (stop, "Start it with the new version, on the same checkpoint: it continues.")
    if found.verdict is Verdict.NEWER:
        return (
            "Use the newer version of eoskafka that committed the offsets: an older version "
            "cannot continue from them.",
        )
    if found.verdict is Verdict.OVERWRITTEN:
        return _steps_if_overwritten(found, group, stop)
    again = f"{stop} Then run this check again: do not start from offsets that may still change."
    if found.pending:
        return (again,)
    begin = (
        "Start the query with a new kafka.group.id, a new checkpoint and "
        f"startingOffsets={found.starting_offsets} (these must be exactly the query's "
        "partitions). It then continues at these offsets."
    )
    if found.verdict is Verdict.MIXED:
        return (
            "Name the topics of the job in --topics: the group has offsets of several queries. "
            "Each continues by itself on its own checkpoint, as long as their topics differ.",
            f"If they share topics: {stop} {begin}",
        )
    return (
        again,
        "If a query of eoskafka has run with this group, a tool or an application has replaced its "
        f"offsets, and the present ones may skip or repeat records: {_LOOK}, and begin there.",
        begin,
    )


# The present offsets are no help: `eoskafka offsets adopt` refuses them too.
_LOOK = "find in the output, for each partition, the first input record whose output is missing"


def _steps_if_overwritten(found: Report, group: str, stop: str) -> tuple[str, ...]:
    anew = (
        "Start the query with a new kafka.group.id, a new checkpoint and startingOffsets with "
        "these offsets, for every partition of the query."
    )
    if stamps.Kind.OLDER.value not in found.partitions:
        anew += (
            " A query in task scope can also keep its checkpoint and group: `eoskafka offsets "
            f"adopt CHECKPOINT --bootstrap-servers HOST:PORT --group {group} --at JSON`, with "
            "these offsets as JSON."
        )
    return (
        "If the query does not read the topics of the offsets that are not its own, name its "
        "topics in --topics, and run this check again.",
        stop,
        "Otherwise the present offsets may skip or repeat records. Do not start from them. "
        f"Instead, {_LOOK}.",
        anew,
    )
