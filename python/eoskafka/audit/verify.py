"""Proof of a query's outcome on topics of any size: each input record out once, in its key's order.

An id identifies a record: its key, its value, both, or a field of its JSON. The comparison keeps a
digest of each record's id and its place, on disk, in buckets that fit into memory one at a time. So
records with the same id meet, wherever they are.

The query may run meanwhile (`slices.py`). If something cannot be decided, there is no verdict.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from confluent_kafka import Message
from kafka import TopicPartition

from eoskafka.audit.proof import ENTRY, MAY, MUST, OUT, PAIR, Proof
from eoskafka.audit.reader import UndecidedError
from eoskafka.audit.request import Progress, Request, columns
from eoskafka.audit.result import Example, Verdict
from eoskafka.audit.slices import Slice, look, read, require_same_topics
from eoskafka.audit.tables import Table
from eoskafka.brokers.connection import Connection
from eoskafka.errors import ConfigurationError

_KEY_SHOWN = 100


def verify(cluster: Connection, request: Request, progress: Progress) -> Verdict:
    """Compare what came out with what should have.

    Raises:
        UndecidedError: an open transaction hides records, records were deleted, a record has no id,
            there is nothing to compare, or the comparison has no room.
        ConfigurationError: the request contradicts itself, or a setting is unknown.
        UnreachableError: the brokers do not answer.
    """
    table = None if request.expected is None else Table(request.expected, columns(request))
    slices = look(
        cluster,
        inputs=request.inputs,
        outputs=[*request.outputs, *request.dead_letters],
        group=request.group,
        input_starts=request.input_starts,
        output_starts=request.output_starts,
        wait_s=request.wait_s,
    )
    records = sum(each.end - each.start for each in slices.everything)
    records += table.rows if table else 0
    _require_room(request, records)
    try:
        with Proof(cluster, request, progress, slices.everything, records) as proof:
            if table is not None:
                proof.take_table(table)
            proof.take(slices.must, MUST, "input")
            proof.take(slices.later, MAY, "input after the group's offsets")
            proof.take(slices.earlier, MAY, "input before the start")
            letters = [s for s in slices.outputs if s.partition.topic in request.dead_letters]
            proof.take([s for s in slices.outputs if s not in letters], OUT, "output")
            proof.take_dead_letters(letters)
            require_same_topics(cluster, slices)
            verdict = proof.verdict()
    except (OSError, MemoryError, pa.ArrowException) as error:
        raise UndecidedError(f"the comparison could not be made: {error!r}") from error
    if verdict.inputs == 0 and verdict.is_exactly_once:
        raise UndecidedError(_nothing(verdict))
    examples = tuple(_with_key(cluster, each) for each in verdict.examples)
    return replace(verdict, examples=examples)


def _nothing(verdict: Verdict) -> str:
    if not verdict.optional:
        return (
            "there is nothing to compare: no input record has to be in the output, and the "
            "output is empty"
        )
    return (
        f"there is nothing to compare: none of the {verdict.optional:,} input records must be out, "
        "because all of them are after the group's offsets or before --input-from. Check that "
        "this is the query's group, and that the query has finished a batch. Without --group, all "
        "input must be out"
    )


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


def _require_room(request: Request, records: int) -> None:
    folder = request.folder or Path(tempfile.gettempdir())
    if not folder.is_dir():
        raise ConfigurationError(f"there is no folder {folder}")
    needed = records * (ENTRY.itemsize + (PAIR.itemsize // 2 if request.ordered else 0))
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise UndecidedError(
            f"{records:,} records need {needed >> 20:,} MiB for the comparison, but {folder} has "
            f"only {free >> 20:,} MiB free: give another --folder"
        )
