"""`make many-queries`: what many queries in one driver cost, and how long they take to start.

One broker, one Spark session in local mode, so that the executor's clients are in the driver's
process. Fifty queries from topic to topic start at once on new checkpoints; half of them stop; all
run again, and the broker restarts under them. The same with Spark's built-in connector. Then twenty
queries that share a group (`shared_drivers.py`).

Exit code 0: every output was right. Figures are for reading, not for judging.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TypeVar

import pyspark
from eoskafka.audit import read_committed
from eoskafka.bench.peers import BUILT_IN, EOSKAFKA, Peer
from eoskafka.bench.stage import Stage, create_topic, records_read
from harness import until
from kafka import KafkaProducer
from pyspark.sql.streaming.query import StreamingQuery

from faults import shared_drivers
from faults.footprint import Footprint, footprint
from faults.own_broker import on_own_broker

Case = TypeVar("Case")

ROOT = Path(__file__).resolve().parents[2]
HALF = 25
QUERIES = 2 * HALF
RECORDS = 100
PARTITIONS = 2
TRIGGER = "2 seconds"
READY_S = 300.0


@dataclass
class Queries:
    """Queries from topic to topic, by number."""

    there: Stage
    peer: Peer
    kind: str
    options: dict[str, str] = field(default_factory=dict)
    running: dict[int, StreamingQuery] = field(default_factory=dict)
    sent: Counter[int] = field(default_factory=Counter)

    def create(self, count: int) -> None:
        """Their topics, with records in the inputs."""
        for number in range(count):
            create_topic(self.there.admin, self.there.prefix + self.source(number), PARTITIONS)
            create_topic(self.there.admin, self.there.prefix + self.output(number), PARTITIONS)
        self.send(range(count), RECORDS)

    def source(self, number: int) -> str:
        return f"{self.kind}-in-{number}"

    def output(self, number: int) -> str:
        return f"{self.kind}-out-{number}"

    def send(self, numbers: range, count: int) -> None:
        """Add records to the inputs of some."""
        producer = KafkaProducer(bootstrap_servers=self.there.addresses.direct)
        with closing(producer):
            for number in numbers:
                for record in range(self.sent[number], self.sent[number] + count):
                    topic = self.there.prefix + self.source(number)
                    producer.send(
                        topic, key=b"k", value=b"%d" % record, partition=record % PARTITIONS
                    )
                self.sent[number] += count
            producer.flush()

    def start(self, numbers: range) -> float:
        """Start some one after the other; seconds until each has written all that is there."""
        began = time.monotonic()
        for number in numbers:
            group = {"kafka.group.id": self.there.prefix + self.output(number)}
            options = {**(group if self.peer.is_ours else {}), **self.options}
            rows = self.there.source(self.peer, self.source(number), **options)
            writer = self.there.writer(
                self.peer, rows.select("key", "value"), self.output(number)
            ).trigger(processingTime=TRIGGER)
            self.running[number] = writer.start()
        self.wait(numbers)
        return time.monotonic() - began

    def wait(self, numbers: range) -> None:
        """Until the outputs of some have all records that were sent."""
        until(lambda: not self.behind(numbers), "all records of all queries", READY_S)

    def behind(self, numbers: range) -> list[int]:
        """Those that have not written all that was sent, by Spark's own report on them."""
        for number in numbers:
            if not self.running[number].isActive:
                raise RuntimeError(f"query {number} has ended: {self.running[number].exception()}")
        return [
            number for number in numbers if records_read(self.running[number]) < self.sent[number]
        ]

    def stop(self, numbers: range) -> float:
        """Stop some one after the other; the seconds that it took."""
        began = time.monotonic()
        for number in numbers:
            self.running.pop(number).stop()
        return time.monotonic() - began

    def check(self, numbers: range) -> None:
        """Each output has every record once; at least once is enough for the built-in connector."""
        for number in numbers:
            topic = self.there.prefix + self.output(number)
            found = Counter(r.value for r in read_committed(self.there.addresses.direct, topic))
            assert set(found) == {b"%d" % record for record in range(self.sent[number])}, number
            assert not self.peer.is_ours or set(found.values()) == {1}, number


@dataclass(frozen=True)
class Found:
    """What one connector needs for many queries, times in seconds.

    Attributes:
        peer: the connector.
        first_start_s: of all queries on new checkpoints, until each has written its input.
        restart_s: of one half of them on its checkpoints, beside the other half.
        after_broker_s: after a broker's restart, until each has written a record that has come
            since.
        stop_s: of one half of them.
        half: with one half of the queries.
        all: with all of them.
    """

    peer: Peer
    first_start_s: float
    restart_s: float
    after_broker_s: float
    stop_s: float
    half: Footprint
    all: Footprint


def measure(peer: Peer, folder: Path) -> Found:
    """Run the queries of one connector."""
    second = range(HALF, QUERIES)
    everything = range(QUERIES)
    with on_own_broker(folder / peer.id) as (broker, there):
        warm = Queries(there, peer, "warm")
        warm.create(2)
        warm.start(range(2))
        warm.stop(range(2))
        queries = Queries(there, peer, "query")
        queries.create(QUERIES)
        print(f"{peer.label}: {QUERIES} queries ...", flush=True)
        first_start_s = queries.start(everything)
        with_all = footprint(there)
        stop_s = queries.stop(second)
        with_half = footprint(there)
        queries.send(second, RECORDS)
        restart_s = queries.start(second)
        broker.kill()
        broker.start()
        queries.send(everything, PARTITIONS)
        began = time.monotonic()
        queries.wait(everything)
        after_broker_s = time.monotonic() - began
        queries.stop(everything)
        queries.check(everything)
    return Found(peer, first_start_s, restart_s, after_broker_s, stop_s, with_half, with_all)


