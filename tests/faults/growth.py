"""`make growth`: what a query costs as its partitions, slots, writers, neighbours and age grow.

Each part has a broker and a Spark session of its own, and three sizes. For the first four parts a
query runs some batches while its times and its memory are measured. Then it runs twice more with
the broker's log of requests, with few batches and with more; the difference is that of the batches.

The report extrapolates each part by a straight line. Exit code 0: every output was right. Figures
are for reading, not for judging.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import pyspark
from costs.__main__ import BROKER, TOPICS, sizes
from eoskafka.bench.count import count
from eoskafka.bench.load import load
from eoskafka.bench.peers import EOSKAFKA
from eoskafka.bench.stage import (
    Stage,
    batches,
    commits_ms,
    create_topic,
    planning_ms,
    records_read,
)
from eoskafka.cluster.broker import Broker
from harness import until
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from requestlog import log
from requestlog.__main__ import connector, during, log_requests

from faults.footprint import footprint, heap_mb
from faults.many_queries import Queries
from faults.own_broker import on_own_broker
from faults.soak import BROKER as FORGETFUL_BROKER

ROOT = Path(__file__).resolve().parents[2]
RECORD_BYTES = 100
OUTPUT_PARTITIONS = 8
# While times are measured; the first batch has the query's start.
TIMED_BATCHES = 8
# While requests are counted.
FEW, MANY = 1, 4
DONE_S = 1_800.0
PARTITIONS = (100, 1_000, 10_000)
SLOTS = (10, 100, 1_000)
WRITERS = (20, 200, 2_000)
RECORDS_OF_WRITER = 10
QUERIES = (10, 25, 50)
EPOCHS = (100, 1_000, 3_000)
# An epoch's time is the median of so many.
LAST_EPOCHS = 50
# Where the lines of the report end.
FAR_PARTITIONS = 100_000
EXECUTORS, CORES = 1_000, 4


@dataclass(frozen=True)
class Shape:
    """A query that is measured.

    Attributes:
        size: what the report calls it.
        inputs: partitions that it reads.
        per_batch: records.
        slots: of its source.
        writers: in epoch scope; None: it is in task scope.
    """

    size: int
    inputs: int
    per_batch: int
    slots: int = 2
    writers: int | None = None


@dataclass(frozen=True)
class Figures:
    """What the query of a shape has cost, each a batch's but for the heap.

    Attributes:
        size: of the shape.
        batch_ms: Spark's `triggerExecution`, the median.
        planning_ms: of it, what neither reads and writes nor is in Spark's two log entries.
        commit_ms: the commit of an epoch, the median; None in task scope.
        heap_mb: what is in use after a garbage collection while the query waits for records, beyond
            what was before its start. Executors are in the same process.
        requests: without those whose number depends on timing.
        bytes_: that topics of the broker have grown by, by what the report calls them.
    """

    size: int
    batch_ms: float
    planning_ms: float
    commit_ms: float | None
    heap_mb: float
    requests: float
    bytes_: dict[str, float]


class Growing:
    """The query of one shape.

    Args:
        there: where it runs.
        name: of its topics and its checkpoint.
    """

    def __init__(self, there: Stage, name: str, shape: Shape) -> None:
        self._there = there
        self._name = name
        self._shape = shape
        self._sent = 0
        create_topic(there.admin, there.prefix + self._source, shape.inputs)
        create_topic(there.admin, self.output, OUTPUT_PARTITIONS)

    @property
    def _source(self) -> str:
        return f"{self._name}-in"

    @property
    def output(self) -> str:
        """The whole name of its output topic."""
        return self._there.prefix + self._name

    def send(self, batches_: int) -> None:
        """Records of this many batches."""
        first, self._sent = self._sent, self._sent + batches_ * self._shape.per_batch
        load(
            self._there.addresses.direct,
            self._there.prefix + self._source,
            partitions=self._shape.inputs,
            first=first,
            records=self._sent,
            record_bytes=RECORD_BYTES,
            keyed=False,
            run_records=1,
        )

    def writer(self) -> DataStreamWriter:
        """The query."""
        rows = self._there.source(
            EOSKAFKA,
            self._source,
            maxOffsetsPerTrigger=self._shape.per_batch,
            slots=self._shape.slots,
            **{"kafka.group.id": self.output},
        ).select("key", "value")
        if self._shape.writers is not None:
            rows = rows.repartition(self._shape.writers)
        return self._there.writer(EOSKAFKA, rows, self._name)

    def wait(self, query: StreamingQuery) -> None:
        """Until everything that was sent is in a batch that is done."""
        until(lambda: reached(query) == self._sent, f"{self._sent} records", DONE_S)

    def run(self) -> None:
        """Run it over what was sent."""
        query = self.writer().trigger(availableNow=True).start()
        assert query.awaitTermination(int(DONE_S)), "the query has not ended"
        assert reached(query) == self._sent

    def check(self) -> None:
        """Everything came out once."""
        counted = count(
            self._there.addresses.direct,
            self.output,
            records=self._sent,
            record_bytes=RECORD_BYTES,
            keyed=False,
        )
        assert counted.is_right, counted


def reached(query: StreamingQuery) -> int:
    """How many records the query's batches of all runs have read."""
    if (error := query.exception()) is not None:
        raise error
    return records_read(query)


