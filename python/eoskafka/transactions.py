"""Open transactions: whose they are, which readers they hold up, and how to end one.

`read_committed` readers of a partition go no further than its last stable offset, where the oldest
open transaction over it begins.
"""

from __future__ import annotations

import enum
import re
import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, OffsetSpec
from kafka.errors import TransactionalIdNotFoundError, UnsupportedCodecError

from eoskafka.decisions import Entries
from eoskafka.errors import TransactionError
from eoskafka.groups import Connection, log_offsets, open_ids

DEFAULT_DECISION_TOPIC = "__eoskafka_decisions"
_READ_S = 60.0
_STOPPED = "A running driver of its query was fenced and stops: start the query again"
_LOOKS = 2
_LOOK_AGAIN_S = 1.0
_ENDED = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")


class Kind(str, enum.Enum):
    """What a transaction is for, as its id says."""

    TASK = "task"
    WRITER = "writer"
    DECISIONS = "decisions"
    JOB = "job"
    OTHER = "other"


# A name is read from its end, as `io.eoskafka.transaction.TransactionalId` makes it.
_OWNER = r"([A-Za-z0-9_-]{22})"
_WRITER = r"w[0-9]{1,18}(?:\.[0-9]+)+"
_FORMS = (
    (Kind.JOB, re.compile(rf".+-job-{_OWNER}-(?:decisions|{_WRITER})", re.DOTALL)),
    (Kind.DECISIONS, re.compile(rf".+-{_OWNER}-decisions", re.DOTALL)),
    (Kind.WRITER, re.compile(rf".+-{_OWNER}-{_WRITER}", re.DOTALL)),
    (Kind.TASK, re.compile(rf".+-{_OWNER}-[0-9]+", re.DOTALL)),
)


@dataclass(frozen=True)
class Transaction:
    """A transaction, as its coordinator knows it.

    Attributes:
        id: the transactional id.
        kind: what it is for; OTHER where the id does not begin with the prefix.
        owner: of whom, 22 characters: the identity in a group's stamps (TASK; in a shared group its
            driver), or the query's or job's id; empty where it is not eoskafka's.
        state: Kafka's name of it.
        producer_id: the producer's id.
        producer_epoch: and its epoch.
        timeout_ms: after which the coordinator aborts it by itself.
        started_ms: since 1970; None where nothing is open.
        age_ms: by the clock of this machine; None where nothing is open.
        partitions: topics and partitions that it has written to, the group's offsets included.
    """

    id: str
    kind: Kind
    owner: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int | None
    age_ms: int | None
    partitions: tuple[tuple[str, int], ...]

    @property
    def is_open(self) -> bool:
        """Whether readers may wait for it."""
        return self.state not in _ENDED


@dataclass(frozen=True)
class Blocked:
    """A partition whose `read_committed` readers wait.

    Attributes:
        topic: the topic's name.
        partition: its number.
        stable: how far they can read.
        end: the end of the log.
        transactional_id: of the transaction that begins at `stable`; empty if no coordinator knows
            it.
        is_hanging: whether no coordinator will ever end it (KIP-664): its records stay hidden
            until somebody does.
        producer_id: of that transaction's producer.
    """

    topic: str
    partition: int
    stable: int
    end: int
    transactional_id: str
    is_hanging: bool
    producer_id: int


def transactions(
    bootstrap_servers: str,
    prefix: str = "eoskafka",
    everything: bool = False,
    client: Mapping[str, Any] | None = None,
) -> tuple[Transaction, ...]:
    """The open transactions of a cluster, the oldest first.

    Args:
        bootstrap_servers: `host:port,...`.
        prefix: the queries' `transactionalIdPrefix`.
        everything: those of other applications too.
        client: further settings of kafka-python's clients.

    Raises:
        UnreachableError: the cluster does not answer, or not to this user.
    """
    cluster = Connection(bootstrap_servers, client or {})
    with cluster.looking_at("transactions"), cluster.admin() as admin:
        found = [_described(admin, name, prefix) for name in open_ids(admin)]
    ours = [
        each
        for each in found
        if each is not None and each.is_open and (everything or each.kind is not Kind.OTHER)
    ]
    return tuple(sorted(ours, key=lambda each: each.started_ms or 0))


