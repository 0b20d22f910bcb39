"""A group's offsets: where a query stands, and how to move it on purpose.

The offsets carry stamps (`eoskafka.stamps`) that say whose they are. A query goes on from its own
only, so whoever moves them (`reset`) keeps the stamps, and whoever gives a query those of another
application (`adopt`) writes them.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient, OffsetSpec, OffsetTimestamp
from kafka.errors import KafkaTimeoutError, NoError
from kafka.structs import OffsetAndMetadata

from eoskafka import stamps
from eoskafka.checkpoints import Batch, Checkpoint, Identity
from eoskafka.errors import ConfigurationError, OffsetsError
from eoskafka.groups import (
    Connection,
    committed,
    log_offsets,
    members,
    offset_json,
    open_transactions,
    topic_ids,
)

# Of a commit; a broker takes about 1 MiB at a time.
_AT_A_TIME = 1_000
_STABLE_MS = 500
# In 1973: what is less is in seconds, or a date.
_EARLIEST_MS = 100_000_000_000


class State(str, enum.Enum):
    """Whether an offset may still change by itself."""

    STABLE = "stable"
    PENDING = "pending"
    NONE = "none"


@dataclass(frozen=True)
class Position:
    """Where a group stands in a partition.

    Attributes:
        topic: the topic's name.
        partition: its number.
        committed: the next offset to be read, or None.
        state: PENDING while a transaction is open that holds a later offset.
        kind: whose the offset is: `ours`, `none` (another application), `older`, `newer`.
        scope: `task`, `epoch` or `source_only` where it is ours.
        identity: of the query that committed it, 22 characters.
        epoch: the micro-batch that committed it, -1 before the first.
        is_same_topic: False if the topic was created again since.
        log_start: the first offset that the log has.
        end: how far a `read_committed` query can read now: the last stable offset.
        open_records: offsets beyond that, of transactions that are open.
        lag: offsets from `committed` to `end`; None where nothing is committed, or the topic gone.
    """

    topic: str
    partition: int
    committed: int | None
    state: State
    kind: str
    scope: str
    identity: str
    epoch: int | None
    is_same_topic: bool
    log_start: int
    end: int
    open_records: int
    lag: int | None


@dataclass(frozen=True)
class Standing:
    """Where a group stands.

    Attributes:
        group: its name.
        ownership: `exclusive` or `shared`; empty where no offset has a stamp.
        members: who is in it now.
        pending_in: open transactions that may hold offsets of it.
        positions: one for each partition of its topics.
    """

    group: str
    ownership: str
    members: tuple[str, ...]
    pending_in: tuple[str, ...]
    positions: tuple[Position, ...]


@dataclass(frozen=True)
class Move:
    """An offset that was changed, or would be.

    Attributes:
        topic: the topic's name.
        partition: its number.
        before: None where there was none.
        after: the next offset to be read.
    """

    topic: str
    partition: int
    before: int | None
    after: int


class Situation(str, enum.Enum):
    """What `adopt` has found."""

    READY = "ready"
    BUILT_IN = "built_in"
    ADOPTED = "adopted"


@dataclass(frozen=True)
class Adoption:
    """What `adopt` has found and done.

    Attributes:
        situation: READY if the query can start as it is; BUILT_IN if its checkpoint is the built-in
            connector's and can be taken over; ADOPTED if its group's offsets were given to it.
        group: the query's; empty where the query chooses it at its first start.
        start: where the query goes on, by topic and partition as in `startingOffsets`.
        open_batch: the built-in connector's last batch if it was not finished, else None: what it
            has written already is written again.
        open_records: offsets of that batch, or None where its start is not known.
        is_new: whether there was no checkpoint: then one is made for the query to come.
        without_offset: partitions that have no offset: the query reads them from their beginning.
        moves: the offsets that have got stamps.
    """

    situation: Situation
    group: str
    start: str
    open_batch: int | None = None
    open_records: int | None = None
    is_new: bool = False
    without_offset: int = 0
    moves: tuple[Move, ...] = field(default=())


# ---- looking


def show(
    bootstrap_servers: str,
    group: str,
    topics: Collection[str] = (),
    client: Mapping[str, Any] | None = None,
) -> Standing:
    """Say where a group stands. Changes nothing.

    Args:
        bootstrap_servers: of the source's cluster, `host:port,...`.
        group: the query's `kafka.group.id`.
        topics: those to look at; none for all that the group has an offset of.
        client: further settings of kafka-python's clients.

    Raises:
        UnreachableError: the cluster does not answer, or not to this user.
    """
    cluster = Connection(bootstrap_servers, client or {})
    with cluster.looking_at(f"group '{group}'"):
        return _look(cluster, group, topics).standing


def groups(bootstrap_servers: str, client: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """The groups of a cluster that have offsets of eoskafka.

    Raises:
        UnreachableError: the cluster does not answer, or not to this user.
    """
    cluster = Connection(bootstrap_servers, client or {})
    with cluster.looking_at("the groups"):
        with cluster.admin() as admin:
            names = sorted(found["group_id"] for found in admin.list_groups())
        return tuple(
            name
            for name in names
            if any(stamps.parse(each.metadata) for each in committed(cluster, name).values())
        )


@dataclass(frozen=True)
class _Look:
    """A group's standing, and what it was made of."""

    standing: Standing
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    topic_ids: Mapping[TopicPartition, str]

    @property
    def positions(self) -> dict[TopicPartition, Position]:
        return {
            TopicPartition(each.topic, each.partition): each for each in self.standing.positions
        }


