"""Whom to kill and when, and why a kill counts.

A kill counts only if its victim had a transaction open at that moment. A broker does not tell which
process holds a transaction, so everything that could end or begin one is stopped first (SIGSTOP):

- An executor has one core, so it runs one task and holds at most one open transaction; and none
  before it has started a Python worker, since output is made there. If as many transactions are
  open as there are executors with Python workers, each of these holds one.
- A driver holds none itself. With driver and executors stopped, one open transaction is enough: its
  outcome is what the next driver has to find out.

What could spoil the count: a transaction that an earlier victim left open stays open until its
slot's next attempt ends it, so one that was seen at an earlier kill is not counted again; executors
that outlive their driver for a moment may hold one, so nobody is killed until they are gone; and a
request may be on its way when its sender is stopped, so the transactions are looked at twice.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass

from kafka.admin import KafkaAdminClient

from eoskafka.demo import processes
from eoskafka.demo.launch import SparkJob
from eoskafka.demo.processes import Process, stopped

EXECUTOR_KILLS = 4
DRIVER_KILLS = 2
# For the last kill to wait for its moment, and for the job to recover in.
SPARE_BATCHES = 4

_ID_PREFIX = "eoskafka-"
# A request on a local connection takes a few milliseconds.
_SETTLE_S = 0.1


@dataclass(frozen=True)
class Order:
    """A kill to come.

    Attributes:
        victim: `executor` or `driver`.
        batch: number of batches that must have finished before.
    """

    victim: str
    batch: int


@dataclass(frozen=True)
class Kill:
    """A kill that counts, and the transactions that it left open."""

    victim: str
    pids: tuple[int, ...]
    batches: int
    transactions: tuple[str, ...]


@dataclass(frozen=True)
class _Transaction:
    """One open transaction; the next one of the same id has another epoch or start."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    start_ms: int


def plan(rng: random.Random, batches: int) -> list[Order]:
    """Spread the kills over the run, one at a random place in each of as many equal parts."""
    victims = ["driver"] * DRIVER_KILLS + ["executor"] * EXECUTOR_KILLS
    rng.shuffle(victims)
    width = (batches - SPARE_BATCHES) / len(victims)
    return [
        Order(victim, 1 + int(part * width + rng.uniform(0, width - 1)))
        for part, victim in enumerate(victims)
    ]


class Killer:
    """Carries out orders on a job, each as soon as it would count."""

    def __init__(
        self, job: SparkJob, admin: KafkaAdminClient, rng: random.Random, orders: Sequence[Order]
    ) -> None:
        self._job = job
        self._admin = admin
        self._rng = rng
        self._orders = list(orders)
        self._seen: set[_Transaction] = set()
        self._not_before = 0

    def pause(self) -> None:
        """Wait a random time, less than a batch takes, so that kills fall anywhere in a batch."""
        time.sleep(self._rng.uniform(0.02, 0.15))

    def try_next(self) -> Kill | None:
        """Carry out the next order if it is due and would count; else disturb nothing for long."""
        batches = self._job.progress().batches
        if not self._orders or batches < max(self._orders[0].batch, self._not_before):
            return None
        victim = self._orders[0].victim
        kill = self._try_driver(batches) if victim == "driver" else self._try_executor(batches)
        if kill is not None:
            del self._orders[0]
            self._not_before = batches + 1  # each kill hits a job that has got on since the last
        return kill

    def _try_executor(self, batches: int) -> Kill | None:
        if not self._open() or self._job.orphans():
            return None
        with stopped(self._job.executors()) as executors:
            held = self._still_open()
            holders = [executor for executor in executors if self._job.has_worker(executor)]
            if not holders or len(holders) != len(held):
                return None
            return self._kill("executor", [self._rng.choice(holders)], batches, held)

    def _try_driver(self, batches: int) -> Kill | None:
        driver = self._job.driver()
        if len(driver) != 2 or not self._open() or self._job.orphans():
            return None
        with stopped([*driver, *self._job.executors()]):
            held = self._still_open()
            return self._kill("driver", driver, batches, held) if held else None

    def _kill(
        self, name: str, victims: Sequence[Process], batches: int, held: set[_Transaction]
    ) -> Kill:
        processes.send(victims, signal.SIGKILL)
        for victim in victims:
            victim.id.wait(timeout_s=10)
        self._seen |= held
        return Kill(
            name,
            tuple(victim.id.pid for victim in victims),
            batches,
            tuple(sorted(transaction.transactional_id for transaction in held)),
        )

    def _still_open(self) -> set[_Transaction]:
        """Transactions open now and after everything that was on its way has arrived."""
        before = self._open()
        time.sleep(_SETTLE_S)
        return before & self._open()

    def _open(self) -> set[_Transaction]:
        """The job's open transactions that were not there at an earlier kill."""
        listed = self._admin.list_transactions(state_filters=["Ongoing"])
        ids = [
            transaction.transactional_id
            for transactions in listed.values()
            for transaction in transactions
            if transaction.transactional_id.startswith(_ID_PREFIX)
        ]
        ongoing = {
            _Transaction(name, t.producer_id, t.producer_epoch, t.transaction_start_time_ms)
            for name, t in self._admin.describe_transactions(ids).items()
            if t.state == "Ongoing"
        }
        return ongoing - self._seen
