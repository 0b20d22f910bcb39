"""What shows that a connector has output under way that a kill would leave unfinished.

Each connector has a sign of its own. Whoever looks for it first stops (SIGSTOP) everything that
could finish or begin such output.

- eoskafka: an **open transaction**. A transaction that an earlier victim left open stays open until
  its slot's next attempt ends it, so one that was seen at an earlier kill is not counted again. A
  request may be on its way when its sender is stopped, so the transactions are looked at twice.
- Spark's built-in connector has no transactions: **records that the unfinished batch has already
  written**. A batch is finished when the checkpoint says so. The output topic's end as of the first
  look after that is what the next batch starts from. That end may already include records of the
  next batch, so too few of them are counted, never too many.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient, OffsetSpec

from eoskafka.brokers.topics import log_offsets
from eoskafka.demo.launch import SparkJob

_ID_PREFIX = "eoskafka-"
# A request on a local connection takes a few milliseconds.
_SETTLE_S = 0.1


@dataclass(frozen=True)
class Unfinished:
    """Output under way. False if there is none.

    Attributes:
        transactions: ids of the open transactions that hold it.
        records: number of records of the unfinished batch that are in the output topic.
    """

    transactions: tuple[str, ...] = ()
    records: int = 0

    def __bool__(self) -> bool:
        return bool(self.transactions) or self.records > 0

    def __str__(self) -> str:
        if self.records:
            return f"{self.records} record(s) of the unfinished batch in the output"
        return f"{len(self.transactions)} open transaction(s)"

    def may_be_of_each(self, executors: int) -> bool:
        """Whether each of so many executors may hold a part of it.

        Transactions can be counted: each executor runs one task, and a task has one. Of records
        nothing tells which executor has written them.
        """
        return not self.transactions or len(self.transactions) == executors


class Sign(Protocol):
    """Looks for unfinished output of one job."""

    def is_there(self) -> bool:
        """Whether there is some now; for this look nothing is stopped."""

    def settled(self) -> Unfinished:
        """What there is after everything that was on its way has arrived.

        The processes that could change it are stopped.
        """

    def killed(self) -> None:
        """A kill has left behind what `settled` has last returned."""


@dataclass(frozen=True)
class _Transaction:
    """One open transaction; the next one of the same id has another epoch or start."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    start_ms: int


class OpenTransactions:
    """The sign of eoskafka's jobs."""

    def __init__(self, admin: KafkaAdminClient) -> None:
        self._admin = admin
        self._seen: set[_Transaction] = set()
        self._held: set[_Transaction] = set()

    def is_there(self) -> bool:
        """See `Sign`."""
        return bool(self._open())

    def settled(self) -> Unfinished:
        """See `Sign`."""
        before = self._open()
        time.sleep(_SETTLE_S)
        self._held = before & self._open()
        return Unfinished(tuple(sorted(each.transactional_id for each in self._held)))

    def killed(self) -> None:
        """See `Sign`."""
        self._seen |= self._held

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


class WrittenRecords:
    """The sign of the built-in connector's jobs."""

    def __init__(
        self, admin: KafkaAdminClient, job: SparkJob, output: Sequence[TopicPartition]
    ) -> None:
        self._admin = admin
        self._job = job
        self._output = output
        # Finished batches, and the output's end when that number was first seen.
        self._batches, self._end = 0, 0

    def is_there(self) -> bool:
        """See `Sign`."""
        return self._written() > 0

    def settled(self) -> Unfinished:
        """See `Sign`."""
        time.sleep(_SETTLE_S)
        return Unfinished(records=self._written())

    def killed(self) -> None:
        """Nothing to remember: the killer leaves the batch that runs again alone."""

    def _written(self) -> int:
        # In this order: the end then includes all that the finished batches have written.
        batches = self._job.progress().batches
        end = sum(log_offsets(self._admin, self._output, OffsetSpec.LATEST).values())
        if batches != self._batches:
            self._batches, self._end = batches, end
        return end - self._end
