"""`Campaign`: one query from topic to topic on three brokers, one fault after the other."""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import ClassVar

from eoskafka.audit import read_committed
from harness import Application, Flow, Point, Query, until

from faults import cluster_faults
from faults.cluster import FaultyCluster
from faults.feeder import Feeder
from faults.history import Finding, History, Output, check
from faults.proxy import Api
from faults.reader import Reader

PARTITIONS = 4
RATE = 300
# As a transform: `exclaim` in real-time mode. Its batches end under the faults as well.
REAL_TIME = "exclaim in real time"
_BATCH = "20 seconds"

# What each fault lasts, where it does not end by itself. Brokers are taken for dead after 4 s.
_PAUSE_S = 3.0
_BROKER_PAUSE_S = 6.0
_CUT_S = 3.0
_DELAY_S = 0.3
_RECOVERY_S = 120.0
_SETTLE_S = 120.0

_DURING = " during "
_JOURNAL = "faults.jsonl"


@dataclass(frozen=True)
class Event:
    """A fault that was done, and what a reader saw of it.

    Attributes:
        kind: a key of `Campaign.KINDS`, or two with ` during ` between them.
        target: what it hit.
        at_s: when, in seconds from the campaign's start.
        recovery_s: from the fault's signal to the first record seen that was sent after it.
        stall_s: from the signal until all was well again, the longest time in which no record of
            some partition was seen. What outlives a fault for a moment, as the tasks of a driver
            that was killed, is recovery but no end of the stall.
    """

    kind: str
    target: str
    at_s: float
    recovery_s: float
    stall_s: float


@dataclass(frozen=True)
class Journal:
    """What a campaign has written down, enough to do its faults again.

    Attributes:
        seed: of the campaign.
        transform: of its query.
        events: in the order in which they were done.
    """

    seed: int
    transform: str
    events: tuple[Event, ...]

    @staticmethod
    def read(file: Path) -> Journal:
        """The journal in `file`; ValueError if it has no fault."""
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        if not lines:
            raise ValueError(f"{file} has no fault")
        names = [field.name for field in fields(Event)]
        events = tuple(Event(**{name: line[name] for name in names}) for line in lines)
        return Journal(lines[0]["seed"], lines[0]["transform"], events)


@dataclass(frozen=True)
class Report:
    """What a campaign came to."""

    seed: int
    records: int
    events: tuple[Event, ...]
    findings: tuple[Finding, ...]
    longest_stall_s: float


def _reply_lost(api: Api) -> Callable[[Campaign, random.Random], str]:
    return lambda campaign, _: campaign._drop(api)


def _executor_killed(point: Point) -> Callable[[Campaign, random.Random], str]:
    return lambda campaign, _: campaign._kill_at(point)


def _driver_killed(point: Point) -> Callable[[Campaign, random.Random], str]:
    return lambda campaign, _: campaign._kill_driver_at(point)