def measure(there: Stage, broker: Broker, folder: Path, name: str, shape: Shape) -> Figures:
    """Run the query of a shape."""
    growing = Growing(there, name, shape)
    growing.send(TIMED_BATCHES)
    before_mb = heap_mb(there)
    query = growing.writer().start()
    growing.wait(query)
    used_mb = heap_mb(there) - before_mb
    query.stop()
    timed = batches(query)[1:]
    log_requests(there.admin, broker, "DEBUG")
    requests, grown = [], []
    for batches_ in (FEW, MANY):
        growing.send(batches_)
        before = sizes(folder)
        sent = during(there.addresses.direct, broker.log_file, growing.run)
        requests.append(sum(each.name not in log.TIMED for each in sent))
        after = sizes(folder)
        grown.append({topic: after[topic] - before[topic] for topic in TOPICS})
    log_requests(there.admin, broker, "INFO")
    growing.check()
    few, many = grown
    return Figures(
        size=shape.size,
        batch_ms=statistics.median(p.durationMs["triggerExecution"] for p in timed),
        planning_ms=statistics.median(planning_ms(p.durationMs) for p in timed),
        commit_ms=statistics.median(commits_ms(timed)) if shape.writers else None,
        heap_mb=used_mb,
        requests=(requests[1] - requests[0]) / (MANY - FEW),
        bytes_={topic: (many[topic] - few[topic]) / (MANY - FEW) for topic in TOPICS},
    )


@dataclass(frozen=True)
class Neighbours:
    """What queries of one driver have together.

    Attributes:
        queries: how many.
        start_s: from the start of the first of those that came last until all of these have written
            their records, divided by their number.
        heap_mb: in use after a garbage collection.
        threads: of Kafka's clients and the connector.
        connections: to the broker.
    """

    queries: int
    start_s: float
    heap_mb: float
    threads: int
    connections: int


def measure_queries(there: Stage) -> Iterator[Neighbours]:
    """Start queries until there are as many as in each size in turn."""
    queries = Queries(there, EOSKAFKA, "query")
    queries.create(max(QUERIES))
    running = 0
    for size in QUERIES:
        started_s = queries.start(range(running, size))
        now = footprint(there)
        yield Neighbours(
            queries=size,
            start_s=started_s / (size - running),
            heap_mb=now.heap_mb,
            threads=now.threads.total(),
            connections=now.connections,
        )
        running = size
    queries.stop(range(running))
    queries.check(range(running))


