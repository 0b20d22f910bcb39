"""What the connector makes of its own inputs, asked of Python.

A line is a JSON list of a reader's name, an input, and what the connector has read
(`io.eoskafka.foreign.Corpus` writes it).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from eoskafka import _by_partition, stamps
from eoskafka.errors import TransactionError
from eoskafka.transactions import Kind
from eoskafka.transactions.model import kind_and_owner

from fuzz.readers import OWNER, Log

_KINDS = {"NONE": "none", "OLDER_PROTOCOL": "older", "NEWER_PROTOCOL": "newer"}


def agrees(line: str) -> bool:
    """Whether Python reads an input as the connector does."""
    reader, given, read = json.loads(line)
    return bool(_READERS[reader](given, read))


def _stamp(text: str, read: str) -> bool:
    found = stamps.parse(text)
    if found is None:
        return stamps.kind_of(text).value == _KINDS.get(read)
    return stamps.encode(found) == read


def _id(name: str, read: str) -> bool:
    prefix = name.partition("-")[0]
    if not prefix:
        # Python looks at names with a prefix only.
        return True
    kind, owner = kind_and_owner(name, prefix)
    is_writer = kind in (Kind.WRITER, Kind.JOB) and not name.endswith("-decisions")
    if owner != OWNER or not (is_writer or kind is Kind.TASK):
        return read == ""
    if kind is Kind.TASK:
        return read == "slot"
    run = name.rpartition("-w")[2].partition(".")[0]
    return read == str(int(run))


def _entries(given: list[Any], read: Any) -> bool:
    _owner, prefix, partitions, records = given
    entries = Log(prefix, partitions, [(key, value) for key, value in records]).read()
    try:
        run = entries.run()
        decision = entries.last(prefix, partitions)
    except TransactionError:
        return bool(read == "refused")
    found = {
        "run": run.number if run else 0,
        "epoch": decision.epoch if decision else -1,
        "transactions": sorted(map(list, decision.transactions)) if decision else [],
    }
    return read != "refused" and found == {**read, "transactions": sorted(read["transactions"])}


def _offsets(text: str, read: dict[str, int] | None) -> bool:
    try:
        found = _by_partition.parse(text)
    except ValueError:
        return read is None
    return read == {f"{each.topic}-{each.partition}": offset for each, offset in found.items()}


_READERS: dict[str, Callable[[Any, Any], bool]] = {
    "stamp": _stamp,
    "id": _id,
    "entries": _entries,
    "offsets": _offsets,
}
