"""What a group's offsets say about what was replayed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeAlias

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.protocol.metadata import CoordinatorType
from kafka.structs import OffsetAndMetadata

from eoskafka.brokers.connection import Connection
from eoskafka.brokers.groups import offsets_at
from eoskafka.errors import DataLossError, OffsetsError
from eoskafka.replay.records import Offsets, TopicIds, TopicLog

# Before the id of the topic, in the metadata of the group's offsets.
_MARK = "eoskafka-replay:1:"

Committed: TypeAlias = "Mapping[TopicPartition, OffsetAndMetadata]"


def committed_offsets(consumer: KafkaConsumer, partitions: Collection[TopicPartition]) -> Committed:
    """The offsets of the consumer's group; partitions that have none are left out."""
    # A stable fetch, because this consumer reads committed records only.
    offsets = {p: consumer.committed(p, metadata=True) for p in partitions}
    return {p: offset for p, offset in offsets.items() if offset is not None}


def marked(offsets: Offsets, ids: TopicIds) -> Committed:
    """These offsets as a replay commits them."""
    return {p: OffsetAndMetadata(offset, _MARK + ids[p], -1) for p, offset in offsets.items()}


def replay_starts(
    group: str, committed: Committed, log: TopicLog, *, from_beginning: bool, accept_loss: bool
) -> Offsets:
    """Where a replay begins in each partition.

    Raises:
        OffsetsError: the group has no offset of a partition, or a wrong one.
        DataLossError: dead letters were deleted before they were replayed.
    """
    _refuse_wrong_offsets(group, committed, log)
    without = sorted(p for p in log.ends if p not in committed and log.ends[p] > log.starts[p])
    if without and not from_beginning:
        raise OffsetsError(
            f"group {group} has no offset of {without[0].topic}-{without[0].partition}. Either "
            "nothing of it was replayed yet, or the brokers have deleted the offset since "
            "(offsets.retention.minutes). Nothing was replayed. If nothing of it was replayed "
            "before, give --from-beginning"
        )
    lost = {
        p: log.starts[p] - each.offset
        for p, each in committed.items()
        if each.offset < log.starts[p]
    }
    if lost and not accept_loss:
        p = min(lost)
        raise DataLossError(
            f"up to {sum(lost.values()):,} dead letters were deleted before group {group} has "
            f"replayed them: it has offset {committed[p].offset} of {p.topic}-{p.partition}, whose "
            f"log begins at {log.starts[p]} (retention.ms, retention.bytes). Nothing was replayed. "
            "To replay the others, give --accept-loss"
        )
    return {p: max(log.starts[p], committed[p].offset if p in committed else 0) for p in log.ends}


def _refuse_wrong_offsets(group: str, committed: Committed, log: TopicLog) -> None:
    for p, (offset, metadata, _) in sorted(committed.items()):
        group_has = f"group {group} has offset {offset} of {p.topic}-{p.partition}"
        if not (metadata or "").startswith(_MARK):
            raise OffsetsError(
                f"{group_has}, which no replay has committed (its metadata is {metadata!r}). "
                "Nothing was replayed. Give a --group that nothing else uses"
            )
        if metadata != _MARK + log.ids[p]:
            raise OffsetsError(
                f"{group_has}, which was committed before the topic was deleted and created again. "
                "Nothing was replayed. Give another --group"
            )
        if offset > log.ends[p]:
            raise OffsetsError(
                f"{group_has}, and the broker says that its log ends at {log.ends[p]}: the broker "
                "may be behind. Nothing was replayed. Repeat the command in a minute"
            )


class Confirmation:
    """Checks the previous offsets at the coordinator that accepts the new ones, before a commit."""

    def __init__(
        self,
        cluster: Connection,
        group: str,
        committed: Committed,
        partitions: Collection[TopicPartition],
    ) -> None:
        """`committed` are the offsets from which the replay begins."""
        self._cluster = cluster
        self._group = group
        self._committed = committed
        self._partitions = partitions
        self._is_due = True

    def require(self, producer: KafkaProducer) -> None:
        """Call it when the offsets of the transaction were accepted.

        Raises:
            OffsetsError: the offsets from which this replay began are not the group's.
        """
        if not self._is_due:
            return
        # Its id has a prefix, for a connection of its own.
        node = producer._transaction_manager.coordinator(CoordinatorType.GROUP)
        broker = int(str(node).removeprefix("coordinator-"))
        with self._cluster.admin() as admin:
            at_coordinator = offsets_at(admin, broker, self._group, self._partitions)
        for p in sorted(self._partitions):
            begun, now = self._committed.get(p), at_coordinator.get(p)
            if (begun and begun[:2]) != (now and now[:2]):
                raise OffsetsError(
                    f"group {self._group} has offset {now.offset if now else None} of "
                    f"{p.topic}-{p.partition}, but this replay began at offset "
                    f"{begun.offset if begun else None}, which a former coordinator has reported. "
                    "Nothing was replayed. Repeat the command in a minute"
                )
        # From now on nobody else can commit without fencing this producer.
        self._is_due = False
