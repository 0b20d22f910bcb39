"""How the commit interval of real-time mode changes latency and throughput.
Flink, whose sink commits after each checkpoint, is measured for comparison.

Each interval and peer has two parts, in turn: *latency*, which `latency.py` measures at a steady
rate; and *backlog*, which reads at full speed a topic that is full when the query starts. The time
of the second part is from a tenth of the records to nine tenths, by the group's offsets. It
excludes the query's start, and its end, where slots that have nothing left to read wait for their
interval. Flink commits the group's offsets after each checkpoint, together with its transactions.

The part *latency* also shows where eoskafka spends a record's time: it waits for a commit, and then
for the commit to end, which the metrics of Kafka's client measure over the whole run. The number of
transactions is the epoch of their producers: with transaction version 2, each transaction raises it
by one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from kafka.errors import KafkaError

from eoskafka.bench import latency
from eoskafka.bench.brokers import NEARBY, Brokers
from eoskafka.bench.count import Count, count
from eoskafka.bench.errors import BenchError
from eoskafka.bench.peers import FLINK, PEERS, REAL_TIME, Peer
from eoskafka.bench.rounds import Result, Watcher, in_rounds
from eoskafka.bench.stage import Input, Stage, stage

TAKING_PART = (*(peer for peer in PEERS if peer.name == FLINK.name), REAL_TIME)
# Flink refuses a shorter interval between checkpoints.
FLINK_LEAST_MS = 10
LATENCY, BACKLOG = "latency", "backlog"
# By the names of Kafka's client.
PARTS = {"flush": "flush", "offsets": "txn-send-offsets", "end": "txn-commit"}
# A producer's epoch goes no further: then it has another id, and begins again.
MOST_TRANSACTIONS = 32_000
_LOOK_S = 0.05
_FROM, _TO = 0.1, 0.9
# Without a commit.
_IDLE_S = 60.0


@dataclass(frozen=True)
class Settings:
    """What to measure.

    Attributes:
        intervals_ms: values of `commitIntervalMs`, and of Flink's interval between checkpoints.
        stream: of the part *latency*; its peers and rounds do not count.
        backlog: input records of the part *backlog*.
        rounds: timed runs of each, after one untimed run each.
        peers: who takes part.
    """

    intervals_ms: tuple[int, ...]
    stream: latency.Settings
    backlog: int
    rounds: int
    peers: tuple[Peer, ...] = TAKING_PART


@dataclass(frozen=True)
class Run:
    """One run of one peer.

    Attributes:
        peer: whose.
        part: `latency` or `backlog`.
        interval_ms: how often it commits.
        round: 0 is the warm-up.
        p50_ms: of the part *latency*; None in the other.
        p99_ms: likewise.
        rows_per_s: of the part *backlog*; None in the other.
        transactions: of the part *latency*, how many were committed, the warm-up's too; 0 in the
            other, of other peers, and where brokers do not tell (transaction version 1).
        transaction_ms: mean times of these, by part: until records are with the brokers (`flush`),
            offsets sent (`offsets`), and the end answered (`end`); empty where there are none.
        count: what came out.
    """

    peer: Peer
    part: str
    interval_ms: int
    round: int
    p50_ms: float | None
    p99_ms: float | None
    rows_per_s: float | None
    transactions: int
    transaction_ms: dict[str, float]
    count: Count


def measure(settings: Settings, watcher: Watcher[Run], brokers: Brokers = NEARBY) -> Result[Run]:
    """Run the benchmark. Arguments and errors are those of `throughput.measure`."""
    s = settings.stream
    given = Input(BACKLOG, s.partitions, settings.backlog, s.record_bytes)
    # The session needs no other connector: the peers beside eoskafka have JVMs of their own.
    with stage([given], watcher, with_peers=False, brokers=brokers) as there:
        cases = [
            (peer, part, ms)
            for ms in settings.intervals_ms
            for part in (LATENCY, BACKLOG)
            for peer in settings.peers
        ]
        return in_rounds(there, settings, cases, partial(_run, there, settings, given), watcher)


def _run(
    there: Stage, settings: Settings, given: Input, case: tuple[Peer, str, int], number: int
) -> Run:
    peer, part, interval_ms = case
    name = f"{peer.id}-{part}-{interval_ms}-{number}"
    if part == LATENCY:
        return _steady(there, settings.stream, peer, name, interval_ms, number)
    with there.output(name, given.partitions) as topic:
        with _running(there, peer, given.topic, name, interval_ms) as failure:
            looks = [(time.monotonic(), 0)]
            while looks[-1][1] < given.records:
                time.sleep(_LOOK_S)
                now, seen = time.monotonic(), _committed(there, topic)
                if seen > looks[-1][1]:
                    looks.append((now, seen))
                elif now - looks[-1][0] > _IDLE_S or failure() is not None:
                    raise BenchError(
                        f"{peer.label}: {seen:,} of {given.records:,} records are committed, and "
                        f"no more arrive: {failure() or f'nothing in {_IDLE_S:g} s'}"
                    )
        counted = count(
            there.addresses.direct,
            topic,
            records=given.records,
            record_bytes=given.record_bytes,
            keyed=given.keyed,
        )
    speed = rows_per_s(looks, given.records)
    return Run(peer, BACKLOG, interval_ms, number, None, None, speed, 0, {}, counted)


@contextmanager
def _running(
    there: Stage, peer: Peer, source: str, name: str, interval_ms: int
) -> Iterator[Callable[[], object]]:
    """Let the peer copy while the block runs, in a group with the name of its output. Gives a
    function that says why the peer has ended, or None while it runs.
    """
    if peer.format is None:
        topic = there.prefix + name
        program = there.program(peer)
        with program.following(there.prefix + source, topic, topic, interval_ms):
            yield program.failure
        return
    with there.running(peer, source, name, {"commitIntervalMs": str(interval_ms)}) as query:
        yield lambda: None if query.isActive else query.exception() or "the query has ended"


def rows_per_s(looks: Sequence[tuple[float, int]], records: int) -> float:
    """The speed between a tenth of the records and nine tenths.

    Args:
        looks: samples: the time in seconds, and how many records were committed by then.
        records: the number of all records.

    Raises:
        BenchError: both points fall into the same sample.
    """
    began, first = next(look for look in looks if look[1] >= _FROM * records)
    ended, last = next(look for look in looks if look[1] >= _TO * records)
    if began == ended:
        raise BenchError(
            f"{records:,} records were processed too fast to measure the rate: choose "
            "a larger --backlog"
        )
    return (last - first) / (ended - began)


def _steady(
    there: Stage, stream: latency.Settings, peer: Peer, name: str, interval_ms: int, number: int
) -> Run:
    transactions: list[tuple[int, dict[str, float]]] = []

    def look() -> None:
        # Only eoskafka's producers are in this session, where their metrics can be read.
        if peer.is_ours:
            transactions.append(_transactions(there, there.prefix + name))

    found = latency.run(there, stream, peer, number, name, interval_ms, look)
    number_of, times = transactions[0] if transactions else (0, {})
    p50, p99 = found.p50_ms, found.p99_ms
    return Run(peer, LATENCY, interval_ms, number, p50, p99, None, number_of, times, found.count)


def _transactions(there: Stage, group: str) -> tuple[int, dict[str, float]]:
    """How many a running query has committed since its start, and their mean times in ms."""
    ids = [
        listed.transactional_id
        for each in there.admin.list_transactions().values()
        for listed in each
        if f"-{group}-" in listed.transactional_id
    ]
    number = sum(each.producer_epoch for each in there.admin.describe_transactions(ids).values())
    return number, {
        part: there.producer_metric(group, f"{name}-time-ns-total") / 1e6 / number
        for part, name in PARTS.items()
        if number
    }


def _committed(there: Stage, group: str) -> int:
    """How many records: an input that was written without transactions has an offset for each."""
    try:
        offsets = there.admin.list_group_offsets([group])[group]
    except KafkaError:
        # It has not been heard of yet.
        return 0
    return sum(offset.offset for offset in offsets.values())
