"""What a query costs as its input grows in partitions, and as its batches shrink.

Five parts, each with a broker and a Spark session of its own, so that no broker has the partitions
of all:

- *partitions*: the same records in 10, 100, ... input partitions. eoskafka runs with a producer for
  each slot (KIP-447) and, as in former versions, with a producer for each input partition (as many
  slots as partitions). Measured are rows per second, transactional ids, and the producers whose
  state the broker keeps in the output's partitions.
- *slots*: the same records in 8 input partitions, read and written by 1, 2, ... slots.
- *planning*: batches of one record for each of 100, 1,000, ... partitions. The time that a batch
  takes besides reading and writing is spent in the driver. The built-in connector is left out: with
  a task and a consumer for each of 10,000 partitions its batch takes minutes.
- *batches*: batches of 10, 1,000, ... records, of eoskafka and the built-in connector.
- *requests*: what a producer sends per transaction of one record, from its own metrics.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from kafka import TopicPartition
from pyspark.sql.streaming.query import StreamingQuery

from eoskafka.bench.count import Count, count
from eoskafka.bench.errors import BenchError
from eoskafka.bench.load import load
from eoskafka.bench.peers import EOSKAFKA, PEERS, Peer
from eoskafka.bench.rounds import Result, Watcher, in_rounds
from eoskafka.bench.stage import (
    Input,
    Stage,
    batches,
    machine,
    planning_ms,
    records_read,
    stage,
)

OUTPUT_PARTITIONS = 8
SLOTS_PARTITIONS = 8
RECORD_BYTES = 100
PER_SLOT, PER_PARTITION = "per slot", "per partition"
# More producers than this on one machine measure its threads and sockets.
MOST_PRODUCERS = 1_000
_BATCHES = 20
_PLANNED_BATCHES = 5
# Of the part *requests*, before the count begins and in it.
_WARM, _COUNTED = 20, 200
# Without a batch.
_IDLE_S = 60.0


@dataclass(frozen=True)
class Settings:
    """What to measure.

    Attributes:
        records: of each input of the part *partitions*.
        partitions: numbers of input partitions of that part.
        slots: numbers of slots of the part *slots*.
        planned: numbers of input partitions of the part *planning*.
        batch_records: sizes of a batch in the part *batches*.
        rounds: timed runs, after one untimed run each.
    """

    records: int
    partitions: tuple[int, ...]
    slots: tuple[int, ...]
    planned: tuple[int, ...]
    batch_records: tuple[int, ...]
    rounds: int


@dataclass(frozen=True)
class Run:
    """One query.

    Attributes:
        part: `partitions`, `slots`, `planning`, `batches` or `requests`.
        peer: whose.
        producers: `per slot` or `per partition`.
        size: input partitions, slots, or records of a batch.
        round: 0 is the warm-up.
        batches: micro-batches with input.
        ms: Spark's `durationMs.triggerExecution`, summed over these.
        driver_ms: median over all batches but the first of what they took besides
            `durationMs.addBatch`; None with one batch.
        planning_ms: the same without Spark's two log entries (`walCommit`, `commitOffsets`).
        transactional_ids: that the query has used; None for a peer that has none, and where they
            were not counted.
        producer_states: producers that the broker knows in the output's partitions, added up; None
            where they were not counted.
        requests: of the part *requests*, what a producer has sent per transaction, once it was
            warm: one Produce, and what the transaction asks for besides.
        count: what came out.
    """

    part: str
    peer: Peer
    producers: str
    size: int
    round: int
    batches: int
    ms: float
    driver_ms: float | None
    planning_ms: float | None
    transactional_ids: int | None
    producer_states: int | None
    requests: float | None
    count: Count

    @property
    def rows_per_s(self) -> float | None:
        """Input rows per second; None for a run that was wrong."""
        return self.count.records * 1_000 / self.ms if self.count.is_right and self.ms else None


@dataclass(frozen=True)
class Case:
    """One query to be run; the fields are those of `Run`.

    Attributes:
        given: its input.
        per_trigger: `maxOffsetsPerTrigger`.
        slots: of the source; None for its default.
    """

    part: str
    peer: Peer
    size: int
    given: Input
    per_trigger: int | None = None
    producers: str = PER_SLOT
    slots: int | None = None


def measure(settings: Settings, watcher: Watcher[Run]) -> Result[Run]:
    """Run the benchmark; whatever happens, nothing that it started is left running.

    Raises:
        JarError: the connector's jar is missing or stale.
        BenchError: a peer cannot be built or run.
        ConfigurationError: a Spark session runs already in this process.
        ClusterError: the broker does not start.
        UndecidedError: an output topic cannot be read to its end.
    """
    runs: list[Run] = []
    for _, of in groupby(cases(settings), lambda case: case.part):
        part = tuple(of)
        with stage(dict.fromkeys(case.given for case in part), watcher) as there:
            runs += in_rounds(there, settings, part, partial(_run, there), watcher).runs
    with stage((), watcher) as there:
        requests = _requests(there)
        watcher.ran(requests)
        return Result(settings, machine(there.spark), (*runs, requests))


def cases(settings: Settings) -> Iterator[Case]:
    """What each round runs, in this order."""
    for partitions in settings.partitions:
        given = Input(f"partitions-{partitions}", partitions, settings.records, RECORD_BYTES)
        yield Case("partitions", EOSKAFKA, partitions, given)
        if partitions <= MOST_PRODUCERS:
            yield Case(
                *("partitions", EOSKAFKA, partitions, given),
                producers=PER_PARTITION,
                slots=partitions,
            )
    given = Input(
        f"partitions-{SLOTS_PARTITIONS}", SLOTS_PARTITIONS, settings.records, RECORD_BYTES
    )
    for slots in settings.slots:
        yield Case("slots", EOSKAFKA, slots, given, slots=slots)
    for partitions in settings.planned:
        records = _PLANNED_BATCHES * partitions
        given = Input(f"planned-{partitions}", partitions, records, RECORD_BYTES)
        yield Case("planning", EOSKAFKA, partitions, given, per_trigger=partitions)
    in_spark = tuple(peer for peer in PEERS if peer.format is not None)
    for records in settings.batch_records:
        few = Input(f"batches-{records}", 2, _BATCHES * records, RECORD_BYTES)
        for peer in in_spark:
            yield Case("batches", peer, records, few, records)


def _run(there: Stage, case: Case, number: int) -> Run:
    name = f"{case.part}-{case.size}-{case.producers.replace(' ', '-')}-{case.peer.id}-{number}"
    options: dict[str, int | str] = {}
    if case.per_trigger is not None:
        options["maxOffsetsPerTrigger"] = case.per_trigger
    if case.slots is not None:
        options["slots"] = case.slots
    group = there.prefix + name
    if case.peer == EOSKAFKA:
        options["kafka.group.id"] = group
    with there.output(name, OUTPUT_PARTITIONS) as topic:
        rows = there.source(case.peer, case.given.topic, **options).select("key", "value")
        query = there.run(case.peer, rows, name)
        counted = count(
            there.addresses.direct,
            topic,
            records=case.given.records,
            record_bytes=RECORD_BYTES,
            keyed=False,
        )
        states = there.admin.describe_producers(
            [TopicPartition(topic, partition) for partition in range(OUTPUT_PARTITIONS)]
        )
    ids = [
        listed.transactional_id
        for each in there.admin.list_transactions().values()
        for listed in each
        if f"-{group}-" in listed.transactional_id
    ]
    durations = [batch.durationMs for batch in batches(query)]
    driver = [batch["triggerExecution"] - batch["addBatch"] for batch in durations[1:]]
    return Run(
        part=case.part,
        peer=case.peer,
        producers=case.producers,
        size=case.size,
        round=number,
        batches=len(durations),
        ms=float(sum(batch["triggerExecution"] for batch in durations)),
        driver_ms=_median(driver),
        planning_ms=_median([*map(planning_ms, durations[1:])]),
        transactional_ids=len(ids) if case.peer == EOSKAFKA else None,
        producer_states=sum(len(state.active_producers) for state in states.values()),
        requests=None,
        count=counted,
    )


def _median(values: list[int]) -> float | None:
    return float(statistics.median(values)) if values else None


def _requests(there: Stage) -> Run:
    """Two slots with one record each a batch, to one partition: one send a transaction."""
    with there.output("requests-in", 2) as source, there.output("requests", 1) as topic:
        options: dict[str, int | str] = {"kafka.group.id": topic, "maxOffsetsPerTrigger": 2}
        rows = there.source(EOSKAFKA, "requests-in", **options).select("key", "value")
        query = there.writer(EOSKAFKA, rows, "requests").start()
        sent = []
        try:
            for first, end in ((0, _WARM), (_WARM, _WARM + _COUNTED)):
                load(
                    there.addresses.direct,
                    source,
                    partitions=2,
                    first=2 * first,
                    records=2 * end,
                    record_bytes=RECORD_BYTES,
                    keyed=False,
                    run_records=1,
                )
                _wait_idle(query, 2 * end)
                sent.append(there.producer_metric(topic, "request-total"))
        finally:
            query.stop()
        counted = count(
            there.addresses.direct,
            topic,
            records=2 * (_WARM + _COUNTED),
            record_bytes=RECORD_BYTES,
            keyed=False,
        )
    durations = [batch.durationMs for batch in batches(query)]
    if len(durations) != _WARM + _COUNTED:
        raise BenchError(f"{_WARM + _COUNTED} batches were to run, and {len(durations)} did")
    return Run(
        part="requests",
        peer=EOSKAFKA,
        producers=PER_SLOT,
        size=2,
        round=1,
        batches=len(durations),
        ms=float(sum(batch["triggerExecution"] for batch in durations)),
        driver_ms=None,
        planning_ms=None,
        transactional_ids=None,
        producer_states=None,
        requests=(sent[1] - sent[0]) / (2 * _COUNTED),
        count=counted,
    )


def _wait_idle(query: StreamingQuery, records: int) -> None:
    """Until a query has read so many records and waits for more."""
    seen, deadline = -1, 0.0
    while (end := records_read(query)) < records or not query.status["message"].startswith(
        "Waiting"
    ):
        if end > seen:
            seen, deadline = end, time.monotonic() + _IDLE_S
        if time.monotonic() > deadline or not query.isActive:
            raise BenchError(f"the query has read {end:,} of {records:,} records")
        time.sleep(0.05)
