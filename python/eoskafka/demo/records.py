"""The demo's input: real text, one record per line, with unique keys."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from kafka import KafkaProducer
from kafka.errors import KafkaError

from eoskafka.demo.errors import DemoError

# Fewer lines make batches so short that no kill finds an open transaction.
FEWEST_RECORDS = 20_000

_LINGER_MS = 50
_BATCH_BYTES = 256 * 1024


class Line(NamedTuple):
    """A line of text and its name, `path:line`."""

    key: str
    text: str


def source_lines(count: int) -> list[Line]:
    """The first `count` lines of the installed libraries' Python files, in order of path.

    Raises DemoError if there are not so many.
    """
    lines = list(islice(_library_lines(), count))
    if len(lines) < count:
        raise DemoError(
            f"the installed libraries have {len(lines)} lines, not {count}: "
            "ask for fewer with --records, or give a file with --input"
        )
    return lines


def file_lines(path: Path) -> list[Line]:
    """All lines of a text file; DemoError if it cannot be read or is too short."""
    try:
        lines = list(_lines(path, path.name))
    except OSError as error:
        raise DemoError(f"{path} cannot be read: {error.strerror}") from error
    if len(lines) < FEWEST_RECORDS:
        raise DemoError(
            f"{path} has {len(lines)} lines; at least {FEWEST_RECORDS} are needed, or the job is "
            "over before it can be killed"
        )
    return lines


def load(bootstrap_servers: str, topic: str, lines: Iterable[Line], partitions: int) -> int:
    """Write the lines to the topic, spread over its partitions; the number written.

    Raises DemoError naming the first record that the broker refuses.
    """
    failures: list[tuple[str, Exception]] = []
    producer = KafkaProducer(
        bootstrap_servers=bootstrap_servers, linger_ms=_LINGER_MS, batch_size=_BATCH_BYTES
    )
    written = 0
    with closing(producer):
        for written, line in enumerate(lines, start=1):
            try:
                future = producer.send(
                    topic,
                    key=line.key.encode(),
                    value=line.text.encode(),
                    partition=written % partitions,
                )
            except KafkaError as error:  # larger than a request may be
                raise DemoError(f"record {line.key} cannot be written: {error}") from error
            future.add_errback(lambda reason, key=line.key: failures.append((key, reason)))
        producer.flush()
    if failures:
        key, reason = failures[0]
        raise DemoError(f"{len(failures)} records were not written; the first is {key}: {reason}")
    return written


def _library_lines() -> Iterator[Line]:
    for root in dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("stdlib"))):
        folder = Path(root)
        for path in sorted(folder.rglob("*.py")):
            yield from _lines(path, path.relative_to(folder).as_posix())


def _lines(path: Path, name: str) -> Iterator[Line]:
    # What is not UTF-8 is replaced: a string column could not hold it.
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, text in enumerate(file, start=1):
            yield Line(f"{name}:{number}", text.rstrip("\n"))
