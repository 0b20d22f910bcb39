"""What an epoch costs: batch times of plans that shuffle, and the commit of very many writers.

Two plans, on one broker in one Spark session:

- *windows*: a windowed count with a watermark, in update mode, of each peer in turn. The event time
  follows from a record's number, so every batch opens and closes windows of its own.
- *writers*: eoskafka alone, records spread over many writers, as small as can be: what is measured
  is the time from the last writer's report until all transactions have ended.

Each run's output is read and compared before its time is believed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, functions

from eoskafka.audit import Fault
from eoskafka.bench.brokers import NEARBY, Brokers
from eoskafka.bench.count import Count, count, read
from eoskafka.bench.peers import EOSKAFKA, PEERS, Peer
from eoskafka.bench.rounds import Result, Watcher, in_rounds
from eoskafka.bench.stage import Input, Stage, batches, commits_ms, stage

# Of Spark, each with its defaults and with our settings.
TAKING_PART = tuple(peer for peer in PEERS if peer.format is not None)
PARTITIONS = 8
RECORD_BYTES = 100
# Of one window, and so of its keys together.
WINDOW_RECORDS = 10_000
KEYS = 500
# A batch of the plan `writers` has so many for each of them.
RECORDS_PER_WRITER = 100

_WINDOWS, _WRITERS = "windows", "writers"
NUMBER = "cast(conv(hex(substring(value, 1, 8)), 16, 10) as long) as n"
# Numbers of wrong results that are named.
_NAMED = 3


@dataclass(frozen=True)
class Settings:
    """What to measure.

    Attributes:
        batch_records: input records of one batch of the plan `windows`; a multiple of 8,000, so
            that batches follow the records' numbers: the loader turns to the next of the eight
            partitions after each thousand.
        batches: of each query. The first is not timed: it has the query's start.
        shuffle_partitions: writers of a batch of the plan `windows`.
        writers: of a batch of the plan `writers`.
        rounds: timed runs, after one untimed run each.
    """

    batch_records: int
    batches: int
    shuffle_partitions: int
    writers: int
    rounds: int


@dataclass(frozen=True)
class Run:
    """One query.

    Attributes:
        plan: `windows` or `writers`.
        peer: whose.
        round: 0 is the warm-up.
        batch_ms: Spark's `durationMs.triggerExecution` of each timed batch.
        commit_ms: `commitLatencyMs` of each timed batch, as the sink reports it; empty for a peer
            that has no commit.
        count: what the output topic holds: results of the plan `windows`, records of `writers`.
    """

    plan: str
    peer: Peer
    round: int
    batch_ms: tuple[int, ...]
    commit_ms: tuple[int, ...]
    count: Count


class WindowTally:
    """Takes results of the plan `windows`: text of window, key and count."""

    def __init__(self) -> None:
        self._results: Counter[bytes] = Counter()

    def take(self, keys: list[bytes | None], found: list[bytes]) -> None:
        """Take records; the keys say nothing."""
        self._results.update(found)

    def against(self, records: int) -> Count:
        """The comparison with the counts of records 0 to `records` - 1.

        In update mode a window that two batches have seen comes out twice, with another count each
        time: the greatest one must be right, and none may come twice.
        """
        greatest: dict[tuple[int, int], int] = {}
        for result in self._results:
            window, key, number = map(int, result.split(b","))
            greatest[window, key] = max(number, greatest.get((window, key), 0))
        expected = Counter(
            (n // WINDOW_RECORDS * WINDOW_RECORDS // 1_000, n % KEYS) for n in range(records)
        )
        doubled = [result for result, times in self._results.items() if times > 1]
        lost = [each for each in expected if each not in greatest]
        altered = [each for each, n in greatest.items() if each in expected and n != expected[each]]
        unexpected = [each for each in greatest if each not in expected]
        return Count(
            records=self._results.total(),
            faults={
                Fault.LOST: len(lost),
                Fault.DUPLICATED: sum(self._results[result] - 1 for result in doubled),
                Fault.ALTERED: len(altered),
                Fault.UNEXPECTED: len(unexpected),
            },
            examples=(
                *(f"window and key {each} never came out" for each in lost[:_NAMED]),
                *(f"{each.decode()} came out more than once" for each in doubled[:_NAMED]),
                *(f"window and key {each} has {greatest[each]}" for each in altered[:_NAMED]),
                *(f"window and key {each} was never there" for each in unexpected[:_NAMED]),
            ),
        )


def measure(settings: Settings, watcher: Watcher[Run], brokers: Brokers = NEARBY) -> Result[Run]:
    """Run the benchmark. Arguments and errors are those of `throughput.measure`."""
    inputs = [
        Input(topic, PARTITIONS, records, RECORD_BYTES)
        for topic, records in _inputs(settings).items()
    ]
    with stage(inputs, watcher, brokers=brokers) as there:
        there.spark.conf.set("spark.sql.shuffle.partitions", str(settings.shuffle_partitions))
        cases = [*((_WINDOWS, peer) for peer in TAKING_PART), (_WRITERS, EOSKAFKA)]
        return in_rounds(there, settings, cases, partial(_run, there, settings), watcher)


def _inputs(settings: Settings) -> dict[str, int]:
    """Input topics and how many records they have."""
    return {
        _WINDOWS: settings.batches * settings.batch_records,
        _WRITERS: settings.batches * settings.writers * RECORDS_PER_WRITER,
    }


def _run(there: Stage, settings: Settings, case: tuple[str, Peer], number: int) -> Run:
    plan, peer = case
    name = f"{plan}-{peer.id}-{number}"
    with there.output(name, PARTITIONS) as topic:
        if plan == _WINDOWS:
            query = there.run(peer, _windows(there, settings, peer), name, "update")
        else:
            query = there.run(peer, _writers(there, settings, peer), name)
        counted = _count(there, settings, plan, topic)
    timed = batches(query)[1:]
    return Run(
        plan=plan,
        peer=peer,
        round=number,
        batch_ms=tuple(p.durationMs["triggerExecution"] for p in timed),
        commit_ms=tuple(commits_ms(timed)),
        count=counted,
    )


def _windows(there: Stage, settings: Settings, peer: Peer) -> DataFrame:
    return (
        there.source(peer, _WINDOWS, maxOffsetsPerTrigger=settings.batch_records)
        .selectExpr(NUMBER)
        .selectExpr("timestamp_seconds(n div 1000) as time", f"n % {KEYS} as k")
        .withWatermark("time", "10 seconds")
        .groupBy(functions.window("time", f"{WINDOW_RECORDS // 1_000} seconds"), "k")
        .count()
        .selectExpr("concat(cast(window.start as long), ',', k, ',', count) as value")
    )


def _writers(there: Stage, settings: Settings, peer: Peer) -> DataFrame:
    batch_records = settings.writers * RECORDS_PER_WRITER
    rows = there.source(peer, _WRITERS, maxOffsetsPerTrigger=batch_records)
    return rows.select("key", "value").repartition(settings.writers)


def _count(there: Stage, settings: Settings, plan: str, topic: str) -> Count:
    if plan == _WINDOWS:
        tally = WindowTally()
        read(there.addresses.direct, topic, tally)
        return tally.against(_inputs(settings)[_WINDOWS])
    return count(
        there.addresses.direct,
        topic,
        records=_inputs(settings)[_WRITERS],
        record_bytes=RECORD_BYTES,
        keyed=False,
    )