@dataclass(frozen=True)
class Age:
    """What a query has left behind after so many epochs.

    Attributes:
        epochs: how many.
        epoch_ms: the time of the last ones, the median.
        start_s: of a start on the checkpoint, until the first epoch is done.
        heap_mb: as that of a shape.
        decisions_bytes: of the decision topic on the broker's disk.
        transactional_ids: that the broker knows.
    """

    epochs: int
    epoch_ms: float
    start_s: float
    heap_mb: float
    decisions_bytes: int
    transactional_ids: int


def measure_epochs(there: Stage, folder: Path) -> Iterator[Age]:
    """Let one query grow old."""
    growing = Growing(there, "epochs", Shape(1, inputs=2, per_batch=4, writers=2))
    # What a query keeps of former batches is Spark's default, not all of them.
    there.spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "100")
    growing.send(1)
    growing.run()
    before_mb = heap_mb(there)
    done = 1
    for size in EPOCHS:
        growing.send(size - done - 1)
        query = growing.writer().start()
        growing.wait(query)
        used_mb = heap_mb(there) - before_mb
        query.stop()
        last = batches(query)[-LAST_EPOCHS:]
        growing.send(1)
        began = time.monotonic()
        again = growing.writer().start()
        growing.wait(again)
        start_s = time.monotonic() - began
        again.stop()
        done = size
        listed = there.admin.list_transactions().values()
        yield Age(
            epochs=size,
            epoch_ms=statistics.median(p.durationMs["triggerExecution"] for p in last),
            start_s=start_s,
            heap_mb=used_mb,
            decisions_bytes=sizes(folder)["decisionBytes"],
            transactional_ids=sum(len(of) for of in listed),
        )
    growing.check()


def line(sizes_: Sequence[float], values: Sequence[float], far: float) -> float:
    """The value at a size, by the straight line through the first and the last measured one."""
    slope = (values[-1] - values[0]) / (sizes_[-1] - sizes_[0])
    return values[-1] + slope * (far - sizes_[-1])


def exponent(sizes_: Sequence[float], values: Sequence[float]) -> float:
    """How steeply it grows: 0 not at all, 1 with the size, 2 with its square."""
    # Zero is added to what may be a negative zero.
    return round(float(np.polyfit(np.log(sizes_), np.log(values), 1)[0]), 1) + 0.0


def table(found: Sequence[Figures], far: int, of: str) -> str:
    """A part's figures, a column for each size, and what the line says of a far one."""
    rows: dict[str, Callable[[Figures], float]] = {
        "a batch, ms": lambda f: f.batch_ms,
        "of it planning, ms": lambda f: f.planning_ms,
    }
    if found[0].commit_ms is not None:
        rows["of it the commit, ms"] = lambda f: f.commit_ms or 0.0
    rows["heap of the query, MB"] = lambda f: f.heap_mb
    rows["requests of a batch"] = lambda f: f.requests
    for topic, title in TOPICS.items():
        rows[f"bytes of a batch in `{title}`"] = partial_bytes(topic)
    at = [each.size for each in found]
    lines = [
        f"| {of} | {' | '.join(f'{size:,}' for size in at)} | grows as size to the power of "
        f"| line to {far:,} |",
        "|---" * (len(at) + 3) + "|",
    ]
    for title_, value in rows.items():
        values = [value(each) for each in found]
        if not all(values):
            # Task scope has no decisions.
            continue
        lines.append(
            f"| {title_} | {' | '.join(f'{each:,.1f}' for each in values)} | "
            f"{exponent(at, values):.1f} | {line(at, values, far):,.0f} |"
        )
    return "\n".join(lines)


def partial_bytes(topic: str) -> Callable[[Figures], float]:
    """What a topic grows by."""
    return lambda figures: figures.bytes_[topic]


def records(found: Sequence[Neighbours | Age], titles: Mapping[str, str]) -> str:
    """Fields of records, a row for each field."""
    return "\n".join(
        f"| {title} | {' | '.join(f'{getattr(each, name):,.1f}' for each in found)} |"
        for name, title in titles.items()
    )