def describe(
    bootstrap_servers: str,
    transactional_id: str,
    prefix: str = "eoskafka",
    client: Mapping[str, Any] | None = None,
) -> tuple[Transaction, tuple[Blocked, ...]]:
    """A transaction, and whom it holds up.

    Raises:
        TransactionError: no coordinator knows this id.
        UnreachableError: the cluster does not answer, or not to this user.
    """
    cluster = Connection(bootstrap_servers, client or {})
    with cluster.looking_at(f"'{transactional_id}'"), cluster.admin() as admin:
        found = _described(admin, transactional_id, prefix)
        if found is None:
            raise TransactionError(
                f"no broker of {bootstrap_servers} knows the transactional id "
                f"'{transactional_id}': it was never used there, or it has expired"
            )
        if not found.is_open:
            return found, ()
        over = {TopicPartition(topic, number) for topic, number in found.partitions}
        return found, tuple(
            each for each in _blocked(admin, over) if each.transactional_id == transactional_id
        )


def blocked(
    bootstrap_servers: str,
    topics: Collection[str] = (),
    client: Mapping[str, Any] | None = None,
) -> tuple[Blocked, ...]:
    """Partitions whose `read_committed` readers wait, and for which transaction.

    Args:
        bootstrap_servers: `host:port,...`.
        topics: those to look at; none for all.
        client: further settings of kafka-python's clients.

    Raises:
        UnreachableError: the cluster does not answer, or not to this user.
    """
    cluster = Connection(bootstrap_servers, client or {})
    with cluster.looking_at("partitions"), cluster.admin() as admin:
        described = admin.describe_topics(sorted(topics) or None)
        return _blocked(
            admin,
            {
                TopicPartition(topic["name"], each["partition_index"])
                for topic in described
                for each in topic["partitions"]
            },
        )


def abort(
    bootstrap_servers: str,
    transactional_id: str,
    prefix: str = "eoskafka",
    decision_topic: str = DEFAULT_DECISION_TOPIC,
    fence: bool = False,
    client: Mapping[str, Any] | None = None,
) -> Transaction:
    """End an open transaction, so that nothing of it takes effect: never one that is decided.

    Its producer is fenced. An attempt of a task that still works with it fails and is done again.

    Args:
        bootstrap_servers: `host:port,...`.
        transactional_id: the transaction's.
        prefix: the query's `transactionalIdPrefix`.
        decision_topic: the query's `decisionTopic`, for a writer in epoch scope.
        fence: for a writer in epoch scope: keep its query from deciding meanwhile. One that runs
            stops (`EOSKAFKA_DECISION_FENCED`), and goes on when it is started again.
        client: further settings of kafka-python's clients.

    Returns:
        the transaction as it was.

    Raises:
        TransactionError: it must not be ended, or not in this way, and was not; where its query
            was fenced before that was known, the message says so.
        UnreachableError: the cluster does not answer, or not to this user.
    """
    cluster = Connection(bootstrap_servers, client or {})
    with cluster.looking_at(f"'{transactional_id}'"):
        with cluster.admin() as admin:
            found = _described(admin, transactional_id, prefix)
        refusal = _refusal(found, transactional_id, fence)
        if found is None or refusal:
            raise TransactionError(f"'{transactional_id}' was not aborted: {refusal}")
        if found.kind is Kind.WRITER:
            # Before anything is changed, and once more when nobody can decide any more: until then
            # the query may have gone on with this id.
            _refuse_decided(cluster, decision_topic, found)
            _initialise(cluster, re.sub(r"-w[0-9.]+$", "-decisions", transactional_id))
            with cluster.admin() as admin:
                now = _described(admin, transactional_id, prefix)
            if now is None or _stand(now) != _stand(found):
                raise TransactionError(
                    f"'{transactional_id}' has ended meanwhile, and its query has continued: see "
                    f"what is open now with `eoskafka txn list`. {_STOPPED}"
                )
            _refuse_decided(cluster, decision_topic, now, _STOPPED)
        _initialise(cluster, transactional_id)
    return found