def _look(
    cluster: Connection, group: str, topics: Collection[str], also: Collection[str] = ()
) -> _Look:
    """Of these topics, or all that the group has an offset of; and of some that it may not have."""
    # First: once nobody is in the group, brokers refuse further offsets of its transactions.
    present = members(cluster, group)
    offsets = {
        partition: offset
        for partition, offset in committed(cluster, group).items()
        if not topics or partition.topic in {*topics, *also}
    }
    with cluster.admin() as admin:
        holders = open_transactions(admin, group)
        ids = topic_ids(admin, {*(topics or {p.topic for p in offsets}), *also})
        everything = sorted({*ids, *offsets})
        log = _Log(admin, [partition for partition in everything if partition in ids])
    # Also of those that have no offset yet: their first one may be on its way.
    pending = _pending(cluster, group, everything) if holders else set()
    found = [stamps.parse(each.metadata) for each in offsets.values()]
    identities = {stamp.identity for stamp in found if stamp}
    shared = stamps.shared_identity(group) in identities
    standing = Standing(
        group,
        "shared" if shared else "exclusive" if identities else "",
        present,
        holders if pending else (),
        tuple(_position(p, offsets.get(p), p in pending, ids.get(p, ""), log) for p in everything),
    )
    return _Look(standing, offsets, ids)


class _Log:
    """What the logs of these partitions have."""

    def __init__(self, admin: KafkaAdminClient, partitions: Sequence[TopicPartition]) -> None:
        self.start = log_offsets(admin, partitions, OffsetSpec.EARLIEST)
        self.stable = log_offsets(admin, partitions, OffsetSpec.LATEST, "read_committed")
        self.end = log_offsets(admin, partitions, OffsetSpec.LATEST)


def _position(
    partition: TopicPartition,
    offset: OffsetAndMetadata | None,
    is_pending: bool,
    topic_id: str,
    log: _Log,
) -> Position:
    stamp = stamps.parse(offset.metadata) if offset else None
    end = log.stable.get(partition, 0)
    return Position(
        topic=partition.topic,
        partition=partition.partition,
        committed=offset.offset if offset else None,
        state=State.PENDING if is_pending else State.STABLE if offset else State.NONE,
        kind=stamps.kind_of(offset.metadata).value if offset else "",
        scope=stamp.scope.value if stamp else "",
        identity=stamp.identity if stamp else "",
        epoch=stamp.epoch if stamp else None,
        is_same_topic=stamp is None or stamp.topic_id == topic_id,
        log_start=log.start.get(partition, 0),
        end=end,
        open_records=log.end.get(partition, end) - end,
        lag=max(0, end - offset.offset) if offset and partition in log.stable else None,
    )


