"""What a shorter commit interval gains in latency in real-time mode, and what throughput it costs.

Two parts for each interval, in turn: *latency*, as `latency.py` measures it, at a steady rate; and
*backlog*, a topic that is full when the query starts, read as fast as it goes. Its time is from the
first commit that the group shows to the one at the topic's end, so a query's start is not in it.

Where a record's time goes follows from the part *latency*: the wait for a commit, and what a commit
takes, which Kafka's client tells by its own metrics. How many transactions there were is the epoch
of their producers: by transaction version 2 it goes up by one with each.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from kafka.errors import KafkaError
from pyspark.sql.streaming.query import StreamingQuery

from eoskafka.bench import latency
from eoskafka.bench.count import Count, count
from eoskafka.bench.errors import BenchError
from eoskafka.bench.peers import REAL_TIME
from eoskafka.bench.rounds import Result, Watcher, in_rounds
from eoskafka.bench.stage import Input, Stage, stage

LATENCY, BACKLOG = "latency", "backlog"
# By the names of Kafka's client.
_PARTS = {"flush": "flush", "offsets": "txn-send-offsets", "end": "txn-commit"}
_LOOK_S = 0.01
# Without a commit.
_IDLE_S = 60.0


@dataclass(frozen=True)
class Settings:
    """What to measure.

    Attributes:
        intervals_ms: values of `commitIntervalMs`.
        stream: of the part *latency*; its peers do not count.
        backlog: input records of the part *backlog*.
        rounds: timed runs of each, after one untimed run each.
    """

    intervals_ms: tuple[int, ...]
    stream: latency.Settings
    backlog: int
    rounds: int


@dataclass(frozen=True)
class Run:
    """One query.

    Attributes:
        part: `latency` or `backlog`.
        interval_ms: its `commitIntervalMs`.
        round: 0 is the warm-up.
        p50_ms: of the part *latency*; None in the other.
        p99_ms: likewise.
        rows_per_s: of the part *backlog*; None in the other.
        transactions: of the part *latency*, how many were committed; 0 in the other.
        transaction_ms: mean times of these, by part: until records are with the brokers (`flush`),
            offsets sent (`offsets`), and the end answered (`end`); empty in the other.
        count: what came out.
    """

    part: str
    interval_ms: int
    round: int
    p50_ms: float | None
    p99_ms: float | None
    rows_per_s: float | None
    transactions: int
    transaction_ms: dict[str, float]
    count: Count


def measure(
    settings: Settings, watcher: Watcher[Run], bootstrap_servers: str | None = None
) -> Result[Run]:
    """Run the benchmark. Arguments and errors are those of `throughput.measure`."""
    s = settings.stream
    given = Input(BACKLOG, s.partitions, settings.backlog, s.record_bytes)
    with stage([given], watcher, with_peers=False, bootstrap_servers=bootstrap_servers) as there:
        cases = [(part, ms) for ms in settings.intervals_ms for part in (LATENCY, BACKLOG)]
        return in_rounds(there, settings, cases, partial(_run, there, settings, given), watcher)


def _run(there: Stage, settings: Settings, given: Input, case: tuple[str, int], number: int) -> Run:
    part, interval_ms = case
    name = f"{part}-{interval_ms}-{number}"
    if part == LATENCY:
        return _steady(there, settings.stream, name, interval_ms, number)
    with there.output(name, given.partitions) as topic:
        with _query(there, given, name, interval_ms) as query:
            rows_per_s = _drained(there, query, topic, given.records)
        counted = count(
            there.bootstrap_servers,
            topic,
            records=given.records,
            record_bytes=given.record_bytes,
            keyed=given.keyed,
        )
    return Run(BACKLOG, interval_ms, number, None, None, rows_per_s, 0, {}, counted)


def _steady(
    there: Stage, stream: latency.Settings, name: str, interval_ms: int, number: int
) -> Run:
    transactions: list[tuple[int, dict[str, float]]] = []
    found = latency.run(
        *(there, stream, REAL_TIME, number, name, interval_ms),
        look=lambda: transactions.append(_transactions(there, there.prefix + name)),
    )
    return Run(
        *(LATENCY, interval_ms, number, found.p50_ms, found.p99_ms, None, *transactions[0]),
        found.count,
    )


def _transactions(there: Stage, group: str) -> tuple[int, dict[str, float]]:
    """How many a running query has committed since its start, and their mean times in ms."""
    ids = [
        listed.transactional_id
        for each in there.admin.list_transactions().values()
        for listed in each
        if f"-{group}-" in listed.transactional_id
    ]
    number = sum(each.producer_epoch for each in there.admin.describe_transactions(ids).values())
    if not number:
        raise BenchError(f"no transactions of {group} are known, or not by version 2")
    return number, {
        part: there.producer_metric(group, f"{name}-time-ns-total") / 1e6 / number
        for part, name in _PARTS.items()
    }


@contextmanager
def _query(there: Stage, given: Input, name: str, interval_ms: int) -> Iterator[StreamingQuery]:
    options = {"kafka.group.id": there.prefix + name}
    rows = there.source(REAL_TIME, given.topic, **options).select("key", "value")
    query = there.start(REAL_TIME, rows, name, {"commitIntervalMs": str(interval_ms)})
    try:
        yield query
    finally:
        query.stop()
        there.clear_heap()


def _drained(there: Stage, query: StreamingQuery, group: str, records: int) -> float:
    """Rows per second from the first commit seen to the last; `group` is the query's.

    An input that was written without transactions has an offset for each record.
    """
    first, began, seen = 0, 0.0, 0
    deadline = time.monotonic() + _IDLE_S
    while seen < records:
        time.sleep(_LOOK_S)
        now = time.monotonic()
        if (end := _committed(there, group)) > seen:
            seen, deadline = end, now + _IDLE_S
            if not first:
                first, began = end, now
        if now > deadline or not query.isActive:
            raise BenchError(
                f"{seen:,} of {records:,} records are committed, and no more come: "
                f"{query.exception() or f'nothing in {_IDLE_S:g} s'}"
            )
    if first == seen:
        raise BenchError(f"{records:,} records are one transaction: choose a larger --backlog")
    return (seen - first) / (now - began)


def _committed(there: Stage, group: str) -> int:
    try:
        offsets = there.admin.list_group_offsets([group])[group]
    except KafkaError:
        # It has not been heard of yet.
        return 0
    return sum(offset.offset for offset in offsets.values())
