"""Twenty drivers in one group: what one more of them costs, and how long they take to settle.

All drivers are queries of one Spark session, each with a checkpoint of its own, so their clients
share a process; to the group's coordinator they are members like any others.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from eoskafka.audit import read_committed
from eoskafka.bench.peers import EOSKAFKA
from eoskafka.bench.stage import Stage, create_topic
from eoskafka.brokers.connection import until_elected
from harness import until
from harness.waiting import again_and_again
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient
from pyspark.sql.streaming.query import StreamingQuery

from faults.footprint import Footprint, footprint
from faults.own_broker import on_own_broker

HALF = 10
DRIVERS = 2 * HALF
# Each of twenty drivers has two of them.
PARTITIONS = 2 * DRIVERS
RECORDS = 10
TRIGGER = "2 seconds"
SETTLED_S = 300.0
FEED_S = 2.0
SOURCE, OUTPUT, GROUP = "shared-in", "shared-out", "shared"
PROTOCOLS = ("classic", "consumer")


@dataclass
class Drivers:
    """Queries that share a group and its topic, by number."""

    there: Stage
    protocol: str
    running: dict[int, StreamingQuery] = field(default_factory=dict)
    sent: int = 0

    @property
    def group(self) -> str:
        return self.there.prefix + GROUP

    @property
    def source(self) -> str:
        return self.there.prefix + SOURCE

    def admin(self) -> closing[KafkaAdminClient]:
        """A client for one question: one that has seen a broker die refuses to ask for a while."""
        return closing(KafkaAdminClient(bootstrap_servers=self.there.addresses.direct))

    def send(self) -> None:
        """Some records into each partition."""
        with closing(KafkaProducer(bootstrap_servers=self.there.addresses.direct)) as producer:
            for partition in range(PARTITIONS):
                for _ in range(RECORDS):
                    producer.send(
                        self.source, key=b"k", value=b"%d" % self.sent, partition=partition
                    )
                    self.sent += 1
            producer.flush()

    def start(self, numbers: Iterable[int]) -> None:
        """Start some one after the other; this does not wait for their first batches."""
        for number in numbers:
            rows = self.there.source(
                EOSKAFKA,
                SOURCE,
                **{
                    "kafka.group.id": self.group,
                    "kafka.group.protocol": self.protocol,
                    "ownership": "shared",
                },
            )
            writer = self.there.writer(EOSKAFKA, rows.select("key", "value"), OUTPUT)
            self.running[number] = (
                writer.option("checkpointLocation", str(self.there.folder / f"driver-{number}"))
                .trigger(processingTime=TRIGGER)
                .start()
            )

    def stop(self, numbers: Iterable[int]) -> None:
        """Stop some one after the other."""
        for number in numbers:
            self.running.pop(number).stop()

    def settle(self) -> float:
        """The seconds until each driver has its share and everything is committed.

        Records keep coming, since the last batch of a driver shows which partitions it has.
        """
        began = time.monotonic()
        with again_and_again(self.send, FEED_S):
            until(self.have_shares, "each driver with its share", SETTLED_S)
        until(self.is_committed, "all records", SETTLED_S)
        return time.monotonic() - began

    def have_shares(self) -> bool:
        """Whether each driver's last batch had its share of the partitions."""
        for number, query in self.running.items():
            if not query.isActive:
                raise RuntimeError(f"driver {number} has ended: {query.exception()}")
        shares = [share(query) for query in self.running.values()]
        return sum(shares) == PARTITIONS and max(shares) - min(shares) <= 1

    def is_committed(self) -> bool:
        """Whether the group has read everything."""
        with self.admin() as admin:
            (offsets,) = until_elected(lambda: admin.list_group_offsets([self.group])).values()
        read = sum(each.offset for of, each in offsets.items() if of.topic == self.source)
        return bool(read == self.sent)

    def transactional_ids(self) -> int:
        """How many producer ids the brokers keep for the group's transactional ids."""
        with self.admin() as admin:
            listed = admin.list_transactions().values()
        return sum(self.group in each.transactional_id for of in listed for each in of)

    def check(self) -> None:
        """The output has every record once."""
        output = self.there.prefix + OUTPUT
        found = Counter(r.value for r in read_committed(self.there.addresses.direct, output))
        assert found == Counter(b"%d" % record for record in range(self.sent)), "not exactly once"


@dataclass(frozen=True)
class Found:
    """What twenty drivers of a group need, times in seconds.

    Attributes:
        protocol: of the group.
        start_s: from the first start until each driver has its share and all is read.
        start_generations: of the group in that time.
        leave_s: from the end of one half of the drivers until the others have their shares.
        join_s: from the restart of that half.
        after_broker_s: from a broker's restart until all goes on.
        transactional_ids: that the brokers keep in the end.
        half, all: with one half of the drivers, and with all.
    """

    protocol: str
    start_s: float
    start_generations: int
    leave_s: float
    join_s: float
    after_broker_s: float
    transactional_ids: int
    half: Footprint
    all: Footprint


def measure(protocol: str, folder: Path) -> Found:
    """Run the drivers of a group with one protocol."""
    second = range(HALF, DRIVERS)
    with on_own_broker(folder / protocol) as (broker, there):
        drivers = Drivers(there, protocol)
        create_topic(there.admin, drivers.source, PARTITIONS)
        create_topic(there.admin, there.prefix + OUTPUT, PARTITIONS)
        print(f"{DRIVERS} drivers, protocol {protocol} ...", flush=True)
        start_s = timed(lambda: drivers.start(range(DRIVERS))) + drivers.settle()
        start_generations = generations(broker.log_file, drivers.group)
        with_all = footprint(there)
        drivers.stop(second)
        leave_s = drivers.settle()
        with_half = footprint(there)
        join_s = timed(lambda: drivers.start(second)) + drivers.settle()
        broker.kill()
        broker.start()
        after_broker_s = drivers.settle()
        ids = drivers.transactional_ids()
        drivers.stop(range(DRIVERS))
        drivers.check()
    return Found(
        protocol,
        start_s,
        start_generations,
        leave_s,
        join_s,
        after_broker_s,
        ids,
        with_half,
        with_all,
    )


def share(query: StreamingQuery) -> int:
    """How many partitions a driver has read in its last batch."""
    last = query.lastProgress
    if last is None:
        return 0
    starts, ends = (
        json.loads(text or "null") or {}
        for text in (last.sources[0].startOffset, last.sources[0].endOffset)
    )
    return sum(
        end > starts.get(topic, {}).get(partition, 0)
        for topic, of in ends.items()
        for partition, end in of.items()
    )


def timed(action: Callable[[], None]) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began


def generations(log: Path, group: str) -> int:
    """The last generation of a group of the classic protocol, by its coordinator's log."""
    text = log.read_text(encoding="utf-8")
    found = re.findall(rf"group {re.escape(group)} generation (\d+)", text)
    return max(map(int, found), default=0)
