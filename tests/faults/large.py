"""`make large`: a long backlog, and a state with very many keys.

- *backlog*: a hundred million records are in the topic when the query starts. It reads them in
  batches of the same size. Does a later batch take longer, or more memory, than an early one?
- *keys*: each batch counts a record of each of a million keys, in Spark's RocksDB state store, so
  each batch writes a million results in epoch scope. The same with the built-in connector.

Each part has a broker and a Spark session with two cores of its own. Exit code 0: every output was
right. Figures are for reading, not for judging.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import numpy as np
import psutil
import pyspark
from eoskafka.bench.count import count, read
from eoskafka.bench.epoch import NUMBER
from eoskafka.bench.load import load
from eoskafka.bench.peers import BUILT_IN, EOSKAFKA, PEERS, Peer
from eoskafka.bench.stage import Stage, batches, commits_ms, create_topic
from eoskafka.bench.summary import Spread
from numpy.typing import NDArray
from requestlog.__main__ import connector

from faults.footprint import heap_mb
from faults.held import ends
from faults.own_broker import on_own_broker

ROOT = Path(__file__).resolve().parents[2]
PARTITIONS = 8
RECORD_BYTES = 100
BACKLOG, KEYS = "backlog", "keys"
BATCH_RECORDS = 2_000_000
# The loader writes the backlog in so many pieces.
PIECES = 10
# Batches between two looks at the heap, each after a garbage collection.
LOOK = 10
STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
KEY_BATCHES = 6
KEY_ROUNDS = 3


@dataclass(frozen=True)
class Backlog:
    """How the batches of one query went, in their order.

    Attributes:
        records: of all together.
        rows_per_s: of each batch, without the first one, which has the query's start.
        resident_mb: of the driver's process, the most in each of these batches.
        heap_mb: in use after a garbage collection, after every ten batches.
    """

    records: int
    rows_per_s: list[float]
    resident_mb: list[float]
    heap_mb: list[float]


@dataclass(frozen=True)
class Keys:
    """What the batches of one connector took in milliseconds, without the first of each run.

    Attributes:
        peer: the connector.
        batch_ms: the median batch of each round.
        commit_ms: of it, the commit; empty for the built-in connector, which has none.
    """

    peer: Peer
    batch_ms: list[float] = field(default_factory=list)
    commit_ms: list[float] = field(default_factory=list)


class KeyTally:
    """Takes results `key,count`, one of each key from each batch."""

    def __init__(self, keys: int) -> None:
        self._keys = keys
        self._found: list[NDArray[np.int64]] = []

    def take(self, keys: list[bytes | None], found: list[bytes]) -> None:
        """Take records; their keys say nothing."""
        pairs = np.array([each.split(b",") for each in found]).astype(np.int64)
        self._found.append((pairs[:, 1] - 1) * self._keys + pairs[:, 0])

    def require(self, batches_: int) -> None:
        """Each key has come once with each count."""
        found = np.sort(np.concatenate(self._found))
        assert np.array_equal(found, np.arange(batches_ * self._keys)), "not exactly once"


def read_backlog(there: Stage, records: int) -> Backlog:
    """Read all of it in one run of a query."""
    topic = there.prefix + BACKLOG
    create_topic(there.admin, topic, PARTITIONS)
    piece = records // PIECES
    for first in range(0, records, piece):
        print(f"loading up to {first + piece:,} records ...", flush=True)
        load(
            there.addresses.direct,
            topic,
            partitions=PARTITIONS,
            first=first,
            records=first + piece,
            record_bytes=RECORD_BYTES,
            keyed=False,
        )
    resident: dict[int, float] = {}
    heap: dict[int, float] = {}
    process = psutil.Process(there.spark_pid)
    with there.output(f"{BACKLOG}-out", PARTITIONS) as output:
        rows = there.source(EOSKAFKA, BACKLOG, maxOffsetsPerTrigger=BATCH_RECORDS)
        writer = there.writer(EOSKAFKA, rows.select("key", "value"), f"{BACKLOG}-out")
        query = writer.trigger(availableNow=True).start()
        while query.isActive:
            time.sleep(0.2)
            batch = query.lastProgress.batchId + 1 if query.lastProgress else 0
            used = process.memory_info().rss / 2**20
            resident[batch] = max(used, resident.get(batch, 0.0))
            if batch and batch % LOOK == 0 and batch not in heap:
                heap[batch] = heap_mb(there)
                print(f"batch {batch}: heap {heap[batch]:.0f} MB", flush=True)
        if (error := query.exception()) is not None:
            raise error
        counted = count(
            there.addresses.direct,
            output,
            records=records,
            record_bytes=RECORD_BYTES,
            keyed=False,
        )
        assert counted.is_right, counted
    timed = batches(query)[1:]
    return Backlog(
        records=records,
        rows_per_s=[p.numInputRows * 1_000 / p.durationMs["triggerExecution"] for p in timed],
        resident_mb=[resident[p.batchId] for p in timed if p.batchId in resident],
        heap_mb=list(heap.values()),
    )


def count_keys(there: Stage, keys: int) -> list[Keys]:
    """The counts of all keys in each batch, by each connector in turn."""
    topic = there.prefix + KEYS
    create_topic(there.admin, topic, PARTITIONS)
    load(
        there.addresses.direct,
        topic,
        partitions=PARTITIONS,
        records=KEY_BATCHES * keys,
        record_bytes=RECORD_BYTES,
        keyed=False,
    )
    there.spark.conf.set("spark.sql.shuffle.partitions", str(PARTITIONS))
    there.spark.conf.set("spark.sql.streaming.stateStore.providerClass", STATE_STORE)
    found = [Keys(peer) for peer in PEERS if peer.format in (BUILT_IN.format, EOSKAFKA.format)]
    for number in range(1, KEY_ROUNDS + 1):
        for of in found:
            print(f"{keys:,} keys, round {number}, {of.peer.label} ...", flush=True)
            count_once(there, of, keys, f"{KEYS}-{of.peer.id}-{number}")
    return found


def count_once(there: Stage, of: Keys, keys: int, name: str) -> None:
    """One round of one connector."""
    rows = (
        there.source(of.peer, KEYS, maxOffsetsPerTrigger=keys)
        .selectExpr(NUMBER)
        .selectExpr(f"n % {keys} as k")
        .groupBy("k")
        .count()
        .selectExpr("concat(k, ',', count) as value")
    )
    with there.output(name, PARTITIONS) as output:
        query = there.run(of.peer, rows, name, "update")
        tally = KeyTally(keys)
        read(there.addresses.direct, output, tally)
        tally.require(KEY_BATCHES)
    timed = batches(query)[1:]
    of.batch_ms.append(statistics.median(p.durationMs["triggerExecution"] for p in timed))
    if commits := commits_ms(timed):
        of.commit_ms.append(statistics.median(commits))


def spread(values: Sequence[float]) -> str:
    """The median, and the least and the greatest."""
    found = Spread.of(values)
    return f"{found.median:,.0f} ({found.least:,.0f} to {found.greatest:,.0f})" if found else ""


def change(values: Sequence[float]) -> str:
    """The medians of the first and the last third of the batches, and the slope over all."""
    first, last = ends(values)
    slope = np.polyfit(range(len(values)), values, 1)[0] * len(values) / statistics.mean(values)
    return f"{first:,.0f} | {last:,.0f} | {slope:+.1%}"


def main() -> None:
    """Measure, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=100_000_000, help="of the backlog")
    parser.add_argument("--keys", type=int, default=1_000_000, help="a multiple of 8000")
    parser.add_argument("--report", type=Path, default=ROOT / "reports" / "large.md")
    given = parser.parse_args()
    if given.records < (least := 3 * LOOK * BATCH_RECORDS):
        parser.error(f"--records must be at least {least}, for three looks at the heap")
    with tempfile.TemporaryDirectory(prefix="eoskafka-large-") as name:
        with on_own_broker(Path(name) / KEYS) as (_, there):
            keys = count_keys(there, given.keys)
        with on_own_broker(Path(name) / BACKLOG) as (_, there):
            backlog = read_backlog(there, given.records)
    rows = [
        f"| {each.peer.label} | {spread(each.batch_ms)} | {spread(each.commit_ms)} |"
        for each in keys
    ]
    text = f"""# A long backlog, and a state with many keys

`make large` on {date.today()}, Spark {pyspark.__version__} with two cores and 2 GB of heap, one
broker on the same machine. {connector()} Each output was counted.

## {backlog.records:,} records

All of them were in the topic ({PARTITIONS} partitions, values of {RECORD_BYTES} bytes) when the
query started. It read them in batches of {BATCH_RECORDS:,} in {len(backlog.rows_per_s) + 1}
batches; the first is left out, because it has the query's start. Change: by a straight line through
all batches.

| | first third | last third | change |
|---|---|---|---|
| rows/s of a batch | {change(backlog.rows_per_s)} |
| resident memory of the driver's process, MB | {change(backlog.resident_mb)} |
| heap after a garbage collection, after each {LOOK} batches, MB | {change(backlog.heap_mb)} |

## {given.keys:,} keys

`groupBy(key).count()` in update mode with RocksDB and {PARTITIONS} writers: each batch has one
record of each key and writes as many results. Medians of {KEY_BATCHES - 1} batches in each of
{KEY_ROUNDS} rounds, and of those the median, the least and the greatest.

| peer | a batch, ms | of it, the commit, ms |
|---|---|---|
{chr(10).join(rows)}
"""
    given.report.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
