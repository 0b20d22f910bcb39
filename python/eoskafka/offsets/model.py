"""What the functions of this package return, and `eoskafka offsets` prints as JSON."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field


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
        scope: `task`, `epoch` or `source_only` if it is ours.
        identity: of the query that committed it, 22 characters.
        epoch: the micro-batch that committed it, -1 before the first.
        is_same_topic: False if the topic was deleted and created again since.
        log_start: the first offset that the log has.
        end: how far a `read_committed` query can read now: the last stable offset.
        open_records: offsets beyond that, of transactions that are open.
        lag: offsets from `committed` to `end`; None if nothing is committed, or if the topic was
            deleted.
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
        ownership: `exclusive` or `shared`; empty if no offset has a stamp.
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
        before: the offset until then; None if there was none.
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
    OTHER_SINK = "other_sink"
    ADOPTED = "adopted"


@dataclass(frozen=True)
class Adoption:
    """What `adopt` has found and done.

    Attributes:
        situation: READY if the query can start as it is; BUILT_IN if its checkpoint is the built-in
            connector's and can be taken over; OTHER_SINK if eoskafka's source has run it with
            another sink, such as `foreachBatch`, so that its log says where it continues, whichever
            connector has run it last; ADOPTED if its group's offsets were given to it.
        group: the query's; empty if the query chooses it at its first start.
        start: where the query continues, by topic and partition as in `startingOffsets`.
        open_batch: for BUILT_IN and OTHER_SINK, the last batch if it was not finished, else None:
            records that it has already written may be written again.
        open_records: number of offsets of that batch, or None if its start is not known.
        is_new: whether there was no checkpoint, so that one is created for the query.
        without_offset: partitions that have no offset: the query reads them from their beginning.
        moves: the offsets that get the query's stamp.
    """

    situation: Situation
    group: str
    start: str
    open_batch: int | None = None
    open_records: int | None = None
    is_new: bool = False
    without_offset: int = 0
    moves: tuple[Move, ...] = field(default=())
