"""Files of a checkpoint that are missing, empty, cut short, or from an older copy.

A query has run for a few batches and is stopped, files of its checkpoint are damaged, and it is
started again. It must write every record once, or be refused; a refusal must change nothing: with
the files restored, the query must then write every record once.

`test_damaged_checkpoints.py` has a test of each cell of ours; `faults.damaged_checkpoints` also
looks at what the built-in connector does, and writes the table.
"""

from __future__ import annotations

import itertools
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from eoskafka import real_time_trigger
from eoskafka.audit import Record, UndecidedError, read_committed
from eoskafka.session import REAL_TIME_CHECK
from harness import forget, last_batches, until
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamWriter
from sessions import settings
from streams import QUERY_S, Streams, kv

# `epoch scope` keeps state. `real time` has run in micro-batches before the damage. The built-in
# connector has run what was `taken over`, and has planned the last batch too.
KINDS = ("task scope", "epoch scope", "foreachBatch", "real time", "taken over")
BUILT_IN = ("built-in", "built-in with state")
STATEFUL = ("epoch scope", "built-in with state")
# What has become of the last batch: it is done; it has written nothing; or all of it, as after a
# crash before Spark could log it. The built-in sink, which is at-least-once, writes it again then.
LASTS = ("done", "open", "written")

KEYS = 5
SENT_AT_ONCE = 10
BATCH = "5 seconds"
INITIAL = "sources/0/0"
IDENTITY = "sources/0/eoskafka-identity.json"
TOPIC_IDS = "sources/0/eoskafka-topic-ids.json"
SINK = "eoskafka-sink.json"
STATE = "state/0/0/S.delta"
LAST_RUN = "eoskafka-last-run"
TAKEN_OVER = "sources/0/eoskafka-taken-over"
# Of those kinds alone.
OWN_FILES = {
    "epoch scope": (SINK,),
    "foreachBatch": (LAST_RUN, "eoskafka-write-*.json"),
    "taken over": (TAKEN_OVER,),
}
LOGS = ("offsets", "commits")
RIGHT = "right"
SPARK = "Spark's error"

_CONDITION = re.compile(r"\[(EOSKAFKA_[A-Z_]+)\]")


class Damage(NamedTuple):
    """What happens to files while the query is stopped.

    Attributes:
        what: `deleted`, `empty`, `cut` (to its first half), `older`: replaced by that of a copy
            that is two batches old, or `surplus`: a copy of the one before.
        files: relative to the checkpoint; `N` stands for the last batch, `M` for the one before,
            `S` for the version of the state that the next batch reads.
    """

    what: str
    files: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.what} {' '.join(self.files)}"


class Cell(NamedTuple):
    """One kind of query and one damage; `last` is one of `LASTS`."""

    kind: str
    last: str
    damage: Damage

    def __str__(self) -> str:
        return f"{self.kind}, {self.last}-{self.damage}"


def damages() -> list[Damage]:
    """All of them."""
    files = (
        *("metadata", "offsets/N", "offsets/M", "commits/N", "commits/M", INITIAL),
        *(IDENTITY, TOPIC_IDS, STATE, *itertools.chain(*OWN_FILES.values())),
    )
    folders = [(folder,) for folder in (*LOGS, "sources", "state")]
    return [
        *(Damage(what, (file,)) for what in ("deleted", "empty", "cut") for file in files),
        Damage("deleted", ("offsets/N", "commits/N")),
        Damage("surplus", ("commits/N",)),
        *(Damage("deleted", folder) for folder in folders),
        *(Damage("older", folder) for folder in folders),
        *(Damage("older", several) for several in (LOGS, (*LOGS, "sources", "state", SINK))),
    ]