def in_parts(folder: Path) -> Iterator[tuple[str, list[Figures]]]:
    """The figures of the parts about one query's batches, by their names."""
    parts = {
        "partitions": [Shape(n, inputs=n, per_batch=n) for n in PARTITIONS],
        "partitions-epoch": [Shape(n, inputs=n, per_batch=n, writers=8) for n in PARTITIONS],
        "slots": [Shape(n, inputs=max(SLOTS), per_batch=2 * max(SLOTS), slots=n) for n in SLOTS],
        "writers": [
            Shape(n, inputs=8, per_batch=RECORDS_OF_WRITER * n, writers=n) for n in WRITERS
        ],
    }
    for part, shapes in parts.items():
        found = []
        for shape in shapes:
            data = folder / f"{part}-{shape.size}"
            with on_own_broker(data, BROKER) as (broker, there):
                found.append(measure(there, broker, data, part, shape))
            print(part, found[-1], flush=True)
        yield part, found


def main() -> None:
    """Measure, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", type=Path, default=ROOT / "reports" / "growth.md")
    report: Path = parser.parse_args().report
    with tempfile.TemporaryDirectory(prefix="eoskafka-growth-") as name:
        folder = Path(name)
        parts = dict(in_parts(folder))
        with on_own_broker(folder / "queries") as (_, there):
            neighbours = [*measure_queries(there)]
        with on_own_broker(folder / "epochs", FORGETFUL_BROKER) as (_, there):
            ages = [*measure_epochs(there, folder / "epochs")]
    far_tasks = EXECUTORS * CORES
    text = f"""# What grows

`make growth` on {date.today()}, Spark {pyspark.__version__} with two cores, one broker on the same
machine. {connector()}

Times are medians of {TIMED_BATCHES - 1} batches; each output was counted. Executors are in the
driver's process, so the heap has their clients, too. The last column continues the straight line
through the smallest and the largest size.

## Input partitions, task scope

Two slots, one record of each partition in a batch.

{table(parts["partitions"], FAR_PARTITIONS, "input partitions")}

## Input partitions, epoch scope

The same with `repartition(8)`.

{table(parts["partitions-epoch"], FAR_PARTITIONS, "input partitions")}

## Slots, task scope

{max(SLOTS):,} input partitions with two records each in a batch. {far_tasks:,} slots are those of
{EXECUTORS:,} executors with {CORES} cores each.

{table(parts["slots"], far_tasks, "slots")}

## Writers, epoch scope

`repartition(n)`, {RECORDS_OF_WRITER} records for each writer in a batch; on two cores, two of the
writers run at a time.

{table(parts["writers"], far_tasks, "writers")}

## Queries in one driver

Each has two partitions, two slots and a trigger of two seconds.

| queries | {" | ".join(str(each.queries) for each in neighbours)} |
|---|{"---|" * len(neighbours)}
{
        records(
            neighbours,
            {
                "start_s": "a start, s (of those that came last, divided by their number)",
                "heap_mb": "heap of the process, MB",
                "threads": "threads of clients",
                "connections": "connections to the broker",
            },
        )
    }

## Epochs of one query

Two writers, four records in an epoch. Transactional ids of former runs expire after a minute here.
Spark keeps the last 100 progress reports and the last 1,000 jobs and stages, so the heap grows with
the first 1,000 epochs.

| epochs | {" | ".join(f"{each.epochs:,}" for each in ages)} |
|---|{"---|" * len(ages)}
{
        records(
            ages,
            {
                "epoch_ms": f"an epoch, ms (median of the last {LAST_EPOCHS})",
                "start_s": "a start on the checkpoint, until its first epoch is done, s",
                "heap_mb": "heap of the query, MB",
                "decisions_bytes": "bytes of the decision topic",
                "transactional_ids": "transactional ids that the broker knows",
            },
        )
    }
"""
    report.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
