"""Milliseconds from a record's way in to its way out, at a steady rate.

Every peer gets the same input, and its output is read in the same way (`stream.py`). Queries run
without a trigger, one micro-batch after another, or in real-time mode with Spark's default batch
length of five minutes, so that no batch ends within a run. All peers that commit at an interval use
the same one. Every record must come out exactly once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import partial

import numpy as np
from pyspark.sql.streaming.query import StreamingQuery

from eoskafka.bench.brokers import NEARBY, Brokers
from eoskafka.bench.count import Count
from eoskafka.bench.errors import BenchError
from eoskafka.bench.peers import (
    BUILT_IN_REAL_TIME,
    LOOP,
    PEERS,
    REAL_TIME,
    Peer,
)
from eoskafka.bench.rounds import Result, Watcher, in_rounds
from eoskafka.bench.stage import Stage, batches, stage
from eoskafka.bench.stream import Arrivals, Reader, Stream, feed

# The plain loop chooses when it commits, so its latency would only show that setting.
TAKING_PART = (
    *(peer for peer in PEERS if peer.name != LOOP.name),
    *(BUILT_IN_REAL_TIME, REAL_TIME),
)

# The default of eoskafka in real-time mode and of Kafka Streams. Flink takes no checkpoints without
# an interval.
COMMIT_INTERVAL_MS = 100

_START_S = 60.0


@dataclass(frozen=True)
class Settings:
    """What to measure.

    Attributes:
        rate: records per second.
        seconds: of each timed run, after `warm_up_s`.
        warm_up_s: seconds at the same rate that are not timed.
        record_bytes: length of each value, in bytes; at least 16.
        partitions: of input and output topics.
        rounds: timed runs of each peer, after one untimed run each.
        peers: who takes part.
        spark_conf: further settings of the session that the peers in Spark share.
    """

    rate: int
    seconds: int
    warm_up_s: int
    record_bytes: int
    partitions: int
    rounds: int
    peers: tuple[Peer, ...] = TAKING_PART
    spark_conf: Mapping[str, str] = field(default_factory=dict)

    def stream(self) -> Stream:
        """What goes in, from the warm-up's first record on."""
        seconds = self.warm_up_s + self.seconds
        return Stream(self.rate, seconds, self.record_bytes, self.partitions)


@dataclass(frozen=True)
class Run:
    """One run of one peer.

    Attributes:
        peer: whose.
        round: 0 is the warm-up.
        p50_ms: median over all timed records.
        p99_ms: 99th percentile.
        greatest_ms: of the slowest record.
        batch_ms: median of Spark's `durationMs.triggerExecution` over timed batches with input;
            None for a peer that is not in Spark.
        durations_ms: medians of the other parts of Spark's `durationMs`, by name.
        count: what came out.
    """

    peer: Peer
    round: int
    p50_ms: float
    p99_ms: float
    greatest_ms: float
    batch_ms: float | None
    durations_ms: dict[str, float]
    count: Count


def measure(settings: Settings, watcher: Watcher[Run], brokers: Brokers = NEARBY) -> Result[Run]:
    """Run the benchmark. Arguments and errors are those of `throughput.measure`."""
    with_peers = not all(peer.is_ours for peer in settings.peers)
    with stage(
        [], watcher, with_peers=with_peers, brokers=brokers, spark_conf=settings.spark_conf
    ) as there:
        return in_rounds(there, settings, settings.peers, partial(run, there, settings), watcher)


def run(
    there: Stage,
    settings: Settings,
    peer: Peer,
    number: int,
    name: str | None = None,
    interval_ms: int | None = None,
    look: Callable[[], None] = lambda: None,
) -> Run:
    """Run one peer once.

    Args:
        there: where it runs.
        settings: the input.
        peer: the peer that copies it.
        number: the number of the round.
        name: the name for its topics, new to the cluster; by default peer and round.
        interval_ms: how often the peer commits, if it commits at an interval; None for
            `COMMIT_INTERVAL_MS`.
        look: called when everything has come out, while the peer still runs.

    Raises:
        BenchError: the query has failed, or the input was not written in time.
    """
    name = name or f"{peer.id}-{number}"
    source = f"{name}-in"
    with (
        there.output(source, settings.partitions) as input_topic,
        there.output(name, settings.partitions) as output_topic,
    ):
        durations: dict[str, list[int]] = {}
        stream = settings.stream()
        arrivals = Arrivals(stream)
        reader = Reader(there.addresses.direct, output_topic, settings.partitions, arrivals)
        with (
            _running(there, peer, source, name, interval_ms, settings.warm_up_s, durations),
            reader,
        ):
            feed(there.addresses.direct, input_topic, stream)
            reader.wait()
            look()
    latencies = arrivals.latencies_ms()[settings.warm_up_s * settings.rate :]
    p50, p99, greatest = np.percentile(latencies, [50, 99, 100])
    medians = {part: float(np.median(each)) for part, each in durations.items()}
    return Run(
        peer=peer,
        round=number,
        p50_ms=float(p50),
        p99_ms=float(p99),
        greatest_ms=float(greatest),
        batch_ms=medians.pop("triggerExecution", None),
        durations_ms=medians,
        count=arrivals.count(),
    )


@contextmanager
def _running(
    there: Stage,
    peer: Peer,
    source: str,
    name: str,
    interval_ms: int | None,
    warm_up_s: int,
    durations: dict[str, list[int]],
) -> Iterator[None]:
    """The peer copies while the block runs; then `durations` has what its timed batches took."""
    if peer.format is None:
        topic = there.prefix + name
        with there.program(peer).following(
            there.prefix + source, topic, topic, interval_ms or COMMIT_INTERVAL_MS
        ):
            yield
        return
    options = {} if interval_ms is None else {"commitIntervalMs": str(interval_ms)}
    with there.running(peer, source, name, options) as query:
        deadline = time.monotonic() + _START_S
        # In real-time mode there is no report before a batch's end.
        while not (query.recentProgress or peer.real_time):
            _require_alive(peer, query)
            if time.monotonic() > deadline:
                raise BenchError(f"the query of {peer.label} did not start within {_START_S:g} s")
            time.sleep(0.05)
        timed_from = datetime.now(timezone.utc) + timedelta(seconds=warm_up_s)
        yield
        _require_alive(peer, query)
        for batch in batches(query):
            began = datetime.fromisoformat(batch.timestamp.replace("Z", "+00:00"))
            if began >= timed_from:
                for part, ms in batch.durationMs.items():
                    durations.setdefault(part, []).append(ms)


def _require_alive(peer: Peer, query: StreamingQuery) -> None:
    if (error := query.exception()) is not None:
        raise BenchError(f"the query of {peer.label} failed: {error}")
