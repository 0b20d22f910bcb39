"""`Campaign`: one query on three brokers, one fault after the other."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from eoskafka.audit import Record, read_committed
from harness import IMPATIENT_DRIVER, Application, Flow, Query, until
from kafka.admin import NewTopic

from faults import cluster_faults
from faults.cluster import FaultyCluster
from faults.feeder import Feeder
from faults.history import Finding, History, Observation, Output, check
from faults.journal import Event, Journal, Report
from faults.kinds import DURING, KINDS
from faults.observer import Observer
from faults.reader import Reader
from faults.workloads import Workload

PARTITIONS = 4

_RECOVERY_S = 120.0
_SETTLE_S = 120.0

T = TypeVar("T")


class Campaign:
    """One query under faults; a context manager that leaves nothing behind.

    Args:
        folder: for brokers, applications, checkpoint and the journal of faults, `faults.jsonl`.
        workload: the query.
        seed: decides what each fault hits, with its kind and its number. The same seed and kinds
            are the same faults.
        rate: records per second that go in.
    """

    def __init__(self, folder: Path, workload: Workload, seed: int, rate: int = 300) -> None:
        self.folder = folder
        self.seed = seed
        self.rate = rate
        self.events: list[Event] = []
        self._workload = workload
        self._began = time.monotonic()
        self._stack = ExitStack()
        self._runs = 0
        self._sent = 0
        self._at = self._began
        self.application = self._new_application()

    def __enter__(self) -> Campaign:
        with self._stack:
            self._stack.callback(lambda: self.application.kill())
            with ThreadPoolExecutor(1) as pool:
                starting = pool.submit(self.application.start)
                if cluster_faults.can_mount_and_filter():
                    disk = cluster_faults.small_disk(self.folder / "kafka")
                    self._stack.enter_context(disk)
                self.cluster = self._stack.enter_context(FaultyCluster(self.folder / "kafka"))
                starting.result()
            self.flow = Flow(
                self.cluster.direct_servers, self.folder / "checkpoint", PARTITIONS, replicas=3
            )
            topics = self._workload.topics(self.flow)
            for topic in topics[1:]:
                with self.flow.admin() as admin:
                    admin.create_topics([NewTopic(topic, PARTITIONS, 3)])
                    admin.wait_for_topics([topic])
            servers = self.cluster.direct_servers
            self.feeder = Feeder(
                servers, self.flow.input, self.rate, in_pairs=self._workload.of_pair > 0
            )
            self.readers = [Reader(servers, topic, PARTITIONS) for topic in topics]
            self._observer = Observer(
                servers, self.flow.group, self.flow.input, PARTITIONS, self.readers
            )
            self.start_query()
            threads: list[Reader | Observer | Feeder] = [*self.readers, self._observer, self.feeder]
            for thread in threads:
                thread.start()
                self._stack.enter_context(closing(thread))
            self._wait_healthy()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def run(self, kinds: Sequence[str]) -> None:
        """Cause these faults, each when the query has recovered from the last one.

        A kind is one of `kinds`, or two of them with ` during ` between them: one of
        `of_processes` and one of `OF_BROKERS`, at the same time.
        """
        for kind in kinds:
            number = len(self.events)
            with ThreadPoolExecutor(2) as pool:
                parts = [
                    pool.submit(KINDS[part], self, random.Random(f"{self.seed}/{number}/{part}"))
                    for part in kind.split(DURING)
                ]
                target = " and ".join(done.result() for done in parts)
            recovery = self._wait_for_news(self._sent) - self._at
            self._wait_healthy()
            stall = self.reader.longest_gap_s(self._at, time.monotonic())
            self._note(kind, target, recovery, stall)

    def replay(self, journal: Journal) -> None:
        """Repeat the faults of a journal, none earlier than it happened then."""
        for event in journal.events:
            self.last(max(0.0, self._began + event.at_s - time.monotonic()))
            self.run([event.kind])

    def finish(self) -> Report:
        """Stop the input, wait until nothing is in flight, and judge the output."""
        self.feeder.close()
        self.flow.wait_committed(_SETTLE_S)
        status = self.query.stop()
        assert status.error is None, status.error
        self.flow.assert_nothing_is_open()
        self._observer.close()
        inputs = self.flow.inputs()
        inputs.sort(key=lambda record: (record.partition, record.offset))
        return Report(
            self.seed,
            len(inputs),
            tuple(self.events),
            tuple(finding for n in range(len(self.readers)) for finding in self._judge(n, inputs)),
            round(self.reader.longest_stall_s, 1),
            len(self._observer.observations),
        )

    @property
    def reader(self) -> Reader:
        """Of the first output topic, which most inputs have an output in."""
        return self.readers[0]

    def _judge(self, number: int, inputs: Sequence[Record]) -> list[Finding]:
        """The anomalies of one output topic."""
        topic, reader = self._workload.topics(self.flow)[number], self.readers[number]
        final = [Output(*record) for record in read_committed(self.flow.servers, topic)]
        values = {record.value for record in final}
        until(lambda: reader.count() >= len(values), f"the end of {topic}", _SETTLE_S)
        reader.close()
        outputs = [
            (record, self._workload.expected(record)[number])
            for record in self._workload.effective(inputs)
        ]
        history = History(
            expected=[output for _, found in outputs for output in found],
            readers={topic: reader.seen},
            final=final,
            in_order=self._workload.in_order,
        )
        if self._workload.offsets_with_output:
            history.places = {
                value: (record.partition, record.offset)
                for record, found in outputs
                for _, value in found
            }
            history.observations = [
                Observation((observed.seen[number],), observed.offsets)
                for observed in self._observer.observations
            ]
        return check(history)

    def spark_start_s(self) -> float:
        """How long Spark alone takes to start, beside the brokers, in seconds; after `finish`.

        From the start of the processes to the second batch of a query that has nothing to do with
        Kafka. What a driver's restart takes beyond it is the connector's.
        """
        self.application.kill()
        began = time.monotonic()
        self.application = self._new_application()
        self.application.start()
        self.application.query(
            "alone",
            origin="rate",
            source={"rowsPerSecond": str(self.rate)},
            transform="as_is",
            format="noop",
            mode="append",
            sink={},
            interval="100 milliseconds",
            checkpoint=str(self.folder / "alone"),
        ).wait_batches(2)
        return round(time.monotonic() - began, 1)

    def _note(self, kind: str, target: str, recovery_s: float, stall_s: float) -> None:
        event = Event(
            *(kind, target, round(self._at - self._began, 1)),
            *(round(recovery_s, 1), round(stall_s, 1)),
        )
        self.events.append(event)
        Journal.append(self.folder, self.seed, self._workload.name, event)

    def _new_application(self) -> Application:
        self._runs += 1
        folder = self.folder / f"application-{self._runs}"
        folder.mkdir()
        return Application(folder, "local-cluster[2,1,1024]", IMPATIENT_DRIVER)

    def start_query(self) -> None:
        """Start the query, or start it again."""
        how = self._workload.start(self.flow)
        proxies = self.cluster.bootstrap_servers
        how["sink"] = {**how["sink"], "kafka.bootstrap.servers": proxies}
        self.query: Query = self.flow.start(
            self.application, kafka_bootstrap_servers=proxies, **how
        )

    def _wait_healthy(self) -> None:
        """Until both executors take tasks, and every partition has gone on since."""
        self.application.wait_executors(2)
        self._wait_for_news(self.feeder.sent)
        now = time.monotonic()
        self._until(lambda: self.reader.has_all_since(now), "records of every partition")

    def _wait_for_news(self, sent: int) -> float:
        """When the reader first saw a record that was sent after `sent` others."""

        def seen() -> float | None:
            times = (self.reader.saw(b"%d!" % n) for n in range(sent, self.feeder.sent))
            return min((time for time in times if time is not None), default=None)

        return self._until(seen, "a new record")

    def _until(self, seen: Callable[[], T | None], what: str) -> T:
        """What the query brings about; if it may end, then also in its next run."""

        def seen_in_any_run() -> T | None:
            if self._workload.may_end_with and (error := self.query.status().error):
                assert self._workload.may_end_with in error, error
                self.start_query()
            return seen()

        return until(seen_in_any_run, what, _RECOVERY_S, self.application.tail)

    def happens_now(self) -> None:
        """The fault happens here: what was sent until now does not show that it is over."""
        self._sent, self._at = self.feeder.sent, time.monotonic()

    def replace_driver(self) -> None:
        """Kill the driver, and start the query in a new application."""
        former = self.application
        former.kill_driver()
        self.application = self._new_application()
        self.application.start()
        self.start_query()
        former.kill()  # executors end without their driver, at their own pace

    def outlive_driver(self) -> None:
        """Start the query beside a driver that is stopped; that one then goes on, and gives up."""
        former, query = self.application, self.query
        try:
            self.application = self._new_application()
            self.application.start()
            self.start_query()
            self._wait_healthy()
            former.resume()
            assert query.wait_end().error is not None, f"{former.log}: it ended as if all were well"
        finally:
            former.kill()

    def last(self, seconds: float) -> None:
        """A fault's own time, not a wait for something."""
        time.sleep(seconds)
