"""Proof of a query's outcome on topics of any size: each input record out once, in its key's order.

Records are told apart by an id: their key, value, both, or a field of their JSON. Of each one only
a digest of its id and its place are kept, on disk, in buckets that fit into memory one at a time.
So records with the same id meet, wherever they are.

The query may run while it is looked at (`slices.py`). What cannot be decided is no verdict.
"""

from __future__ import annotations

import enum
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from confluent_kafka import Message
from kafka import TopicPartition
from numpy.typing import NDArray

from eoskafka.audit.reader import UndecidedError
from eoskafka.audit.slices import Slice, look, read, require_same_topics
from eoskafka.audit.spill import Spill
from eoskafka.audit.tables import Table
from eoskafka.errors import ConfigurationError
from eoskafka.groups import Connection

# Enough to see a pattern; the counts are complete.
NAMED_PER_FAULT = 5
_KEY_SHOWN = 100

_MUST, _MAY, _OUT = range(3)
_ENTRY = np.dtype(
    [
        *(("high", "<u8"), ("low", "<u8"), ("key", "<u8"), ("offset", "<i8")),
        *(("place", "<u4"), ("side", "u1")),
    ]
)
# An input record and the one output record of the same id and key.
_PAIR = np.dtype(
    [("key", "<u8"), ("out", "<i8"), ("in", "<i8"), ("out_place", "<u4"), ("in_place", "<u4")]
)
_NO_KEY = 0
# Between the two parts of `--memory`: the buckets of records, and those of their order.
_PARTS = 2


class By(str, enum.Enum):
    """What a record is told apart by."""

    KEY = "key"
    VALUE = "value"
    DIGEST = "digest"


class Wrong(str, enum.Enum):
    """What can be wrong."""

    LOST = "lost"
    DUPLICATED = "duplicated"
    UNEXPECTED = "unexpected"
    REORDERED = "reordered"


@dataclass(frozen=True)
class Example:
    """One record that is wrong, for `LOST` the input's, else the output's.

    Attributes:
        topic: of the record; empty for a row of an expected table.
        partition: of the record.
        offset: of the record; of a row its number.
        key: of the record, as text; None where it has none or was not read again.
    """

    fault: Wrong
    topic: str
    partition: int
    offset: int
    key: str | None = None

    def __str__(self) -> str:
        where = f"{self.topic}-{self.partition}, offset" if self.topic else "expected row"
        key = "" if self.key is None else f", key {self.key!r}"
        return f"{self.fault.value}: {where} {self.offset}{key}"


@dataclass(frozen=True)
class Verdict:
    """The outcome.

    Attributes:
        inputs: records that had to come out.
        optional: records that may have: after the group's offsets, or before the query's start.
        outputs: records that came out.
        faults: number of records per fault, complete; zeros included. `REORDERED` are those that
            came out just after a later one of the same key, both from one partition to one.
        ordered: number of records whose order was looked at: those with an id that only they have
            and the same key in input and output.
        alike: input records that share their id with others, and are not the same records: whether
            one of them is lost where another is there twice cannot be told.
        examples: at most `NAMED_PER_FAULT` of each fault.
    """

    inputs: int
    optional: int
    outputs: int
    faults: dict[Wrong, int]
    ordered: int
    alike: int
    examples: tuple[Example, ...]

    @property
    def is_exactly_once(self) -> bool:
        """True if every record came out once, and nothing else did; the order aside."""
        return not any(n for fault, n in self.faults.items() if fault is not Wrong.REORDERED)

    @property
    def holds(self) -> bool:
        """True if nothing is wrong."""
        return not any(self.faults.values())


class Progress(Protocol):
    """Hears how far it is."""

    def begins(self, what: str, records: int) -> None:
        """Something begins that has about so many records."""

    def read(self, records: int) -> None:
        """So many more are done."""