class Campaign:
    """One query under faults; a context manager that leaves nothing behind.

    Args:
        folder: for brokers, applications, checkpoint and the journal of faults, `faults.jsonl`.
        transform: of the query; what `exclaim` does, in the JVM or in Python; or `REAL_TIME`.
        seed: decides what each fault hits, with its kind and its number. The same seed and kinds
            are the same faults.
    """

    def __init__(self, folder: Path, transform: str, seed: int) -> None:
        self.folder = folder
        self.seed = seed
        self.events: list[Event] = []
        self._transform = transform
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
            self.feeder = Feeder(self.cluster.direct_servers, self.flow.input, RATE)
            self.reader = Reader(self.cluster.direct_servers, self.flow.output, PARTITIONS)
            self._start_query()
            self.reader.start()
            self._stack.enter_context(closing(self.reader))
            self.feeder.start()
            self._stack.enter_context(closing(self.feeder))
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
        """Do these faults, each when the query has got over the last one.

        A kind is one of `kinds()`, or two of them with ` during ` between them: one of
        `of_processes()` and one of `OF_BROKERS`, at the same time.
        """
        for kind in kinds:
            number = len(self.events)
            with ThreadPoolExecutor(2) as pool:
                parts = [
                    pool.submit(
                        self.KINDS[part], self, random.Random(f"{self.seed}/{number}/{part}")
                    )
                    for part in kind.split(_DURING)
                ]
                target = " and ".join(done.result() for done in parts)
            recovery = self._wait_for_news(self._sent) - self._at
            self._wait_healthy()
            stall = self.reader.longest_gap_s(self._at, time.monotonic())
            self._note(kind, target, recovery, stall)

    def replay(self, journal: Journal) -> None:
        """Do a journal's faults again, none earlier than it was done then."""
        for event in journal.events:
            self.last(max(0.0, self._began + event.at_s - time.monotonic()))
            self.run([event.kind])

    def finish(self) -> Report:
        """Let everything come to rest, and judge."""
        self.feeder.close()
        self.flow.wait_committed(_SETTLE_S)
        status = self.query.stop()
        assert status.error is None, status.error
        self.flow.assert_nothing_is_open()
        inputs = self.flow.inputs()
        final = [Output(*record) for record in read_committed(self.flow.servers, self.flow.output)]
        until(
            lambda: self.reader.count() >= len({record.value for record in final}),
            "the reader at the end",
            _SETTLE_S,
        )
        self.reader.close()
        inputs.sort(key=lambda record: (record.partition, record.offset))
        history = History(
            expected=[(record.key or b"", (record.value or b"") + b"!") for record in inputs],
            readers={"reader": self.reader.seen},
            final=final,
        )
        return Report(
            self.seed,
            len(inputs),
            tuple(self.events),
            tuple(check(history)),
            round(self.reader.longest_stall_s, 1),
        )

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
            source={"rowsPerSecond": str(RATE)},
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
        line = {"seed": self.seed, "transform": self._transform, **asdict(event)}
        with (self.folder / _JOURNAL).open("a", encoding="utf-8") as journal:
            journal.write(json.dumps(line) + "\n")

    def _new_application(self) -> Application:
        self._runs += 1
        folder = self.folder / f"application-{self._runs}"
        folder.mkdir()
        return Application(folder, "local-cluster[2,1,1024]")

    def _start_query(self) -> None:
        self.query: Query = self.flow.start(
            self.application,
            transform="exclaim" if self._transform == REAL_TIME else self._transform,
            interval="100 milliseconds",
            real_time=_BATCH if self._transform == REAL_TIME else None,
            kafka_bootstrap_servers=self.cluster.bootstrap_servers,
            sink={"kafka.bootstrap.servers": self.cluster.bootstrap_servers},
        )

    def _wait_healthy(self) -> None:
        """Until both executors take tasks, and every partition has gone on since."""
        self.application.wait_executors(2)
        self._wait_for_news(self.feeder.sent)
        now = time.monotonic()
        until(
            lambda: self.reader.has_all_since(now),
            "records of every partition",
            _RECOVERY_S,
            self.application.tail,
        )

    def _wait_for_news(self, sent: int) -> float:
        """When the reader first saw a record that was sent after `sent` others."""

        def seen() -> float | None:
            times = (self.reader.saw(b"%d!" % n) for n in range(sent, self.feeder.sent))
            return min((time for time in times if time is not None), default=None)

        return until(seen, "a new record", _RECOVERY_S, self.application.tail)

    def happens_now(self) -> None:
        """The fault happens here: what was sent until now does not show that it is over."""
        self._sent, self._at = self.feeder.sent, time.monotonic()

    # ---- the faults; each says when it happens, and returns what it hit. Those that choose among
    # several do so by a generator of their own, so that two at a time do not disturb each other.

    def _kill_executor(self, rng: random.Random) -> str:
        victim = rng.choice(self.application.executors())
        self.happens_now()
        victim.id.send(signal.SIGKILL)
        return f"pid {victim.id.pid}"

    def _pause_executor(self, rng: random.Random) -> str:
        victim = rng.choice(self.application.executors())
        self.happens_now()
        self.application.pause(victim.id.pid)
        self.last(_PAUSE_S)
        self.application.resume(victim.id.pid)
        return f"pid {victim.id.pid}"

    def _kill_driver(self, rng: random.Random) -> str:
        self.happens_now()
        self._replace_driver()
        return "its Python process and its JVM"

    def _kill_driver_at(self, point: Point) -> str:
        self.application.faults.arm(point, "kill")
        self.application.faults.wait_taken(point)
        self.happens_now()
        self._replace_driver()
        return "its JVM, then its Python process"

    def _replace_driver(self) -> None:
        former = self.application
        former.kill_driver()
        self.application = self._new_application()
        self.application.start()
        self._start_query()
        former.kill()  # executors end without their driver, at their own pace

    def _pause_driver(self, rng: random.Random) -> str:
        self.happens_now()
        self.application.pause_driver()
        self.last(_PAUSE_S)
        self.application.resume()
        return "its Python process and its JVM"

    def _kill_broker(self, node: int) -> str:
        broker = self.cluster.brokers[node]
        self.happens_now()
        broker.kill()
        broker.start()
        return f"broker {node}"

    def _pause_broker(self, rng: random.Random) -> str:
        node = rng.choice(sorted(self.cluster.brokers))
        self.happens_now()
        self.cluster.brokers[node].pause()
        self.last(_BROKER_PAUSE_S)
        self.cluster.brokers[node].resume()
        return f"broker {node}"

    def _kill_transaction_coordinator(self, rng: random.Random) -> str:
        name = rng.choice(self.flow.transactional_ids())
        return f"{self._kill_broker(self.cluster.transaction_coordinator(name))} of {name}"

    def _kill_group_coordinator(self, rng: random.Random) -> str:
        return self._kill_broker(self.cluster.group_coordinator(self.flow.group))

    def _cut(self, rng: random.Random) -> str:
        node = rng.choice(sorted(self.cluster.proxies))
        self.happens_now()
        self.cluster.proxies[node].cut()
        self.last(_CUT_S)
        self.cluster.proxies[node].mend()
        return f"broker {node}'s clients"

    def _delay(self, rng: random.Random) -> str:
        self.happens_now()
        for proxy in self.cluster.proxies.values():
            proxy.delay(_DELAY_S)
        self.last(_CUT_S)
        for proxy in self.cluster.proxies.values():
            proxy.mend()
        return "every reply"

    def _drop(self, api: Api) -> str:
        drops = [proxy.drop_reply(api) for proxy in self.cluster.proxies.values()]
        if api is Api.INIT_PRODUCER_ID:  # asked for by executors that have no producer yet
            for executor in self.application.executors():
                executor.id.send(signal.SIGKILL)
        until(lambda: any(drop.happened.is_set() for drop in drops), f"a lost {api.name}", 60)
        self.happens_now()
        for proxy in self.cluster.proxies.values():
            proxy.mend()
        return f"a reply to {api.name}"

    def _kill_at(self, point: Point) -> str:
        self.application.faults.arm(point, "kill")
        victim = self.application.faults.wait_taken(point)
        self.happens_now()
        return f"pid {victim}"

    def last(self, seconds: float) -> None:
        """A fault's own time, not a wait for something."""
        time.sleep(seconds)

    KINDS: ClassVar[dict[str, Callable[[Campaign, random.Random], str]]] = {
        "executor killed": _kill_executor,
        "executor paused": _pause_executor,
        "driver killed": _kill_driver,
        "driver paused": _pause_driver,
        "broker paused": _pause_broker,
        "transaction coordinator killed": _kill_transaction_coordinator,
        "group coordinator killed": _kill_group_coordinator,
        "controller killed": cluster_faults.kill_controller,
        "two brokers paused": cluster_faults.pause_two_brokers,
        "two brokers killed": cluster_faults.kill_two_brokers,
        "brokers restarted in turn": cluster_faults.restart_brokers_in_turn,
        "a stranger's transaction open": cluster_faults.leave_transaction_open,
        "connections cut": _cut,
        "replies swallowed": cluster_faults.swallow_replies,
        "disk full": cluster_faults.fill_disk,
        "packets lost": cluster_faults.lose_packets,
        "replies delayed": _delay,
        **{
            f"{api.name} reply lost": _reply_lost(api)
            for api in (Api.END_TXN, Api.TXN_OFFSET_COMMIT, Api.INIT_PRODUCER_ID, Api.PRODUCE)
        },
        **{
            f"executor killed {point}": _executor_killed(point)
            for point in ("before-flush", "after-flush", "after-offsets", "after-commit")
        },
        **{
            f"driver killed {point}": _driver_killed(point)
            for point in ("before-decision", "after-decision", "half-rolled-forward", "before-log")
        },
    }

    # Steps that there are in one scope only.
    _OF_TASK_SCOPE: ClassVar[tuple[str, ...]] = (
        "executor killed after-offsets",
        "executor killed after-commit",
    )
    _OF_EPOCH_SCOPE: ClassVar[tuple[str, ...]] = (
        "driver killed before-decision",
        "driver killed after-decision",
        "driver killed half-rolled-forward",
    )

    # What only root can do.
    _OF_ROOT: ClassVar[tuple[str, ...]] = ("disk full", "packets lost")

    @classmethod
    def kinds(cls, transform: str) -> list[str]:
        """The kinds of fault that can hit a query with this transform, as this user may do them."""
        not_there = cls._OF_TASK_SCOPE if transform in cls.IN_EPOCH_SCOPE else cls._OF_EPOCH_SCOPE
        if not cluster_faults.can_mount_and_filter():
            not_there += cls._OF_ROOT
        return [kind for kind in cls.KINDS if kind not in not_there]

    @classmethod
    def of_processes(cls, transform: str) -> list[str]:
        """Those of them that hit a process of Spark's."""
        return [kind for kind in cls.kinds(transform) if kind.startswith(("executor", "driver"))]

    IN_EPOCH_SCOPE: ClassVar[tuple[str, ...]] = ("repartitioned",)
    OF_BROKERS: ClassVar[list[str]] = [
        "broker paused",
        "transaction coordinator killed",
        "group coordinator killed",
        "controller killed",
        "a stranger's transaction open",
        "connections cut",
        "replies swallowed",
        "replies delayed",
    ]