def table(found: list[Found]) -> str:
    """The figures side by side."""
    rows: dict[str, Callable[[Found], str]] = {
        f"{QUERIES} queries start on new checkpoints, s": lambda f: f"{f.first_start_s:.1f}",
        f"{HALF} of them start again, s": lambda f: f"{f.restart_s:.1f}",
        "all go on after a broker's restart, s": lambda f: f"{f.after_broker_s:.1f}",
        f"{HALF} of them stop, s": lambda f: f"{f.stop_s:.1f}",
    }
    lines = side_by_side([each.peer.label for each in found], rows, found)
    lines += added("query", HALF, [(each.half, each.all) for each in found])
    return "\n".join(lines)


def shared_table(found: list[shared_drivers.Found]) -> str:
    """The same for the drivers of one group, by its protocol."""
    half, drivers = shared_drivers.HALF, shared_drivers.DRIVERS
    rows: dict[str, Callable[[shared_drivers.Found], str]] = {
        f"{drivers} drivers start on new checkpoints, s": lambda f: f"{f.start_s:.1f}",
        # Brokers do not log the epochs of a group of the consumer protocol.
        "generations of the group in that time": lambda f: f"{f.start_generations or '-'}",
        f"{half} of them stop, s": lambda f: f"{f.leave_s:.1f}",
        "they start again, s": lambda f: f"{f.join_s:.1f}",
        "all go on after a broker's restart, s": lambda f: f"{f.after_broker_s:.1f}",
        "transactional ids in the end": lambda f: f"{f.transactional_ids}",
    }
    lines = side_by_side([each.protocol for each in found], rows, found)
    lines += added("driver", half, [(each.half, each.all) for each in found])
    return "\n".join(lines)


def side_by_side(
    labels: list[str], rows: dict[str, Callable[[Case], str]], found: list[Case]
) -> list[str]:
    """A table's lines: a column for each label, and a row for each thing that is shown."""
    return [
        f"| | {' | '.join(labels)} |",
        "|---" * (len(found) + 1) + "|",
        *(f"| {what} | {' | '.join(map(show, found))} |" for what, show in rows.items()),
    ]


def added(of: str, half: int, found: list[tuple[Footprint, Footprint]]) -> list[str]:
    """Rows with what one more query or driver adds, from what half of them and all have."""
    values: dict[str, Callable[[Footprint], float]] = {
        f"client threads, one more {of}": lambda each: each.threads.total(),
        f"heap, one more {of}, MB": lambda each: each.heap_mb,
        f"connections, one more {of}": lambda each: each.connections,
        f"clients, one more {of}": lambda each: each.clients.total(),
    }
    rows = [
        f"| {what} | "
        + " | ".join(f"{(value(more) - value(few)) / half:.1f}" for few, more in found)
        + " |"
        for what, value in values.items()
    ]
    resident = " | ".join(f"{more.resident_mb:,.0f}" for _, more in found)
    return [*rows, f"| resident memory with all, MB | {resident} |"]


def kinds(found: Found) -> str:
    """The threads and clients of one more query, by kind."""
    lines = ["| kind | for one more query |", "|---|---|"]
    for name, with_all, with_half in (
        ("thread", found.all.threads, found.half.threads),
        ("client", found.all.clients, found.half.clients),
    ):
        for kind in sorted(with_all, key=lambda k: with_half[k] - with_all[k]):
            if (added := (with_all[kind] - with_half[kind]) / HALF) >= 0.2:
                lines.append(f"| {name} `{kind}` | {added:.1f} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", type=Path, default=ROOT / "reports" / "many-queries.md")
    report = parser.parse_args().report
    with tempfile.TemporaryDirectory(prefix="eoskafka-many-") as name:
        found = [measure(peer, Path(name)) for peer in (BUILT_IN, EOSKAFKA)]
        shared = [shared_drivers.measure(each, Path(name)) for each in shared_drivers.PROTOCOLS]
    text = f"""# Many queries in one driver

`make many-queries` on {date.today()}, Spark {pyspark.__version__}: {QUERIES} queries from topic
to topic, each with {PARTITIONS} partitions, a trigger of {TRIGGER}, and {RECORDS} records at its
start. Spark ran in local mode with two cores, and one broker on the same machine, so the clients of
executors are in the driver's process, too: with eoskafka, a producer and a consumer for each of a
query's two slots.

The program starts its queries one after the other, and a start is over when each of them has
written its records. "One more query" is the difference between {HALF} and {QUERIES}
queries, divided by their number; client threads are those of Kafka's clients and of the connector.
Each output was counted. One run: the times differ by some seconds from run to run.

{table(found)}

## eoskafka, by kind

{kinds(found[-1])}

## The built-in connector, by kind

{kinds(found[0])}

## {shared_drivers.DRIVERS} drivers in one group

With `ownership=shared`, {shared_drivers.DRIVERS} queries of one Spark session, each with a
checkpoint of its own, share a group and its topic of {shared_drivers.PARTITIONS} partitions.
An action is over when each driver has its share of the partitions and everything is committed. The
clients of executors are in the same process again. The output was counted.

{shared_table(shared)}
"""
    report.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
