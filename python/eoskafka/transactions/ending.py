"""Ending an open transaction, but never one whose epoch is decided."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from kafka import KafkaProducer, TopicPartition
from kafka.errors import UnsupportedCodecError

from eoskafka.brokers.connection import Connection
from eoskafka.errors import TransactionError
from eoskafka.transactions.decided import fence as fence_query
from eoskafka.transactions.decided import is_decided, named_ends
from eoskafka.transactions.listing import described
from eoskafka.transactions.model import Kind, Transaction

DEFAULT_DECISION_TOPIC = "__eoskafka_decisions"
_TRANSACTION_MS = 1_000
_STOPPED = "A running driver of its query was fenced and stops: start the query again"


def abort(
    bootstrap_servers: str,
    transactional_id: str,
    prefix: str = "eoskafka",
    decision_topic: str = DEFAULT_DECISION_TOPIC,
    fence: bool = False,
    client: Mapping[str, Any] | None = None,
) -> Transaction:
    """End an open transaction that is not decided, so that nothing of it takes effect.

    Its producer is fenced. A task attempt that still uses it fails, and Spark repeats the task.

    Args:
        bootstrap_servers: `host:port,...`.
        transactional_id: the transaction's.
        prefix: the query's `transactionalIdPrefix`.
        decision_topic: the query's `decisionTopic`, for a writer in epoch scope.
        fence: for a writer in epoch scope: fence its query, so that it cannot decide meanwhile, and
            write records without a value to the decision topic, up to which decisions are read. A
            running query stops (`EOSKAFKA_DECISION_FENCED`), and continues when it is restarted.
        client: further settings of kafka-python's clients.

    Returns:
        the transaction as it was.

    Raises:
        TransactionError: it must not be ended, or not in this way, and was not. If its query was
            fenced before that was known, the message says so.
        UnreachableError: the cluster does not answer, or not to this user.
    """
    cluster = Connection(bootstrap_servers, client or {})
    with cluster.looking_at(f"'{transactional_id}'", topics="Read", ids="Write"):
        with cluster.admin() as admin:
            found = described(admin, transactional_id, prefix)
        refusal = _refusal(found, transactional_id, fence)
        if found is None or refusal:
            raise TransactionError(f"'{transactional_id}' was not aborted: {refusal}")
        if found.kind is Kind.WRITER:
            # Checked before anything is changed, and again when the query cannot decide any more:
            # until then it may have continued with this id, or a former leader has named the ends.
            ends = named_ends(cluster, decision_topic, found)
            _refuse_decided(cluster, decision_topic, found, ends)
            ends = fence_query(cluster, decision_topic, found, ends)
            with cluster.admin() as admin:
                now = described(admin, transactional_id, prefix)
            if now is None or _state_and_producer(now) != _state_and_producer(found):
                raise TransactionError(
                    f"'{transactional_id}' has ended meanwhile, and its query has continued: see "
                    f"what is open now with `eoskafka txn list`. {_STOPPED}"
                )
            _refuse_decided(cluster, decision_topic, now, ends, _STOPPED)
        _initialise(cluster, transactional_id)
    return found


def _state_and_producer(transaction: Transaction) -> tuple[str, int, int]:
    return transaction.state, transaction.producer_id, transaction.producer_epoch


def _refuse_decided(
    cluster: Connection,
    topic: str,
    writer: Transaction,
    ends: Mapping[TopicPartition, int],
    effect: str = "",
) -> None:
    try:
        decided = is_decided(cluster, topic, writer, ends)
    except TransactionError as error:
        raise TransactionError(f"{error}. {effect}".rstrip(". ")) from error
    except UnsupportedCodecError as error:
        raise TransactionError(
            f"'{writer.id}' was not aborted: decisions in {topic} are compressed, and kafka-python "
            f"has no library for that here, so it is not known whether it is decided. {error}. "
            f"Install it (python-snappy, lz4 or zstandard), and repeat this. {effect}".rstrip(". ")
        ) from error
    if decided:
        raise TransactionError(
            f"'{writer.id}' was not aborted: its epoch is decided, so its records have taken "
            f"effect, and would be lost. Start the query: it commits them. {effect}".rstrip(". ")
        )


def _refusal(found: Transaction | None, name: str, fence: bool) -> str:
    """Why the transaction must not be ended; empty if it may be."""
    if found is None:
        return "no broker knows this id"
    if not found.is_open:
        return f"nothing of it is open (its state is {found.state})"
    if found.state != "Ongoing":
        return (
            f"its outcome is decided ({found.state}), and it ends when the leaders of its "
            "partitions have confirmed this: check that their brokers are up"
        )
    return {
        Kind.TASK: "",
        Kind.WRITER: ""
        if fence
        else "a running query could still decide its epoch. Start the query if you can: that "
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
    with cluster.changing(f"'{transactional_id}'", look, "Write", transactional_id):
        producer = KafkaProducer(
            bootstrap_servers=cluster.servers.split(","),
            transactional_id=transactional_id,
            # It begins none. Brokers refuse a timeout that is longer than theirs.
            transaction_timeout_ms=_TRANSACTION_MS,
            **cluster.settings,
        )
        with closing(producer):
            producer.init_transactions()
