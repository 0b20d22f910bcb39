"""What to verify, and how a record is identified."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from kafka import TopicPartition


class By(str, enum.Enum):
    """What identifies a record."""

    KEY = "key"
    VALUE = "value"
    DIGEST = "digest"


class Progress(Protocol):
    """Is told how far the comparison is."""

    def begins(self, what: str, records: int) -> None:
        """A step begins that has about this many records."""

    def read(self, records: int) -> None:
        """This many more records are done."""


@dataclass(frozen=True)
class Request:
    """What to verify.

    Attributes:
        outputs: the topics that the query writes to.
        by: what identifies a record.
        inputs: the topics that it reads; empty if `expected` has the expected output.
        group: the group whose offsets show the query's progress; empty if the query must have read
            everything.
        id_field: instead of `by`: a field of the JSON in each value, such as order.id.
        expected: a Parquet file or folder, or a Delta table, with columns `key`, `value` or both.
        dead_letters: topics with the input records that failed, in `eoskafka.with_dead_letters`.
        dead_letters_query: the query whose dead letters count, by the name in their headers; empty
            if they all come from one query.
        input_starts: the offsets at which the query began; 0 for a topic that is not in it.
        output_starts: the offsets at which its output begins, in the same form.
        ordered: whether to check the order within keys.
        wait_s: how long open transactions may take to end, in seconds.
        memory: the memory that the comparison may use, in bytes.
        folder: a folder for temporary files, which take about 55 bytes for each record of input and
            output; None for the system's temporary folder.
    """

    outputs: Sequence[str]
    by: By
    inputs: Sequence[str] = ()
    group: str = ""
    id_field: str = ""
    expected: Path | None = None
    dead_letters: Sequence[str] = ()
    dead_letters_query: str = ""
    input_starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    output_starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    ordered: bool = True
    wait_s: float = 10.0
    memory: int = 512 << 20
    folder: Path | None = None


def columns(request: Request) -> tuple[str, ...]:
    """The columns that an expected table needs."""
    if request.id_field:
        return ("value",)
    return {By.KEY: ("key",), By.VALUE: ("value",), By.DIGEST: ("key", "value")}[request.by]
