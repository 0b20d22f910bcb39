"""Files of a checkpoint that are missing, empty, or from an older copy.

After each damage a query is started again. It must write every record once, or be refused. A
refusal must change nothing: with the files restored, the query must then write every record once.
"""

from __future__ import annotations

import re
import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from eoskafka.audit import read_committed
from harness import forget, last_batches
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamWriter
from streams import Streams, kv

KINDS = ("task scope", "epoch scope", "foreachBatch")
KEYS = 5
SENT_AT_ONCE = 10
IDENTITY = "sources/0/eoskafka-identity.json"
TOPIC_IDS = "sources/0/eoskafka-topic-ids.json"
SINK = "eoskafka-sink.json"
CONDITION = re.compile(r"\[(EOSKAFKA_[A-Z_]+)\]")


class Damage(NamedTuple):
    """What happens to files while the query is stopped.

    Attributes:
        what: `deleted`, `empty` or `older`: replaced by that of a copy that is two batches old.
        files: relative to the checkpoint; `N` stands for the last batch, `M` for the one before.
    """

    what: str
    files: tuple[str, ...]


def counted(rows: DataFrame) -> DataFrame:
    """How many records each of a few keys has had, which needs state."""
    keys = rows.selectExpr(f"cast(cast(cast(value AS string) AS int) % {KEYS} AS string) AS key")
    return keys.groupBy("key").count().selectExpr("key", "cast(count AS string) AS value")


class Queries:
    """One query of a kind, over and over, with everything it has been sent."""

    def __init__(self, streams: Streams, kind: str) -> None:
        self.kind = kind
        self.job = streams.job()
        self.sent = 0

    @property
    def checkpoint(self) -> Path:
        return self.job.checkpoint

    def send(self) -> None:
        """More records."""
        self.job.send(*range(self.sent, self.sent + SENT_AT_ONCE))
        self.sent += SENT_AT_ONCE

    def run(self) -> None:
        """Process what is there."""
        self.job.streams.run(self._writer(fails=False))

    def leave_open(self) -> None:
        """Plan a batch that fails before it writes."""
        self.job.streams.failure(self._writer(fails=True))

    def _writer(self, fails: bool) -> DataStreamWriter:
        job = self.job if not fails else self.job._replace(output="no/topic")
        if self.kind == "task scope":
            return job.writer()
        if self.kind == "epoch scope":
            return job.writer(counted).outputMode("update")
        rows = kv(job.streams.source(job.input, {"kafka.group.id": job.group}))

        def write(frame: DataFrame, batch: int) -> None:
            job.streams.save(frame, job.output, {"writeId": "w"})

        return (
            rows.writeStream.foreachBatch(write)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
        )

    def last_batch(self) -> int:
        """The number of the last batch that Spark has planned."""
        return int(last_batches(self.checkpoint / "offsets")[-1].name)

    def require_exactly_once(self) -> None:
        """Compare the output with what was sent."""
        if self.kind != "epoch scope":
            assert self.job.written() == [*range(self.sent)]
            return
        counts: dict[bytes, list[int]] = defaultdict(list)
        for record in read_committed(self.job.streams.servers, self.job.output):
            assert record.key is not None
            assert record.value is not None
            counts[record.key].append(int(record.value))
        assert {key: values[-1] for key, values in counts.items()} == {
            str(key).encode(): self.sent // KEYS for key in range(KEYS)
        }
        # A batch that was written twice would repeat some.
        assert all(values == sorted(set(values)) for values in counts.values())


