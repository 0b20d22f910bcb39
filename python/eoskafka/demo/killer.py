"""Whom to kill and when, and why a kill counts.

A kill counts only if its victim had output under way at that moment (`signs.py`). A broker does not
tell which process holds a transaction or has written a record, so everything that could finish or
begin output is stopped first (SIGSTOP):

- An executor has one core, so it runs one task and holds at most one open transaction; and it makes
  no output before it has started a Python worker. If as many transactions are open as there are
  executors with Python workers, each of these holds one.
- A driver makes no output itself. With driver and executors stopped, any output under way is
  enough: what becomes of it is for the next driver to find out.

What could spoil the count: executors that outlive their driver for a moment may have output under
way, so nobody is killed until they are gone.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass

from eoskafka.demo import processes
from eoskafka.demo.launch import SparkJob
from eoskafka.demo.processes import Process, stopped
from eoskafka.demo.signs import Sign, Unfinished

EXECUTOR_KILLS = 4
DRIVER_KILLS = 2
# For the last kill to wait for its moment, and for the job to recover in.
SPARE_BATCHES = 4


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
    """A kill that counts, and the output that it left unfinished."""

    victim: str
    pids: tuple[int, ...]
    batches: int
    unfinished: Unfinished


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
        self, job: SparkJob, sign: Sign, rng: random.Random, orders: Sequence[Order]
    ) -> None:
        self._job = job
        self._sign = sign
        self._rng = rng
        self._orders = list(orders)
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
        if not self._sign.is_there() or self._job.orphans():
            return None
        with stopped(self._job.executors()) as executors:
            found = self._sign.settled()
            holders = [executor for executor in executors if self._job.has_worker(executor)]
            if not found or not holders or not found.may_be_of_each(len(holders)):
                return None
            return self._kill("executor", [self._rng.choice(holders)], batches, found)

    def _try_driver(self, batches: int) -> Kill | None:
        driver = self._job.driver()
        if len(driver) != 2 or not self._sign.is_there() or self._job.orphans():
            return None
        with stopped([*driver, *self._job.executors()]):
            found = self._sign.settled()
            return self._kill("driver", driver, batches, found) if found else None

    def _kill(self, name: str, victims: Sequence[Process], batches: int, found: Unfinished) -> Kill:
        processes.send(victims, signal.SIGKILL)
        for victim in victims:
            victim.id.wait(timeout_s=10)
        self._sign.killed()
        return Kill(name, tuple(victim.id.pid for victim in victims), batches, found)