def _stand(transaction: Transaction) -> tuple[str, int, int]:
    return transaction.state, transaction.producer_id, transaction.producer_epoch


def _refuse_decided(cluster: Connection, topic: str, writer: Transaction, effect: str = "") -> None:
    try:
        is_decided = _is_decided(cluster, topic, writer)
    except TransactionError as error:
        raise TransactionError(f"{error}. {effect}".rstrip(". ")) from error
    except UnsupportedCodecError as error:
        raise TransactionError(
            f"'{writer.id}' was not aborted: decisions in {topic} are compressed, and kafka-python "
            f"has no library for that here, so it is not known whether it is decided. {error}. "
            f"Install it (python-snappy, lz4 or zstandard), and repeat this. {effect}".rstrip(". ")
        ) from error
    if is_decided:
        raise TransactionError(
            f"'{writer.id}' was not aborted: its epoch is decided, so its records have taken "
            f"effect, and would be lost. Start the query: it commits them. {effect}".rstrip(". ")
        )


def _refusal(found: Transaction | None, name: str, fence: bool) -> str:
    """Why it must not be ended, or an empty text."""
    if found is None:
        return "no broker knows this id"
    if not found.is_open:
        return f"nothing of it is open (its state is {found.state})"
    if found.state != "Ongoing":
        return (
            f"its outcome is decided ({found.state}), and it ends when the leaders of its "
            "partitions have answered: check that their brokers are up"
        )
    return {
        Kind.TASK: "",
        Kind.WRITER: ""
        if fence
        else "a running query could decide its epoch meanwhile. Start the query if you can: that "
        "commits or aborts it. If the query will never run again, repeat this with --fence",
        Kind.DECISIONS: "it is a decision of a query in epoch scope, which takes seconds: start "
        "the query, which settles it, or wait for its timeout",
        Kind.JOB: f"it belongs to a batch write: `eoskafka txn resolve {name}` commits or "
        "aborts all of it",
        Kind.OTHER: "it is not one of eoskafka's (with this --transactional-id-prefix); its "
        "owner must abort it",
    }[found.kind]


def _initialise(cluster: Connection, transactional_id: str) -> None:
    """Abort what is open under an id, and fence its producer."""
    look = f"look with `eoskafka txn describe {transactional_id}`"
    with cluster.changing(f"'{transactional_id}'", look):
        producer = KafkaProducer(
            bootstrap_servers=cluster.servers.split(","),
            transactional_id=transactional_id,
            **cluster.settings,
        )
        with closing(producer):
            producer.init_transactions()


def _is_decided(cluster: Connection, topic: str, writer: Transaction) -> bool:
    """Whether the last decision of the writer's query names its transaction."""
    with cluster.consumer(consumer_timeout_ms=500) as consumer:
        # Decisions are in the even ones; in the odd ones are markers, which open writers hide.
        partitions = len(consumer.partitions_for_topic(topic) or ())
        numbers = range(0, partitions, 2)
        if not numbers:
            raise TransactionError(
                f"the topic {topic} cannot be read, so it is not known whether '{writer.id}' "
                "is decided. Nothing was aborted. Is this the query's decisionTopic?"
            )
        where = [TopicPartition(topic, number) for number in numbers]
        consumer.assign(where)
        consumer.seek_to_beginning(*where)
        with cluster.admin() as admin:
            ends = log_offsets(admin, where, OffsetSpec.LATEST)
        entries = {number: Entries(topic, writer.owner) for number in numbers}
        deadline = time.monotonic() + _READ_S
        while any(consumer.position(partition) < ends[partition] for partition in where):
            if time.monotonic() > deadline:
                raise TransactionError(
                    f"a transaction is open over decisions in {topic}, so it is not yet known "
                    f"whether '{writer.id}' is decided. Nothing was aborted; repeat this "
                    "in a minute"
                )
            for record in consumer:
                entries[record.partition].take(record.key, record.value)
    runs = {number: each.run() for number, each in entries.items()}
    if not any(runs.values()):
        raise TransactionError(
            f"'{writer.id}' was not aborted: the topic {topic} has no entry of its query, so it is "
            "not known whether it is decided. Name the query's decisionTopic with --decision-topic"
        )
    name = (writer.id, writer.producer_id, writer.producer_epoch)
    for number, run in runs.items():
        prefix = run.decision_id.removesuffix(f"-{writer.owner}-decisions") if run else ""
        decision = entries[number].last(prefix, partitions)
        if decision is not None and name in decision.transactions:
            return True
    return False