def copy(source: Path, target: Path) -> None:
    """Replace a folder by a copy."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


def remove(file: Path) -> None:
    """Delete a file and what Hadoop keeps beside it."""
    if file.is_dir():
        shutil.rmtree(file)
    elif file.exists():
        forget([file])


def inflict(damage: Damage, queries: Queries, older: Path) -> None:
    """Damage the checkpoint."""
    last = queries.last_batch()
    for name in damage.files:
        path = re.sub("N$", str(last), re.sub("M$", str(last - 1), name))
        file = queries.checkpoint / path
        assert file.exists() or not name.startswith(("offsets", "commits", "sources"))
        remove(file)
        if damage.what == "empty":
            file.touch()
        elif damage.what == "older" and (older / path).is_dir():
            shutil.copytree(older / path, file)
        elif damage.what == "older" and (older / path).exists():
            shutil.copy(older / path, file)


# ---- what was found

RIGHT = "right"
SPARK = "Spark's error"
NEWER = "EOSKAFKA_DECISION_NEWER"
OTHER_PLAN = "EOSKAFKA_DECISION_OTHER_PLAN"
UNREADABLE = "EOSKAFKA_CHECKPOINT_UNREADABLE"
BEHIND = "EOSKAFKA_GROUP_BEHIND_LOG"

BOTH = ("done", "open")
LOGS = ("offsets", "commits")
ALL = (*LOGS, "sources", "state", SINK)
DELETED_PLAN = Damage("deleted", ("offsets/N",))
DELETED_MARK = Damage("deleted", ("commits/M",))


def expected(damage: Damage, kind: str, last: str) -> str:
    """What the next start does.

    Args:
        last: whether the last batch is `done` or `open`.
    """
    what, files = damage
    by_log = kind != "task scope"
    if UNREADABLE_IF_EMPTY.intersection(files) and what == "empty":
        return UNREADABLE
    if (
        files == ("metadata",)
        or files == ("offsets/M",)
        or (what == "deleted" and files == LOGS[:1])
    ):
        return SPARK
    if what == "deleted" and "offsets/N" in files:
        if last == "open":
            return RIGHT
        if kind == "foreachBatch" and "commits/N" in files:
            # The batch is planned anew, with more records than it was decided with.
            return OTHER_PLAN
        return NEWER if by_log else RIGHT if "commits/N" in files else SPARK
    if what == "older" and "offsets" in files:
        return NEWER if by_log else RIGHT if "commits" in files else SPARK
    if what == "empty" and files == (f"commits/{'N' if last == 'done' else 'M'}",):
        return SPARK
    if what == "empty" and files == ("offsets/N",):
        return SPARK
    return RIGHT


UNREADABLE_IF_EMPTY = {IDENTITY, TOPIC_IDS, SINK}


def cases() -> Iterator[Any]:
    """Everything in a long run."""
    damages = [
        Damage(what, (file,))
        for what in ("deleted", "empty")
        for file in (
            *("metadata", "offsets/N", "offsets/M", "commits/N", "commits/M", "sources/0/0"),
            *(IDENTITY, TOPIC_IDS, SINK),
        )
        if (what, file) != ("empty", "sources/0/0")
    ]
    damages += [Damage("deleted", files) for files in (("offsets/N", "commits/N"), *zip(FOLDERS))]
    damages += [Damage("older", files) for files in (*zip(FOLDERS), LOGS, ALL)]
    for kind in KINDS:
        for last in BOTH:
            for damage in damages:
                if damage.files == (SINK,) and kind != "epoch scope":
                    continue
                if "commits/N" in damage.files and last == "open":
                    continue
                short = kind == "epoch scope" and (last, damage) in SHORT
                marks = () if short else (pytest.mark.slow,)
                name = f"{kind}, {last}-{damage.what} {' '.join(damage.files)}"
                yield pytest.param(kind, last, damage, marks=marks, id=name)


FOLDERS = (*LOGS, "sources")
SHORT = {("open", DELETED_MARK), ("done", DELETED_PLAN), ("done", Damage("older", LOGS))}


def prepare(streams: Streams, kind: str, last: str, folder: Path) -> Queries:
    """A query that has run three batches, the last of which may be open; more input is there."""
    queries = Queries(streams, kind)
    queries.send()
    queries.run()
    copy(queries.checkpoint, folder / "older")
    for _ in range(2):
        queries.send()
        queries.run()
    queries.send()
    if last == "open":
        queries.leave_open()
    else:
        queries.run()
    copy(queries.checkpoint, folder / "whole")
    queries.send()
    return queries


def start(queries: Queries, whole: Path) -> str:
    """Start the query, and once more with all of its files if it is refused."""
    try:
        queries.run()
    # Some files are read before the query has a thread.
    except (StreamingQueryException, PySparkException, Py4JError) as error:
        condition = CONDITION.search(str(error))
        copy(whole, queries.checkpoint)
        queries.run()
        return condition[1] if condition else SPARK
    return RIGHT


@pytest.mark.parametrize(("kind", "last", "damage"), [*cases()])
def test_a_damaged_checkpoint_is_right_or_refused(
    streams: Streams, tmp_path: Path, kind: str, last: str, damage: Damage
) -> None:
    queries = prepare(streams, kind, last, tmp_path)
    inflict(damage, queries, tmp_path / "older")
    assert start(queries, tmp_path / "whole") == expected(damage, kind, last)
    queries.require_exactly_once()


@pytest.mark.parametrize(
    ("kind", "found"), [("task scope", RIGHT), ("epoch scope", BEHIND)], ids=KINDS[:2]
)
def test_a_surplus_file_of_a_done_batch(
    streams: Streams, tmp_path: Path, kind: str, found: str
) -> None:
    # As a restore makes it that copies one folder later than the other.
    queries = prepare(streams, kind, "open", tmp_path)
    done = queries.checkpoint / "commits"
    last = queries.last_batch()
    shutil.copy(done / str(last - 1), done / str(last))
    assert start(queries, tmp_path / "whole") == found
    queries.require_exactly_once()
