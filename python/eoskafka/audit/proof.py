"""The comparison of digests, in buckets that fit into memory one at a time."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack
from typing import Any, cast

import numpy as np
from confluent_kafka import Message
from numpy.typing import NDArray

from eoskafka.audit.reader import UndecidedError
from eoskafka.audit.record_id import NO_KEY, NoIdError, digest_of, id_of, key_number
from eoskafka.audit.request import By, Progress, Request
from eoskafka.audit.result import Example, Fault, Tally, Verdict
from eoskafka.audit.slices import Slice, read
from eoskafka.audit.spill import Spill
from eoskafka.audit.tables import Table
from eoskafka.brokers.connection import Connection
from eoskafka.dead_letters import Origin

MUST, MAY, OUT = range(3)
ENTRY = np.dtype(
    [
        *(("high", "<u8"), ("low", "<u8"), ("key", "<u8"), ("offset", "<i8")),
        *(("place", "<u4"), ("side", "u1")),
    ]
)
# An input record and the one output record of the same id and key.
PAIR = np.dtype(
    [("key", "<u8"), ("out", "<i8"), ("in", "<i8"), ("out_place", "<u4"), ("in_place", "<u4")]
)
_FAULTS = (Fault.LOST, Fault.DUPLICATED, Fault.UNEXPECTED, Fault.REORDERED)
# Two things share `--memory`: the buckets of records, and those of their order.
_MEMORY_PARTS = 2


class Proof:
    """The records of all sides on disk, as digests, and their comparison."""

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
        self._id = id_of(request)
        self._places = sorted({each.partition for each in slices})
        self._numbers = {(p.topic, p.partition): n for n, p in enumerate(self._places)}
        self._counts = [0, 0, 0]
        self._tally = Tally[Example](_FAULTS)
        self._ordered = self._alike = self._dead_letters = 0
        memory = request.memory // _MEMORY_PARTS
        self._closing = ExitStack()
        self._entries = self._closing.enter_context(
            Spill(
                *(request.folder, ENTRY, "low", memory),
                "give --memory, or tell records apart by something else",
                expected=records,
            )
        )
        self._pairs = self._closing.enter_context(
            Spill(
                *(request.folder, PAIR, "key", memory),
                "they have one key; give --memory, or --no-order",
                expected=records // 2,
            )
        )

    def __enter__(self) -> Proof:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def take(self, slices: Collection[Slice], side: int, what: str) -> None:
        """Take the records of one side."""
        records = sum(each.end - each.start for each in slices)
        if records == 0:
            return
        self._progress.begins(what, records)

        # A record without an id is identified by its place, which its dead letter also names.
        by_place = bool(self._request.dead_letters) and side != OUT

        def add(messages: list[Message]) -> None:
            places = [_place(m) if by_place else None for m in messages]
            self._add_records(messages, list(map(self._digest, messages, places)), side)

        read(self._cluster, slices, add)

    def take_dead_letters(self, slices: Collection[Slice]) -> None:
        """Take the dead letters of the input's topics, each of which has its record's id."""
        self._progress.begins("dead letters", sum(each.end - each.start for each in slices))
        before = self._counts[OUT]
        query = self._request.dead_letters_query
        found: set[str] = set()

        def add(messages: list[Message]) -> None:
            chosen, digests = [], []
            for message in messages:
                origin = Origin.of(cast("list[tuple[str, bytes]] | None", message.headers()))
                if not origin.topic or origin.partition < 0 or origin.offset < 0:
                    topic, partition, offset = _place(message)
                    raise UndecidedError(
                        f"{topic}-{partition}, offset {offset}: it has no headers of a dead letter"
                    )
                if origin.topic in self._request.inputs and query in ("", origin.query):
                    found.add(origin.query)
                    _require_one_query(found)
                    place = origin.topic, origin.partition, origin.offset
                    chosen.append(message)
                    digests.append(self._digest(message, place))
            self._add_records(chosen, digests, OUT)

        read(self._cluster, slices, add)
        self._dead_letters = self._counts[OUT] - before

    def _add_records(self, messages: list[Message], digests: list[bytes], side: int) -> None:
        entries = _entries(b"".join(digests))
        entries["key"] = [key_number(m.key()) for m in messages]
        entries["offset"] = [m.offset() for m in messages]
        entries["place"] = [self._numbers[str(m.topic()), m.partition()] for m in messages]
        self._add(entries, side)

    def _digest(self, message: Message, place: tuple[str, int, int] | None) -> bytes:
        """The digest of the record's id; if it has none, of its place, if one is given."""
        try:
            return digest_of(self._id(message.key(), message.value()))
        except NoIdError as error:
            if place is not None:
                topic, partition, offset = place
                return digest_of((topic.encode(), b"%d" % partition, b"%d" % offset))
            topic, partition, offset = _place(message)
            raise UndecidedError(f"{topic}-{partition}, offset {offset}: {error}") from error

    def take_table(self, table: Table) -> None:
        """Take the rows of an expected table."""
        self._progress.begins("expected rows", table.rows)
        for keys, values in table.portions():
            first = self._counts[MUST]
            digests = []
            for number, (key, value) in enumerate(zip(keys, values, strict=True), start=first):
                try:
                    digests.append(digest_of(self._id(key, value)))
                except NoIdError as error:
                    raise UndecidedError(f"expected row {number}: {error}") from error
            entries = _entries(b"".join(digests))
            entries["offset"] = np.arange(first, first + len(entries))
            entries["place"] = len(self._places)
            self._add(entries, MUST)

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
            inputs=self._counts[MUST],
            optional=self._counts[MAY],
            outputs=self._counts[OUT] - self._dead_letters,
            faults=self._tally.counts(),
            ordered=self._ordered,
            alike=self._alike,
            dead_letters=self._dead_letters,
            examples=tuple(self._tally.named),
        )

    def _compare(self, bucket: NDArray[Any]) -> None:
        # Sort by id; within an id: required inputs, optional inputs, outputs.
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
        self._found(Fault.LOST, lost, bucket[first])
        self._found(Fault.DUPLICATED, np.where(most > 0, surplus, 0), bucket[last])
        self._found(Fault.UNEXPECTED, np.where(most > 0, 0, surplus), bucket[last])
        # Records with the same key and value are interchangeable, unless some are optional: an
        # optional record in the output would then hide the loss of a required one.
        can_be_the_same = self._request.by is By.DIGEST and not self._request.id_field
        alike = may > 0 if can_be_the_same else most > 1
        self._alike += int(must[(must > 0) & alike].sum())
        if self._request.ordered and self._request.expected is None:
            single = (most == 1) & (out == 1)
            given, made = bucket[first[single]], bucket[last[single]]
            keyed = (given["key"] == made["key"]) & (given["key"] != NO_KEY)
            given, made = given[keyed], made[keyed]
            pairs = np.zeros(len(given), dtype=PAIR)
            pairs["key"] = given["key"]
            pairs["in"], pairs["in_place"] = given["offset"], given["place"]
            pairs["out"], pairs["out_place"] = made["offset"], made["place"]
            self._pairs.add(pairs)
            self._ordered += len(pairs)

    def _look_at_order(self, pairs: NDArray[Any]) -> None:
        """For each pair of partitions, a key's input offsets must rise with its output offsets."""
        order = np.lexsort((pairs["out"], pairs["out_place"], pairs["in_place"], pairs["key"]))
        pairs = pairs[order]
        late = np.zeros(len(pairs), dtype=bool)
        late[1:] = pairs["in"][1:] < pairs["in"][:-1]
        for name in ("key", "in_place", "out_place"):
            late[1:] &= pairs[name][1:] == pairs[name][:-1]
        late = pairs[late]
        self._count(Fault.REORDERED, len(late), late["out_place"], late["out"])

    def _found(self, fault: Fault, numbers: NDArray[np.int64], entries: NDArray[Any]) -> None:
        wrong = entries[numbers > 0]
        self._count(fault, int(numbers.sum()), wrong["place"], wrong["offset"])

    def _count(
        self, fault: Fault, number: int, places: NDArray[Any], offsets: NDArray[Any]
    ) -> None:
        for place, offset in zip(places[: self._tally.room(fault)], offsets, strict=False):
            topic, partition = (
                ("", 0) if place == len(self._places) else tuple(self._places[place])[:2]
            )
            self._tally.name(Example(fault, topic, partition, int(offset)))
        self._tally.count(fault, number)


def _require_one_query(names: Collection[str]) -> None:
    """A dead letter of another query could stand in for a record that this one has lost."""
    if len(names) > 1:
        known = [repr(name) for name in sorted(names) if name]
        raise UndecidedError(
            f"the dead letters of the input are of several queries ({', '.join(known)}"
            f"{' and one without a name' if '' in names else ''}), so a dead letter of another "
            "query could hide a lost record. Name this query with --dead-letters-query"
        )


def _place(message: Message) -> tuple[str, int, int]:
    return str(message.topic()), int(message.partition() or 0), int(message.offset() or 0)


def _entries(digests: bytes) -> NDArray[Any]:
    ids = np.frombuffer(digests, dtype="<u8").reshape(-1, 2)
    entries = np.zeros(len(ids), dtype=ENTRY)
    entries["high"], entries["low"] = ids[:, 0], ids[:, 1]
    return entries