@dataclass(frozen=True)
class Request:
    """What to verify.

    Attributes:
        outputs: topics that the query writes to.
        by: what a record is told apart by.
        inputs: topics that it reads; empty where `expected` says what should come out.
        group: whose offsets say how far it has got; empty where it must have read everything.
        id_field: instead of `by`: a field of the JSON in each value, such as order.id.
        expected: a Parquet file or folder, or a Delta table, with columns `key`, `value` or both.
        input_starts: where the query began; a topic that is not there: at offset 0.
        output_starts: where its output begins, likewise.
        ordered: whether to look at the order within keys.
        wait_s: how long open transactions may take to end, in seconds.
        memory: that comparing may take, in bytes.
        folder: for temporary files, about 40 bytes a record of input and output and as much again
            for their order; None for the system's.
    """

    outputs: Sequence[str]
    by: By
    inputs: Sequence[str] = ()
    group: str = ""
    id_field: str = ""
    expected: Path | None = None
    input_starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    output_starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    ordered: bool = True
    wait_s: float = 10.0
    memory: int = 512 << 20
    folder: Path | None = None


def verify(cluster: Connection, request: Request, progress: Progress) -> Verdict:
    """Compare what came out with what should have.

    Raises:
        UndecidedError: an open transaction hides records, some are gone, a record has no id, there
            is nothing to compare, or no room for the comparison.
        ConfigurationError: the request does not fit together, or a setting is not known.
        UnreachableError: the brokers do not answer.
    """
    table = None if request.expected is None else Table(request.expected, _columns(request))
    slices = look(
        cluster,
        inputs=request.inputs,
        outputs=request.outputs,
        group=request.group,
        input_starts=request.input_starts,
        output_starts=request.output_starts,
        wait_s=request.wait_s,
    )
    records = sum(each.end - each.start for each in slices.everything)
    records += table.rows if table else 0
    _require_room(request, records)
    try:
        with _Proof(cluster, request, progress, slices.everything, records) as proof:
            if table is not None:
                proof.take_table(table)
            proof.take(slices.must, _MUST, "input")
            proof.take(slices.later, _MAY, "input after the group's offsets")
            proof.take(slices.earlier, _MAY, "input before the start")
            proof.take(slices.outputs, _OUT, "output")
            require_same_topics(cluster, slices)
            verdict = proof.verdict()
    except (OSError, MemoryError, pa.ArrowException) as error:
        raise UndecidedError(f"the comparison could not be made: {error!r}") from error
    if verdict.inputs == verdict.outputs == 0:
        raise UndecidedError("there is nothing to compare: no input that must be out, no output")
    examples = tuple(_with_key(cluster, each) for each in verdict.examples)
    return replace(verdict, examples=examples)


def _with_key(cluster: Connection, example: Example) -> Example:
    """The comparison has digests only, so its record is read again."""
    if not example.topic:
        return example
    found: list[Message] = []
    place = TopicPartition(example.topic, example.partition)
    try:
        read(cluster, [Slice(place, example.offset, example.offset + 1)], found.extend)
    except UndecidedError:
        # Gone meanwhile; the verdict stands.
        return example
    key = found[0].key() if found else None
    return example if key is None else replace(example, key=_shown(key))


def _shown(key: bytes | str) -> str:
    text = key if isinstance(key, str) else key.decode(errors="backslashreplace")
    return text if len(text) <= _KEY_SHOWN else f"{text[:_KEY_SHOWN]}..."


def _columns(request: Request) -> tuple[str, ...]:
    if request.id_field:
        return ("value",)
    return {By.KEY: ("key",), By.VALUE: ("value",), By.DIGEST: ("key", "value")}[request.by]


