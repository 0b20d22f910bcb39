"""Stamps: what the metadata of a committed offset says of who committed it, and how.

The connector writes them (`io.eoskafka.identity.Stamp`); their text is the same for ever:

    eoskafka:<version>:<scope>:<identity>:<topic id>:<sink cluster>:<epoch>
"""

from __future__ import annotations

import base64
import enum
import hashlib
import re
from typing import NamedTuple

VERSION = 1

_MARK = "eoskafka:"
_ANY_VERSION = re.compile(r"eoskafka:([0-9]{1,9}):")
_FORM = re.compile(
    r"eoskafka:([0-9]{1,9}):([tes]):([A-Za-z0-9_-]{22}):([A-Za-z0-9_-]{1,22}):"
    r"([A-Za-z0-9_-]{1,32}):(-?[0-9]{1,18})"
)


class Scope(str, enum.Enum):
    """Which log is authoritative after a restart."""

    TASK = "task"
    EPOCH = "epoch"
    SOURCE_ONLY = "source_only"


_SCOPES = {"t": Scope.TASK, "e": Scope.EPOCH, "s": Scope.SOURCE_ONLY}


class Kind(str, enum.Enum):
    """What the metadata of an offset turns out to be."""

    OURS = "ours"
    NONE = "none"
    OLDER = "older"
    NEWER = "newer"


class Stamp(NamedTuple):
    """A stamp of this version.

    Attributes:
        scope: in which scope the offset was committed.
        identity: whose it is, 22 characters.
        topic_id: the topic's id when it was committed.
        sink_cluster: the id of the sink's cluster, or `-` where it is the source's own.
        epoch: the micro-batch, or -1 before the first.
    """

    scope: Scope
    identity: str
    topic_id: str
    sink_cluster: str
    epoch: int


def parse(metadata: str | None) -> Stamp | None:
    """The stamp in an offset's metadata; None where there is none of this version."""
    match = _FORM.fullmatch(metadata or "")
    if match is None or int(match[1]) != VERSION:
        return None
    return Stamp(_SCOPES[match[2]], match[3], match[4], match[5], int(match[6]))


def kind_of(metadata: str | None) -> Kind:
    """Tell a stamp of this version from none and from those of other versions."""
    if not (metadata or "").startswith(_MARK):
        return Kind.NONE
    if parse(metadata) is not None:
        return Kind.OURS
    version = _ANY_VERSION.match(metadata or "")
    return Kind.OLDER if version and int(version[1]) < VERSION else Kind.NEWER


def encode(stamp: Stamp) -> str:
    """The metadata of an offset with this stamp."""
    (code,) = (code for code, scope in _SCOPES.items() if scope is stamp.scope)
    return f"{_MARK}{VERSION}:{code}:{':'.join(map(str, stamp[1:]))}"


def shared_identity(group: str) -> str:
    """The identity in the stamps of a group's drivers with `ownership=shared`."""
    return digest(f"shared:{group}")


def exclusive_identity(group: str, instance_id: str, checkpoint_id: str) -> str:
    """The identity in the stamps of a checkpoint's driver with `ownership=exclusive`."""
    # The connector's lengths are those of Java's strings.
    lengths = [len(text.encode("utf-16-be")) // 2 for text in (group, instance_id)]
    return digest(f"{lengths[0]}:{group}{lengths[1]}:{instance_id}{checkpoint_id}")


def digest(text: str) -> str:
    """128 bits of SHA-256 in 22 characters, as all identities are made."""
    found = hashlib.sha256(text.encode()).digest()[:16]
    return base64.urlsafe_b64encode(found).decode().rstrip("=")
