"""The transactions of a replay.

A replay is one producer with one transactional id, the name of its group. Each of its transactions
has some records and the group's offsets after them. A killed replay leaves a transaction open,
which the next replay aborts when it initialises the id; this also fences a replay that still runs.
So the offsets that are fetched afterwards show which records were replayed, unless they come from a
former coordinator of the group, which may not know the latest ones. A former coordinator cannot
accept offsets. So, before the first transaction is committed, the coordinator that has accepted its
offsets is asked for the previous ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from kafka import KafkaProducer, TopicPartition
from kafka.errors import (
    InvalidProducerEpochError,
    InvalidTransactionTimeoutError,
    KafkaConfigurationError,
    KafkaError,
    MessageSizeTooLargeError,
    ProducerFencedError,
)

from eoskafka.brokers.agreement import WAY_OUT, disagreement_on_ids
from eoskafka.brokers.connection import Connection
from eoskafka.dead_letters import Origin
from eoskafka.errors import ConfigurationError, FencedError, OffsetsError, RecordError
from eoskafka.replay.progress import (
    Committed,
    Confirmation,
    committed_offsets,
    marked,
    replay_starts,
)
from eoskafka.replay.records import TopicLog, partition_ids, place, read, reader
from eoskafka.replay.targets import Targets, require_replayable

# The topic's own limit is to decide.
_MAX_REQUEST_BYTES = 64 << 20
_REQUEST_MS = 30_000
# Added to a request's time for deliveries, and again for transactions: so records time out first.
_MARGIN_MS = 15_000


def replay(
    cluster: Connection,
    topic: str,
    *,
    group: str,
    to: str = "",
    from_beginning: bool = False,
    accept_loss: bool = False,
    skip: Collection[tuple[int, int]] = (),
    skip_reasons: Collection[str] = (),
    replayed: Callable[[int], None] = lambda _: None,
) -> int:
    """Write the dead letters that a group has not replayed yet to their topics, each exactly once.

    A record gets the key, the value and the headers of the source's record. If it goes back to the
    source's topic, it goes to the same partition. Its timestamp is the present time.

    Args:
        cluster: of all the topics.
        topic: of the dead letters.
        group: whose offsets say what was replayed. It is also the transactional id.
        to: another topic for all of them.
        from_beginning: whether partitions without an offset are replayed from their beginning.
        accept_loss: whether to go on if dead letters were deleted before they were replayed.
        skip: partitions and offsets of dead letters that are not written, and count as replayed.
        skip_reasons: the same for dead letters whose reason contains one of these texts.
        replayed: is told the number of records of each transaction that was committed.

    Returns:
        how many records were written.

    Raises:
        OffsetsError: the group has no offset of a partition, or a wrong one; or the brokers do not
            agree on the id of the topic.
        DataLossError: dead letters were deleted before they were replayed.
        RecordError: a record cannot be replayed, or its topic refuses it.
        ConfigurationError: there is no such topic, or `to` is this topic.
        FencedError: another replay has begun with this group, or a transaction took too long.
        UnreachableError: the brokers do not answer. What was committed is replayed; another call
            continues there.
    """
    if to == topic:
        raise ConfigurationError(
            f"--to names the topic of the dead letters itself, {topic}. Nothing was replayed. Give "
            "another topic"
        )

    def is_skipped(record: Any) -> bool:
        place_of = (record.partition, record.offset)
        reason = Origin.of(record.headers).reason
        return place_of in skip or any(text in reason for text in skip_reasons)

    look = "what was committed stays, and the next replay continues there"
    with (
        cluster.changing(f"the topics of the dead letters in {topic}", look, "Write"),
        _fenced(cluster, group),
    ):
        with cluster.admin() as admin:
            # Before the id is initialised, which fences another replay.
            partition_ids(cluster, admin, topic)
        with _producer(cluster, group) as producer:
            _initialise(producer, cluster)
            # Not before: another replay may have gone beyond these ends until now.
            log = TopicLog.of(cluster, topic)
            _require_agreed_ids(cluster, topic, log)
            with reader(cluster, group_id=group) as consumer:
                committed = committed_offsets(consumer, log.ends)
                starts = replay_starts(
                    group,
                    committed,
                    log,
                    from_beginning=from_beginning,
                    accept_loss=accept_loss,
                )
                targets = Targets(cluster, topic, to)
                require_replayable(consumer, targets, log, starts, is_skipped)
                confirmation = Confirmation(cluster, group, committed, log.ends)
                written = 0
                for portion in read(consumer, starts, log.ends):
                    to_send = {
                        place(record): targets.send_arguments(record)
                        for record in portion
                        if not is_skipped(record)
                    }
                    after = {TopicPartition(r.topic, r.partition): r.offset + 1 for r in portion}
                    _commit(producer, to_send, marked(after, log.ids), group, confirmation)
                    written += len(to_send)
                    replayed(len(to_send))
            # Of all partitions, so that the offsets of none expire before the others'.
            _commit(producer, {}, marked(log.ends, log.ids), group, confirmation)
    return written


def _require_agreed_ids(cluster: Connection, topic: str, log: TopicLog) -> None:
    if problem := disagreement_on_ids(cluster, log.ids, [topic]):
        raise OffsetsError(
            f"it is not known which id the topic {topic} has: {problem}, so its dead letters may "
            f"be those of a topic that was deleted. Nothing was replayed. {WAY_OUT}"
        )


@contextmanager
def _producer(cluster: Connection, group: str) -> Iterator[KafkaProducer]:
    try:
        producer = KafkaProducer(
            bootstrap_servers=cluster.servers.split(","),
            transactional_id=group,
            max_request_size=_MAX_REQUEST_BYTES,
            transaction_timeout_ms=_transaction_ms(cluster),
            delivery_timeout_ms=_transaction_ms(cluster) - _MARGIN_MS,
            **cluster.settings,
        )
    except (KafkaConfigurationError, TypeError, ValueError, AssertionError) as error:
        raise ConfigurationError(f"the client refuses an address or a setting: {error}") from error
    try:
        yield producer
    finally:
        # It aborts nothing: what an interrupt has left open, the next replay aborts.
        producer.close(timeout=10)


def _initialise(producer: KafkaProducer, cluster: Connection) -> None:
    try:
        producer.init_transactions()
    except KafkaError as error:
        # This client has no class of its own for it here.
        if str(InvalidTransactionTimeoutError()) not in str(error):
            raise
        raise ConfigurationError(
            f"the brokers allow no transaction of {_transaction_ms(cluster) / 1_000:g} s. Nothing "
            "was replayed. Give -X request.timeout.ms=MS, with MS at least 30,000 less than the "
            "brokers' transaction.max.timeout.ms, or raise that setting of the brokers"
        ) from error


def _transaction_ms(cluster: Connection) -> int:
    return int(cluster.settings.get("request_timeout_ms", _REQUEST_MS)) + 2 * _MARGIN_MS


def _commit(
    producer: KafkaProducer,
    to_send: Mapping[str, dict[str, Any]],
    offsets: Committed,
    group: str,
    confirmation: Confirmation,
) -> None:
    """Write records and offsets in one transaction.

    Args:
        producer: its transactions are initialised.
        to_send: arguments of `send`, by the place of the dead letter.
        offsets: the group's after these records.
        group: whose offsets these are.
        confirmation: is required before the commit.
    """
    producer.begin_transaction()
    try:
        sent = [producer.send(**arguments) for arguments in to_send.values()]
        # Not `flush`, which fails if a batch was too large and is sent again in parts.
        for future, (letter, arguments) in zip(sent, to_send.items(), strict=True):
            try:
                future.get()
            except MessageSizeTooLargeError as error:
                raise RecordError(
                    f"topic {arguments['topic']} refuses the dead letter at PARTITION:OFFSET "
                    f"{letter} as too large. Its transaction was aborted, and the ones before it "
                    "are committed. Raise max.message.bytes of the topic, and repeat the command; "
                    f"or skip this dead letter with --skip {letter}"
                ) from error
        producer.send_offsets_to_transaction(offsets, group)
        confirmation.require(producer)
    except Exception:
        # If it cannot be aborted, the next replay does it.
        with suppress(KafkaError):
            producer.abort_transaction()
        raise
    producer.commit_transaction()


@contextmanager
def _fenced(cluster: Connection, group: str) -> Iterator[None]:
    try:
        yield
    except (ProducerFencedError, InvalidProducerEpochError) as error:
        raise FencedError(
            f"another replay has begun with group {group}, or a transaction took longer than "
            f"{_transaction_ms(cluster) / 1_000:g} s. What this replay had committed stays. If no "
            "other one runs, repeat the command: it continues there"
        ) from error