def _described(admin: KafkaAdminClient, name: str, prefix: str) -> Transaction | None:
    try:
        found = admin.describe_transactions([name])[name]
    except TransactionalIdNotFoundError:
        return None
    started = found.transaction_start_time_ms if found.transaction_start_time_ms > 0 else None
    kind, owner = _kind(name, prefix)
    return Transaction(
        id=name,
        kind=kind,
        owner=owner,
        state=found.state.value,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        timeout_ms=found.transaction_timeout_ms,
        started_ms=started,
        age_ms=max(0, int(time.time() * 1_000) - started) if started else None,
        partitions=tuple(sorted((p.topic, p.partition) for p in found.topic_partitions)),
    )


def _kind(name: str, prefix: str) -> tuple[Kind, str]:
    if name.startswith(f"{prefix}-"):
        for kind, form in _FORMS:
            found = form.fullmatch(name)
            if found:
                return kind, found[1]
    return Kind.OTHER, ""


def _blocked(
    admin: KafkaAdminClient, partitions: Collection[TopicPartition]
) -> tuple[Blocked, ...]:
    """What hangs is looked at again: a transaction may end between the questions."""
    found = {(each.topic, each.partition): each for each in _look(admin, partitions)}
    suspects = {place: each for place, each in found.items() if each.is_hanging}
    for _ in range(_LOOKS):
        if not suspects:
            break
        time.sleep(_LOOK_AGAIN_S)
        again = _look(admin, [TopicPartition(*place) for place in suspects])
        now = {(each.topic, each.partition): each for each in again}
        for place, before in list(suspects.items()):
            each = now.get(place)
            if each is None or (each.producer_id, each.stable) != (
                before.producer_id,
                before.stable,
            ):
                # Another one, or none: that one has ended.
                del suspects[place], found[place]
                if each is not None and not each.is_hanging:
                    found[place] = each
            elif not each.is_hanging:
                found[place] = each
                del suspects[place]
    return tuple(found[place] for place in sorted(found))


def _look(admin: KafkaAdminClient, partitions: Collection[TopicPartition]) -> tuple[Blocked, ...]:
    stable = log_offsets(admin, partitions, OffsetSpec.LATEST, "read_committed")
    ends = log_offsets(admin, partitions, OffsetSpec.LATEST)
    hidden = sorted(p for p in partitions if stable[p] < ends[p])
    states = admin.describe_producers(hidden) if hidden else {}
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
    for some in listed.values():
        for each in some:
            names[each.producer_id].append(each.transactional_id)
    found = []
    for partition, producer in first.items():
        known = [_described(admin, name, "") for name in names[producer.producer_id]]
        holders = [
            each
            for each in known
            if each and each.is_open and (partition.topic, partition.partition) in each.partitions
        ]
        found.append(
            Blocked(
                topic=partition.topic,
                partition=partition.partition,
                stable=stable[partition],
                end=ends[partition],
                transactional_id=holders[0].id if holders else "",
                is_hanging=not holders,
                producer_id=producer.producer_id,
            )
        )
    return tuple(found)