def _pending(
    cluster: Connection, group: str, partitions: Collection[TopicPartition]
) -> set[TopicPartition]:
    """Those with a later offset in an open transaction: a broker does not answer for them."""
    pending = set()
    with cluster.consumer(group_id=group) as consumer:
        for partition in partitions:
            try:
                consumer.committed(partition, timeout_ms=_STABLE_MS)
            except KafkaTimeoutError:
                pending.add(partition)
    return pending


# ---- moving


def reset(
    bootstrap_servers: str,
    group: str,
    to: str,
    topics: Collection[str] = (),
    client: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> tuple[Move, ...]:
    """Let a stopped query go on elsewhere: to do records again, or to leave some out.

    Only for a query in task scope, whose truth are these offsets. One in epoch scope goes by its
    checkpoint: it is given a new checkpoint, group and `startingOffsets` instead.

    Args:
        bootstrap_servers: of the source's cluster, `host:port,...`.
        group: the query's `kafka.group.id`.
        to: `earliest`, `latest`, a time (ISO 8601 with its zone, or milliseconds since 1970: the
            first record at or after it, else the end), or offsets as in `startingOffsets`.
        topics: those to move; none for all of the group's. Not with offsets, which name them.
        client: further settings of kafka-python's clients.
        dry_run: change nothing.

    Returns:
        what was moved; partitions that stay where they are are left out.

    Raises:
        ConfigurationError: `to` is none of these.
        OffsetsError: a driver is in the group, a transaction holds offsets of it, or its offsets
            are none that can be moved. Nothing was changed.
        UnreachableError: the cluster does not answer, or not to this user.
    """
    target = _Target.parse(to)
    if target.offsets and topics:
        raise ConfigurationError("offsets in JSON name their topics: remove --topics")
    chosen = _topics_named(target) or set(topics)
    cluster = Connection(bootstrap_servers, client or {})
    with cluster.looking_at(f"group '{group}'"):
        look = _look(cluster, group, chosen)
        _refuse_alive(look.standing)
        _refuse_unmovable(look.standing, chosen)
        there, before = look.topic_ids, look.offsets
        with cluster.admin() as admin:
            wanted = [p for p in there if _is_chosen(p, target, chosen)]
            after = target.of(admin, wanted, look.positions)
        news = {
            partition: OffsetAndMetadata(
                offset, _moved(before[partition].metadata, there[partition]), -1
            )
            for partition, offset in after.items()
            if partition in before and _changes(before[partition], offset, there[partition])
        }
        unknown = sorted(set(after) - set(before))
        if unknown and target.offsets:
            raise OffsetsError(
                f"group '{group}' has no offset of {_names(unknown)} that could be moved: a "
                "query begins by itself with a partition that it finds later. Nothing was changed"
            )
        if not dry_run:
            _commit(cluster, group, news)
    return tuple(
        Move(p.topic, p.partition, before[p].offset, each.offset)
        for p, each in sorted(news.items())
    )


@dataclass(frozen=True)
class _Target:
    """Where offsets are to go; one of these."""

    spec: OffsetSpec | None = None
    timestamp: int | None = None
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    by_topic: Mapping[str, OffsetSpec] = field(default_factory=dict)

    @staticmethod
    def parse(text: str) -> _Target:
        named = {"earliest": OffsetSpec.EARLIEST, "latest": OffsetSpec.LATEST}
        given = text.strip()
        if given.lower() in named:
            return _Target(spec=named[given.lower()])
        if given.startswith("{"):
            try:
                return _Target.parse_json(given, named)
            except (ValueError, AttributeError, TypeError) as error:
                raise ConfigurationError(
                    f"{given} is not JSON with offsets: {error}. Write them as "
                    '{"topic":{"0":23,"1":-1}} or {"topic":"earliest"}; -2 is earliest, -1 latest'
                ) from error
        if given.isascii() and given.isdecimal():
            if not _EARLIEST_MS <= int(given) < 2**63:
                raise ConfigurationError(
                    f"{given} is not a plausible time in milliseconds since 1970. If it is in "
                    "seconds, or a date, write it as 2026-11-21T09:30:00Z"
                )
            return _Target(timestamp=int(given))
        try:
            moment = datetime.fromisoformat(given.replace("Z", "+00:00"))
        except ValueError as error:
            raise ConfigurationError(
                f"{given!r} is not a position: give earliest, latest, a time such as "
                "2026-11-21T09:30:00Z or milliseconds since 1970, or JSON with offsets"
            ) from error
        if moment.tzinfo is None:
            raise ConfigurationError(
                f"{given!r} has no time zone: write {moment.isoformat()}Z for UTC, or "
                f"{moment.isoformat()}+01:00"
            )
        return _Target(timestamp=int(moment.timestamp() * 1_000))

    @staticmethod
    def parse_json(text: str, named: Mapping[str, OffsetSpec]) -> _Target:
        offsets, by_topic = {}, {}
        for topic, partitions in json.loads(text).items():
            if isinstance(partitions, str):
                if partitions not in named:
                    raise ValueError(f"{partitions!r} is neither earliest nor latest")
                by_topic[topic] = named[partitions]
                continue
            if not partitions:
                raise ValueError(f"no partition of {topic} is named")
            for partition, offset in partitions.items():
                if not isinstance(offset, int) or isinstance(offset, bool) or offset < -2:
                    raise ValueError(f"{offset!r} is not an offset")
                offsets[TopicPartition(topic, int(partition))] = offset
        if not offsets and not by_topic:
            raise ValueError("no partition is named")
        return _Target(offsets=offsets, by_topic=by_topic)

    def of(
        self,
        admin: KafkaAdminClient,
        partitions: Sequence[TopicPartition],
        log: Mapping[TopicPartition, Position],
    ) -> dict[TopicPartition, int]:
        """The offset for each of these partitions."""
        missing = sorted(set(self.offsets) - set(partitions))
        if missing:
            raise OffsetsError(f"the cluster has no {_names(missing)}. Nothing was changed")
        if self.timestamp is not None:
            wanted = {p: OffsetTimestamp(self.timestamp) for p in partitions}
            found = admin.list_partition_offsets(wanted) if wanted else {}
            return {
                p: each.offset if each.offset >= 0 else _latest(log[p]) for p, each in found.items()
            }
        return {p: self._by_name(p, log[p]) for p in partitions}

    def _by_name(self, partition: TopicPartition, log: Position) -> int:
        offset = self.offsets.get(partition)
        spec = self.by_topic.get(partition.topic, self.spec)
        if offset == -2 or (offset is None and spec is OffsetSpec.EARLIEST):
            return log.log_start
        if offset == -1 or offset is None:
            return _latest(log)
        if not log.log_start <= offset <= log.end:
            raise OffsetsError(
                f"{_names([partition])} has the offsets {log.log_start} to {log.end}, and not "
                f"{offset}. Nothing was changed"
            )
        return offset


def _latest(log: Position) -> int:
    """Not behind what a query has read that reads open transactions too."""
    if log.committed is None or log.committed > log.end + log.open_records:
        return log.end
    return max(log.end, log.committed)


def _is_chosen(partition: TopicPartition, target: _Target, topics: Collection[str]) -> bool:
    if _topics_named(target):
        return _is_named(partition, target)
    return not topics or partition.topic in topics


def _is_named(partition: TopicPartition, target: _Target) -> bool:
    return partition in target.offsets or partition.topic in target.by_topic


def _topics_named(target: _Target) -> set[str]:
    return {partition.topic for partition in target.offsets} | set(target.by_topic)


def _moved(metadata: str | None, topic_id: str) -> str:
    stamp = stamps.parse(metadata)
    assert stamp is not None
    # Not -1, which is said of an offset that no batch has moved: state does not fit to this one.
    return stamps.encode(stamp._replace(topic_id=topic_id, epoch=max(0, stamp.epoch)))


def _changes(before: OffsetAndMetadata, after: int, topic_id: str) -> bool:
    stamp = stamps.parse(before.metadata)
    return before.offset != after or stamp is None or stamp.topic_id != topic_id


def _refuse_alive(standing: Standing) -> None:
    if standing.members:
        raise OffsetsError(
            f"group '{standing.group}' has members: {'; '.join(standing.members)}. "
            "Nothing was changed. Stop its query first; a driver that was killed stays a member "
            "until its session has ended (kafka.session.timeout.ms, 45 s by default)"
        )
    if standing.pending_in:
        raise OffsetsError(
            f"an open transaction holds offsets of group '{standing.group}': one of "
            f"{', '.join(standing.pending_in)}. Nothing was changed. Start the query and stop it, "
            "which aborts what its executors have left open, or wait until it times out"
        )


def _refuse_unmovable(standing: Standing, topics: Collection[str]) -> None:
    have = [each for each in standing.positions if each.committed is not None]
    if not have:
        of = f" of {', '.join(sorted(topics))}" if topics else ""
        raise OffsetsError(
            f"group '{standing.group}' has no offsets{of}: a new query in this group begins at "
            "its startingOffsets. Nothing was changed"
        )
    missing = sorted(set(topics) - {each.topic for each in have})
    if missing:
        raise OffsetsError(
            f"group '{standing.group}' has no offsets of {', '.join(missing)}. Nothing was changed"
        )
    for each in have:
        place = f"the offset of {each.topic}-{each.partition} in group '{standing.group}'"
        if each.kind == stamps.Kind.NONE.value:
            raise OffsetsError(
                f"{place} is another application's, or a tool has set it. Nothing was changed. "
                "`eoskafka offsets adopt CHECKPOINT` gives it to a query"
            )
        if each.kind != stamps.Kind.OURS.value:
            raise OffsetsError(
                f"{place} was committed by another version of eoskafka ({each.kind}). Nothing was "
                "changed; use that version"
            )
        if each.scope != stamps.Scope.TASK.value:
            raise OffsetsError(
                f"{place} was committed in {each.scope} scope: the query's checkpoint says where "
                "it continues, and its state belongs to that place. Nothing was changed. To read "
                "records again, start it with a new checkpoint and kafka.group.id, and with "
                "startingOffsets or startingTimestamp"
            )
    identities = {each.identity for each in have}
    # A checkpoint that shares its group now has left its own stamp on what rests.
    if len(identities - {stamps.shared_identity(standing.group)}) > 1:
        raise OffsetsError(
            f"group '{standing.group}' has offsets of several queries. Nothing was changed. Name "
            "the topics of one of them with --topics"
        )


def _commit(
    cluster: Connection, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> None:
    look = f"look with `eoskafka offsets show --group {group}`"
    with cluster.changing(f"group '{group}'", look):
        _commit_all(cluster, group, offsets)
    there = committed(cluster, group)
    wrong = [
        partition
        for partition, each in offsets.items()
        if partition not in there
        or (there[partition].offset, there[partition].metadata) != (each.offset, each.metadata)
    ]
    if wrong:
        raise OffsetsError(
            f"group '{group}' has other offsets now than were written, of {_names(wrong)}: "
            "somebody else has changed them since. Look at them, and repeat this"
        )


def _commit_all(
    cluster: Connection, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> None:
    everything = sorted(offsets)
    for begin in range(0, len(everything), _AT_A_TIME):
        part = everything[begin : begin + _AT_A_TIME]
        with cluster.admin() as admin:
            answer = admin.alter_group_offsets(group, {each: offsets[each] for each in part})
        refused = {p: error for p, error in answer.items() if error is not NoError}
        if refused:
            partition, error = next(iter(sorted(refused.items())))
            raise OffsetsError(
                f"the broker refused {len(refused)} of {len(everything)} offsets of group "
                f"'{group}', the first one of {_names([partition])}: {error.__name__}. "
                f"{begin} were changed before. UnknownMemberIdError means that somebody has "
                "joined the group since: stop it, and repeat this"
            )


def _names(partitions: Sequence[TopicPartition]) -> str:
    shown = ", ".join(f"{each.topic}-{each.partition}" for each in partitions[:10])
    return shown + (" ..." if len(partitions) > 10 else "")


# ---- giving offsets to a query


def adopt(
    bootstrap_servers: str,
    checkpoint: str,
    group: str = "",
    topics: Collection[str] = (),
    source: int | str | None = None,
    take_over: bool = False,
    at: str = "",
    client: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> Adoption:
    """Check a checkpoint before its query moves here, and give it the offsets of its group.

    Offsets that another application has committed, or that a tool has set, get the stamps of the
    checkpoint's query, which then goes on from them. A checkpoint of the built-in connector needs
    none: its log says where the query goes on.

    Args:
        bootstrap_servers: of the source's cluster, `host:port,...`.
        checkpoint: the query's `checkpointLocation`: a folder, or a URI that pyarrow knows. It need
            not exist yet.
        group: the query's `kafka.group.id`; empty where the checkpoint knows it.
        topics: the query's; none for all that the group has an offset of.
        source: which source of the query: its index, from 0, or its name. None stands for the only
            one, or for the first.
        take_over: also offsets of another query in task scope, whose checkpoint is lost. That query
            is refused from then on.
        at: where to go on, as in `startingOffsets`: for partitions whose offsets are gone from the
            group, or were replaced there by somebody else after the query had run. Those that it
            does not name stay as they are.
        client: further settings of kafka-python's clients.
        dry_run: change nothing.

    Raises:
        CheckpointError: the checkpoint cannot be read.
        OffsetsError: the query cannot go on from there. Nothing was changed.
        UnreachableError: the cluster does not answer, or not to this user.
    """
    place = Checkpoint(checkpoint, source)
    target = _Target.parse(at) if at else _Target()
    if at and not (target.offsets or target.by_topic):
        raise ConfigurationError(f'--at takes offsets such as {{"topic":{{"0":23}}}}, not {at!r}')
    identity = place.identity()
    if identity and group and identity.group != group:
        raise OffsetsError(
            f"{checkpoint} belongs to group '{identity.group}', not to '{group}'. Nothing was "
            "changed. To begin with the other group use a new checkpoint"
        )
    batch = place.last_batch()
    if not (identity or group or batch):
        raise OffsetsError(
            f"{checkpoint} knows no group, or there is no checkpoint. If the path is right, name "
            "the group whose offsets its query should have with --group"
        )
    owner = identity or place.new_identity(group)
    cluster = Connection(bootstrap_servers, client or {})
    with cluster.looking_at(f"group '{owner.group}'"):
        # Where others have gone on with the checkpoint, its log says where the query goes on: of
        # all its topics, since it is taken over once.
        if batch and identity is None:
            batch = replace(batch, log_is_ahead=True)
        logged = {partition.topic for partition in batch.end} if batch else set()
        if topics and not (batch and batch.log_is_ahead):
            logged &= set(topics)
        look = _look(cluster, owner.group, topics, _topics_named(target) | logged)
        if batch and batch.log_is_ahead and not at:
            return _taken_over(cluster, place, batch, owner, look.standing)
        return _adopted(cluster, place, owner, look, target, batch, take_over, dry_run)


def _taken_over(
    cluster: Connection, place: Checkpoint, batch: Batch, owner: Identity, standing: Standing
) -> Adoption:
    """Nothing is to be changed: the connector takes the log over at its start."""
    start = _start_of(place, batch)
    for each in standing.positions:
        if each.committed is None:
            continue
        if each.identity != owner.id:
            raise OffsetsError(
                f"{place.location} is a checkpoint of the built-in connector, whose log says where "
                f"the query continues, but group '{standing.group}' has offsets of others. Nothing "
                "was changed. Give the query another kafka.group.id"
            )
        logged = start.get(TopicPartition(each.topic, each.partition))
        if logged is not None and each.is_same_topic and each.committed > logged:
            raise OffsetsError(
                f"the log of {place.location} continues at offset {logged} of {each.topic}-"
                f"{each.partition}, but group '{standing.group}' is at {each.committed}: the "
                "checkpoint is an older copy, or another query has used its path. Nothing was "
                "changed. Say which one is right with --at, or use a new checkpoint and "
                "kafka.group.id"
            )
    with cluster.admin() as admin:
        ids = topic_ids(admin, {partition.topic for partition in start})
        missing = sorted(set(start) - set(ids))
        if missing:
            raise OffsetsError(
                f"{place.location} has read {_names(missing)}, and the cluster at "
                f"{cluster.servers} has no such partition. Nothing was changed. Is it this cluster?"
            )
        log = _Log(admin, sorted(start))
    for partition, offset in sorted(start.items()):
        if not log.start[partition] <= offset <= log.end[partition]:
            raise OffsetsError(
                f"{place.location} continues at offset {offset} of {_names([partition])}, which "
                f"has the offsets {log.start[partition]} to {log.end[partition]}. "
                "Nothing was changed. With failOnDataLoss=false the query continues with the "
                "records that exist"
            )
    is_open = not batch.committed
    return Adoption(
        Situation.BUILT_IN,
        standing.group,
        offset_json(start),
        open_batch=batch.number if is_open else None,
        open_records=(
            sum(max(0, end - start.get(p, end)) for p, end in batch.end.items())
            if is_open
            else None
        ),
    )


def _start_of(place: Checkpoint, batch: Batch) -> dict[TopicPartition, int]:
    start = batch.end if batch.committed else batch.start
    if start is None:
        raise OffsetsError(
            f"batch {batch.number} of {place.location} was not finished, and the checkpoint does "
            "not have its start. Nothing was changed. Let the built-in connector finish the batch"
        )
    return start


def _adopted(
    cluster: Connection,
    place: Checkpoint,
    owner: Identity,
    look: _Look,
    target: _Target,
    batch: Batch | None,
    take_over: bool,
    dry_run: bool,
) -> Adoption:
    standing, ids, everything = look.standing, look.topic_ids, look.positions
    with cluster.admin() as admin:
        named = target.of(admin, [p for p in ids if _is_named(p, target)], everything)
    have = {p: each for p, each in everything.items() if each.committed is not None}
    in_log = place.was_in_epoch_scope
    if batch and not batch.log_is_ahead:
        gone = sorted({*batch.end} & {*ids} - {*have} - {*named})
        if gone and not in_log:
            raise OffsetsError(_gone(place, standing.group, gone))
        if gone and not batch.committed:
            raise OffsetsError(_undecided(place, standing.group, gone, batch))
    if not have and not named and not in_log:
        raise OffsetsError(
            f"group '{standing.group}' has no offsets from which {place.location} could "
            "continue. Nothing was changed. A new query begins at its startingOffsets"
        )
    own = {owner.id, stamps.exclusive_identity(owner.group, owner.instance_id, owner.checkpoint_id)}
    foreign = {p: each for p, each in have.items() if each.identity not in own}
    news = {p: each.committed or 0 for p, each in foreign.items() if p in ids}
    if batch and batch.log_is_ahead:
        # What is not named goes on where the log says.
        news |= {p: offset for p, offset in _start_of(place, batch).items() if p in ids}
    news |= named
    start = {p: each.committed or 0 for p, each in have.items()} | news
    if in_log and batch:
        start = _start_of(place, batch) | start
    found = Adoption(
        Situation.ADOPTED if news else Situation.READY,
        standing.group,
        offset_json(start),
        is_new=not place.exists,
        without_offset=len(set(ids) - set(start)),
        moves=tuple(
            Move(p.topic, p.partition, each.committed if each else None, offset)
            for p, offset in sorted(news.items())
            for each in [everything.get(p)]
        ),
    )
    if not news:
        return found
    _refuse_alive(standing)
    _refuse_unadoptable(place, foreign, have, take_over)
    if batch and not batch.log_is_ahead:
        unstamped = {p: o for p, o in news.items() if p in foreign and p not in named}
        _refuse_overwritten(place, owner, batch, unstamped)
    if not dry_run:
        # Of a batch that no log has yet: with state the query is refused, which does not fit to it.
        epoch = batch.number + 1 if batch else -1
        stamp = stamps.Stamp(stamps.Scope.TASK, owner.id, "", "-", epoch)
        # First, so that a repetition goes on with the same identity.
        place.write_identity(owner)
        stamped = {
            p: OffsetAndMetadata(offset, stamps.encode(stamp._replace(topic_id=ids[p])), -1)
            for p, offset in news.items()
        }
        _commit(cluster, standing.group, stamped)
        if batch and batch.log_is_ahead:
            place.write_taken_over(batch.until)
    return found


def _refuse_overwritten(
    place: Checkpoint, owner: Identity, batch: Batch, unstamped: Mapping[TopicPartition, int]
) -> None:
    """Refuse offsets that have replaced those of a query which has run, unless they say the same.

    Whoever joins the group for a moment commits offsets of what it has read itself.
    """
    for partition, offset in sorted(unstamped.items()):
        end = batch.end.get(partition)
        if end is None or (offset == end and batch.committed and not owner.shared):
            continue
        where = (
            f"batch {batch.number} of {place.location} ends at offset {end} of "
            f"{_names([partition])}"
            + ("" if batch.committed else ", and whether it took effect is not known")
        )
        look = (
            "Another driver of the group may have gone further, so check the output"
            if owner.shared
            else f"Its last batch ends at {offset_json(batch.end)}. Check the output, since a "
            "batch that was not finished, a long batch or real-time mode may have stopped elsewhere"
        )
        raise OffsetsError(
            f"{where}. Group '{owner.group}' has offset {offset} there, which another application "
            "has committed or a tool has set in place of the query's own: records could be skipped "
            f"or written twice. Nothing was changed. {look}. Then say with --at where each "
            "partition continues: the first offset that has not taken effect"
        )


def _gone(place: Checkpoint, group: str, gone: Sequence[TopicPartition]) -> str:
    return (
        f"group '{group}' has no offset of {_names(gone)}, though {place.location} has run with "
        "it: it expired or was deleted, and whether the last batch took effect is not known. "
        "Nothing was changed. Check the output, and say with --at where these partitions continue. "
        "If a topic was created again, its query continues by itself with failOnDataLoss=false"
    )


def _undecided(place: Checkpoint, group: str, gone: Sequence[TopicPartition], batch: Batch) -> str:
    return (
        f"group '{group}' has no offset of {_names(gone)}, and batch {batch.number} of "
        f"{place.location} was not finished: only the query's decision topic knows whether it took "
        "effect. Nothing was changed. Start the query: it continues if the batch was decided. If "
        "not, it stops with EOSKAFKA_OFFSETS_GONE; then use a new checkpoint, another "
        f"kafka.group.id, and startingOffsets={offset_json(_start_of(place, batch))}"
    )


def _refuse_unadoptable(
    place: Checkpoint,
    foreign: Mapping[TopicPartition, Position],
    have: Mapping[TopicPartition, Position],
    take_over: bool,
) -> None:
    behind = [each for each in have.values() if each.scope not in ("", stamps.Scope.TASK.value)]
    if place.was_in_epoch_scope or behind:
        raise OffsetsError(
            f"{place.location} was in epoch scope, or without a sink of eoskafka: the checkpoint "
            "says where its query continues, and the query does not start while other offsets are "
            "in its group. Nothing was changed. If it was stopped between two batches (the highest "
            "number in the checkpoint's folder offsets is also in commits), delete the group with "
            "kafka-consumer-groups.sh --delete, and start the query. To continue elsewhere, start "
            "it with a new checkpoint and kafka.group.id, and with startingOffsets"
        )
    for partition, each in foreign.items():
        if each.kind in (stamps.Kind.OLDER.value, stamps.Kind.NEWER.value):
            raise OffsetsError(
                f"the offset of {_names([partition])} was committed by another version of eoskafka "
                f"({each.kind}). Nothing was changed; `eoskafka upgrade check` says how to move"
            )
        if each.kind == stamps.Kind.OURS.value and not take_over:
            raise OffsetsError(
                f"the offset of {_names([partition])} is that of another query (identity "
                f"{each.identity}). Nothing was changed. If that query will never run again and "
                "its checkpoint is lost, repeat this command with --take-over"
            )