def cells(kinds: tuple[str, ...]) -> Iterator[Cell]:
    """Those that there can be: a damage of files that a kind of query has not got is left out."""
    for kind in kinds:
        left_out = {IDENTITY, TOPIC_IDS} if kind in BUILT_IN else set()
        left_out.update(*(files for other, files in OWN_FILES.items() if other != kind))
        for last in LASTS:
            for damage in damages():
                only = damage.files[0] if len(damage.files) == 1 else ""
                is_surplus = damage.what == "surplus"
                if not (
                    only in left_out
                    or (kind in BUILT_IN and last == "written")
                    or (only.startswith("state") and kind not in STATEFUL)
                    or ("commits/N" in damage.files and (last == "done") == is_surplus)
                    or ("commits/N" in damage.files and last == "written")
                ):
                    yield Cell(kind, last, damage)


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
        self.use("kafka" if kind in (*BUILT_IN, "taken over") else "eoskafka")

    @property
    def checkpoint(self) -> Path:
        return self.job.checkpoint

    def use(self, form: str) -> None:
        """Go on with another connector."""
        self.job.streams.form = form

    def send(self) -> None:
        """More records."""
        self.job.send(*range(self.sent, self.sent + SENT_AT_ONCE))
        self.sent += SENT_AT_ONCE

    def run(self) -> None:
        """Process what is there, in micro-batches."""
        self.job.streams.run(self._writer(fails=False))

    def leave_open(self) -> None:
        """Plan a batch that fails before it writes."""
        self.job.streams.failure(self._writer(fails=True))

    def go_on(self) -> None:
        """Process what is there, after a damage."""
        if self.kind != "real time":
            self.run()
            return
        streams = self.job.streams
        with settings(streams.spark, {REAL_TIME_CHECK: "false"}):
            writer = self._writer(fails=False).outputMode("update")
            query = streams.start(real_time_trigger(writer, BATCH))

        def has_read_all() -> bool:
            try:
                return not query.isActive or len(self._output()) >= self.sent
            except UndecidedError:
                return False

        try:
            until(has_read_all, "all of the output", QUERY_S)
            error = query.exception()
        finally:
            query.stop()
        if error is not None:
            raise error

    def _writer(self, fails: bool) -> DataStreamWriter:
        job = self.job if not fails else self.job._replace(output="no/topic")
        if self.kind in STATEFUL:
            return job.writer(counted).outputMode("update")
        if self.kind != "foreachBatch":
            return job.writer()
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

    def _output(self) -> list[Record]:
        return list(read_committed(self.job.streams.servers, self.job.output))

    def verdict(self) -> str:
        """`RIGHT`, or what is wrong with the output."""
        records = self._output()
        if self.kind in STATEFUL:
            counts: dict[str, list[int]] = defaultdict(list)
            for record in records:
                counts[(record.key or b"").decode()].append(int(record.value or b"0"))
            last = {key: values[-1] for key, values in counts.items()}
            if last != {str(key): self.sent // KEYS for key in range(KEYS)}:
                return "wrong counts"
            # A batch that was written twice would repeat some.
            again = sum(len(values) - len(set(values)) for values in counts.values())
            rises = all(values == sorted(values) for values in counts.values())
            return f"{again} twice" if again else RIGHT if rises else "counts fall"
        numbers = [int(record.value or b"-1") for record in records]
        lost = self.sent - len(set(numbers))
        again = len(numbers) - len(set(numbers))
        wrong = [*([f"{lost} lost"] if lost else []), *([f"{again} twice"] if again else [])]
        return ", ".join(wrong) or RIGHT


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


def inflict(cell: Cell, queries: Queries, older: Path) -> None:
    """Damage the checkpoint."""
    damage = cell.damage
    last = queries.last_batch()
    for name in damage.files:
        path = re.sub("N$", str(last), re.sub("M$", str(last - 1), name))
        path = path.replace("S.delta", f"{last + (cell.last == 'done')}.delta")
        found = [*queries.checkpoint.glob(path)]
        assert found or len(damage.files) > 1 or damage.what == "surplus", path
        file = found[0] if found else queries.checkpoint / path
        content = file.read_bytes() if file.is_file() else b""
        remove(file)
        if damage.what == "empty":
            file.touch()
        elif damage.what == "cut":
            file.write_bytes(content[: len(content) // 2])
        elif damage.what == "surplus":
            shutil.copy(file.with_name(str(last - 1)), file)
        elif damage.what == "older" and (older / path).is_dir():
            shutil.copytree(older / path, file)
        elif damage.what == "older" and (older / path).exists():
            shutil.copy(older / path, file)


def prepare(streams: Streams, kind: str, last: str, folder: Path) -> Queries:
    """A query that has run four batches, the last of which may not be done; more input is there."""
    queries = Queries(streams, kind)
    queries.send()
    queries.run()
    copy(queries.checkpoint, folder / "older")
    for _ in range(2):
        queries.send()
        queries.run()
    queries.send()
    if kind == "taken over":
        queries.leave_open()
        queries.use("eoskafka")
    if last == "open":
        queries.leave_open()
    else:
        queries.run()
    if last == "written":
        remove(queries.checkpoint / "commits" / str(queries.last_batch()))
    copy(queries.checkpoint, folder / "whole")
    queries.send()
    return queries


def start(queries: Queries, whole: Path) -> str:
    """Start the query, and once more with all of its files if it is refused; what happened."""
    refusal = _refusal(queries)
    if refusal is None:
        return RIGHT
    copy(whole, queries.checkpoint)
    again = _refusal(queries)
    return refusal if again is None else f"{refusal}, then {again}"


def _refusal(queries: Queries) -> str | None:
    try:
        queries.go_on()
    # Some files are read before the query has a thread.
    except (StreamingQueryException, PySparkException, Py4JError) as error:
        condition = _CONDITION.search(str(error))
        return condition[1] if condition else SPARK
    return None


def outcome(streams: Streams, cell: Cell, folder: Path) -> str:
    """What the start after the damage does: `RIGHT`, an error, or what is wrong with the output."""
    queries = prepare(streams, cell.kind, cell.last, folder)
    inflict(cell, queries, folder / "older")
    found = start(queries, folder / "whole")
    verdict = queries.verdict()
    return found if verdict == RIGHT else verdict if found == RIGHT else f"{found}, then {verdict}"
