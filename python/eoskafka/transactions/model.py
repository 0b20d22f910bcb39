"""What the functions of this package return, and what a transactional id says of its owner."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

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
        kind: what it is for; OTHER if the id does not begin with the prefix.
        owner: whose it is, 22 characters: the identity in a group's stamps (TASK; in a shared group
            that of its driver), or the query's or job's id; empty if it is not eoskafka's.
        state: its state, under Kafka's name.
        producer_id: the producer's id.
        producer_epoch: the producer's epoch.
        timeout_ms: the time after which the coordinator aborts it by itself.
        started_ms: when it began, in ms since 1970; None if nothing is open.
        age_ms: how long it is open, by the clock of this machine; None if nothing is open.
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
        """True while `read_committed` readers may wait for it."""
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
        is_hanging: whether no coordinator will ever end it (KIP-664), so that records stay hidden
            until somebody ends it.
        producer_id: of that transaction's producer.
        is_unknown: whether a coordinator may know it after all: one did not answer or is a former
            one, or this user may not describe every transactional id. It is then not said to be
            hanging.
    """

    topic: str
    partition: int
    stable: int
    end: int
    transactional_id: str
    is_hanging: bool
    producer_id: int
    is_unknown: bool = False


def kind_and_owner(name: str, prefix: str) -> tuple[Kind, str]:
    """What a transactional id is for, and whose it is; OTHER if it does not begin with `prefix`."""
    if name.startswith(f"{prefix}-"):
        for kind, form in _FORMS:
            found = form.fullmatch(name)
            if found:
                return kind, found[1]
    return Kind.OTHER, ""