def _require_room(request: Request, records: int) -> None:
    folder = request.folder or Path(tempfile.gettempdir())
    if not folder.is_dir():
        raise ConfigurationError(f"there is no folder {folder}")
    needed = records * (_ENTRY.itemsize + (_PAIR.itemsize // 2 if request.ordered else 0))
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise UndecidedError(
            f"{records:,} records need {needed >> 20:,} MiB for the comparison, and {folder} has "
            f"{free >> 20:,}: give another --folder"
        )


class _Proof:
    def __init__(
        self,
        cluster: Connection,
        request: Request,
        progress: Progress,
        slices: Collection[Slice],
        records: int,
    ) -> None:
        self._cluster = cluster
        self._request = request
        self._progress = progress
        self._id = _id_of(request)
        self._places = sorted({each.partition for each in slices})
        self._numbers = {(p.topic, p.partition): n for n, p in enumerate(self._places)}
        self._counts = [0, 0, 0]
        self._faults: Counter[Wrong] = Counter()
        self._examples: list[Example] = []
        self._ordered = self._alike = 0
        memory = request.memory // _PARTS
        self._closing = ExitStack()
        self._entries = self._closing.enter_context(
            Spill(
                *(request.folder, _ENTRY, "low", memory),
                "give --memory, or tell records apart by something else",
                expected=records,
            )
        )
        self._pairs = self._closing.enter_context(
            Spill(
                *(request.folder, _PAIR, "key", memory),
                "they have one key; give --memory, or --no-order",
                expected=records // 2,
            )
        )

    def __enter__(self) -> _Proof:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def take(self, slices: Collection[Slice], side: int, what: str) -> None:
        """Take the records of one side."""
        records = sum(each.end - each.start for each in slices)
        if records == 0:
            return
        self._progress.begins(what, records)

        def add(messages: list[Message]) -> None:
            entries = _entries(b"".join(map(self._digest, messages)))
            entries["key"] = [_key_number(m.key()) for m in messages]
            entries["offset"] = [m.offset() for m in messages]
            entries["place"] = [self._numbers[str(m.topic()), m.partition()] for m in messages]
            self._add(entries, side)

        read(self._cluster, slices, add)

    def _digest(self, message: Message) -> bytes:
        try:
            return _digest(self._id(message.key(), message.value()))
        except _NoIdError as error:
            raise UndecidedError(
                f"{message.topic()}-{message.partition()}, offset {message.offset()}: {error}"
            ) from error

    def take_table(self, table: Table) -> None:
        """Take the rows of an expected table."""
        self._progress.begins("expected rows", table.rows)
        for keys, values in table.portions():
            first = self._counts[_MUST]
            digests = []
            for number, (key, value) in enumerate(zip(keys, values, strict=True), start=first):
                try:
                    digests.append(_digest(self._id(key, value)))
                except _NoIdError as error:
                    raise UndecidedError(f"expected row {number}: {error}") from error
            entries = _entries(b"".join(digests))
            entries["offset"] = np.arange(first, first + len(entries))
            entries["place"] = len(self._places)
            self._add(entries, _MUST)

    def _add(self, entries: NDArray[Any], side: int) -> None:
        entries["side"] = side
        self._entries.add(entries)
        self._counts[side] += len(entries)
        self._progress.read(len(entries))

    def verdict(self) -> Verdict:
        """The comparison."""
        self._progress.begins("comparing", sum(self._counts))
        for bucket in self._entries:
            self._compare(bucket)
            self._progress.read(len(bucket))
        self._progress.begins("order", self._ordered)
        for bucket in self._pairs:
            self._look_at_order(bucket)
            self._progress.read(len(bucket))
        return Verdict(
            inputs=self._counts[_MUST],
            optional=self._counts[_MAY],
            outputs=self._counts[_OUT],
            faults={fault: self._faults[fault] for fault in Wrong},
            ordered=self._ordered,
            alike=self._alike,
            examples=tuple(self._examples),
        )

    def _compare(self, bucket: NDArray[Any]) -> None:
        # By id, then what must be, what may be, and what is.
        order = np.lexsort((bucket["offset"], bucket["side"], bucket["high"], bucket["low"]))
        bucket = bucket[order]
        new = np.ones(len(bucket), dtype=bool)
        new[1:] = (bucket["low"][1:] != bucket["low"][:-1]) | (
            bucket["high"][1:] != bucket["high"][:-1]
        )
        first = np.flatnonzero(new)
        group = np.cumsum(new) - 1
        must, may, out = (
            np.bincount(group[bucket["side"] == side], minlength=len(first)) for side in range(3)
        )
        most = must + may
        lost = np.maximum(must - out, 0)
        surplus = np.maximum(out - most, 0)
        last = first + most + out - 1
        self._found(Wrong.LOST, lost, bucket[first])
        self._found(Wrong.DUPLICATED, np.where(most > 0, surplus, 0), bucket[last])
        self._found(Wrong.UNEXPECTED, np.where(most > 0, 0, surplus), bucket[last])
        if self._request.id_field or self._request.by is not By.DIGEST:
            # With the same key and value they are the same records.
            self._alike += int(must[(must > 0) & (most > 1)].sum())
        if self._request.ordered and self._request.expected is None:
            single = (most == 1) & (out == 1)
            given, made = bucket[first[single]], bucket[last[single]]
            keyed = (given["key"] == made["key"]) & (given["key"] != _NO_KEY)
            given, made = given[keyed], made[keyed]
            pairs = np.zeros(len(given), dtype=_PAIR)
            pairs["key"] = given["key"]
            pairs["in"], pairs["in_place"] = given["offset"], given["place"]
            pairs["out"], pairs["out_place"] = made["offset"], made["place"]
            self._pairs.add(pairs)
            self._ordered += len(pairs)

    def _look_at_order(self, pairs: NDArray[Any]) -> None:
        """From one partition to one, the input offsets of a key must rise with the output's."""
        order = np.lexsort((pairs["out"], pairs["out_place"], pairs["in_place"], pairs["key"]))
        pairs = pairs[order]
        late = np.zeros(len(pairs), dtype=bool)
        late[1:] = pairs["in"][1:] < pairs["in"][:-1]
        for name in ("key", "in_place", "out_place"):
            late[1:] &= pairs[name][1:] == pairs[name][:-1]
        late = pairs[late]
        self._count(Wrong.REORDERED, len(late), late["out_place"], late["out"])

    def _found(self, fault: Wrong, numbers: NDArray[np.int64], entries: NDArray[Any]) -> None:
        wrong = entries[numbers > 0]
        self._count(fault, int(numbers.sum()), wrong["place"], wrong["offset"])

    def _count(
        self, fault: Wrong, number: int, places: NDArray[Any], offsets: NDArray[Any]
    ) -> None:
        named = sum(each.fault is fault for each in self._examples)
        for place, offset in zip(places[: NAMED_PER_FAULT - named], offsets, strict=False):
            topic, partition = (
                ("", 0) if place == len(self._places) else tuple(self._places[place])[:2]
            )
            self._examples.append(Example(fault, topic, partition, int(offset)))
        self._faults[fault] += number


class _NoIdError(Exception):
    """A record has nothing that it could be told apart by."""


def _id_of(request: Request) -> Callable[[bytes | None, bytes | None], tuple[bytes | None, ...]]:
    """What a record with this key and value is told apart by."""

    def key_alone(key: bytes | None, _value: bytes | None) -> tuple[bytes | None, ...]:
        if key is None:
            raise _NoIdError("it has no key, so tell records apart by value or a field of it")
        return (key,)

    def value_alone(_key: bytes | None, value: bytes | None) -> tuple[bytes | None, ...]:
        return (value,)

    def both(key: bytes | None, value: bytes | None) -> tuple[bytes | None, ...]:
        return (key, value)

    path = request.id_field.split(".")

    def in_json(_key: bytes | None, value: bytes | None) -> tuple[bytes | None, ...]:
        try:
            found = json.loads(value or b"null")
            for name in path:
                found = found[name]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise _NoIdError(f"its value has no field {request.id_field}") from error
        if found is None:
            raise _NoIdError(f"its field {request.id_field} is null")
        return (json.dumps(found, sort_keys=True).encode(),)

    if request.id_field:
        return in_json
    return {By.KEY: key_alone, By.VALUE: value_alone, By.DIGEST: both}[request.by]


def _entries(digests: bytes) -> NDArray[Any]:
    ids = np.frombuffer(digests, dtype="<u8").reshape(-1, 2)
    entries = np.zeros(len(ids), dtype=_ENTRY)
    entries["high"], entries["low"] = ids[:, 0], ids[:, 1]
    return entries


def _digest(parts: Iterable[bytes | None]) -> bytes:
    """Of an id: 16 bytes, so that no two ids have the same by chance."""
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(b"-" if part is None else b"%d:%b" % (len(part), part))
    return digest.digest()


def _key_number(key: bytes | None) -> int:
    if key is None:
        return _NO_KEY
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "little") or 1
