"""`Flow`: the topics and the group of one test, and the verdict on what came out."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from eoskafka.audit import Record, compare, read_committed
from eoskafka.brokers.connection import until_elected
from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic, OffsetSpec
from kafka.errors import OffsetNotAvailableError
from kafka.structs import OffsetAndMetadata

from harness import tally
from harness.application import Application, Query
from harness.faults import Action, Point
from harness.waiting import again_and_again, until, until_ended

OPEN_STATES = ["Ongoing", "PrepareCommit", "PrepareAbort"]
# An abort of ours is done within a second; a transaction's own timeout is five minutes.
SETTLE_S = 10.0
# Longer than anybody waits for it.
_HIDDEN_MS = 600_000


@contextmanager
def hidden(servers: str, partitions: Sequence[TopicPartition]) -> Iterator[None]:
    """A transaction is open in these partitions inside the block; then it is aborted."""
    with closing(
        KafkaProducer(
            bootstrap_servers=servers,
            transactional_id=f"hides-{uuid.uuid4().hex}",
            transaction_timeout_ms=_HIDDEN_MS,
        )
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for topic, number in partitions:
            producer.send(topic, key=b"-", value=b"-", partition=number)
        producer.flush()
        yield
        producer.abort_transaction()


def _option(name: str) -> str:
    """A source's option, from the name of a Python argument."""
    return name.replace("_", ".") if name.startswith("kafka_") else name


def exclaimed(record: Record) -> bytes | None:
    """The value that the transform `exclaim` makes."""
    return None if record.value is None else record.value + b"!"


class Flow:
    """One query's way from topic to topic: start it as often as you like, then judge.

    Args:
        servers: the brokers.
        checkpoint: the query's checkpoint folder.
        partitions: of the input topic; the output topic has at most four.
        replicas: of each partition.
        sink_servers: the brokers of the output, where they are others.
        name: of a flow that is there already, to go on with it.
        url: of the checkpoint, if it is not in a folder of this machine.
    """

    def __init__(
        self,
        servers: str,
        checkpoint: Path,
        partitions: int = 2,
        replicas: int = 1,
        sink_servers: str | None = None,
        name: str | None = None,
        url: str | None = None,
    ) -> None:
        self.servers = servers
        self.sink_servers = sink_servers or servers
        self.checkpoint = checkpoint
        self.url = url
        self.name = name or f"t{uuid.uuid4().hex[:10]}"
        self.input = f"{self.name}-in"
        self.output = f"{self.name}-out"
        self.group = f"{self.name}-group"
        self.partitions = partitions
        self.produced = 0
        self._runs = itertools.count(1)
        if name:
            self.produced = len(self.inputs())
            return
        for servers_of, topic, count in (
            (self.servers, self.input, partitions),
            (self.sink_servers, self.output, min(partitions, 4)),
        ):
            with self.admin(servers_of) as admin:
                admin.create_topics([NewTopic(topic, count, replicas)])
                admin.wait_for_topics([topic])

    @contextmanager
    def admin(self, servers: str | None = None) -> Iterator[KafkaAdminClient]:
        """A client for one question: one that has seen a broker die refuses to ask for a while."""
        with closing(KafkaAdminClient(bootstrap_servers=servers or self.servers)) as admin:
            yield admin

    def produce(
        self, count: int, partitions: Sequence[int] | None = None, transaction: str | None = None
    ) -> None:
        """Add records with keys of their own to the input, to each partition in turn.

        Args:
            partitions: only to these; None: to all.
            transaction: `commit` or `abort`: in a transaction that ends so; None: in none.
        """
        chosen = itertools.cycle(range(self.partitions) if partitions is None else partitions)
        ident = f"{self.name}-producer-{uuid.uuid4().hex}" if transaction else None
        with closing(
            KafkaProducer(bootstrap_servers=self.servers, transactional_id=ident, linger_ms=5)
        ) as producer:
            if transaction:
                producer.init_transactions()
                producer.begin_transaction()
            for number in range(self.produced, self.produced + count):
                label = "aborted" if transaction == "abort" else "k"
                producer.send(
                    self.input,
                    key=f"{label}{number}".encode(),
                    value=f"v{number}".encode(),
                    partition=next(chosen),
                )
            producer.flush()
            if transaction == "commit":
                producer.commit_transaction()
            elif transaction == "abort":
                producer.abort_transaction()
        if ident:
            until_ended(self.servers, ident)
        if transaction != "abort":
            self.produced += count

    def feeding(self, records: int, every_s: float) -> AbstractContextManager[None]:
        """So many records keep coming inside the block."""
        return again_and_again(lambda: self.produce(records), every_s)

    def start(
        self,
        application: Application,
        *,
        transform: str = "exclaim",
        interval: str | None = None,
        real_time: str | None = None,
        sink: dict[str, str] | None = None,
        form: str = "eoskafka",
        mode: str = "append",
        origin: str = "eoskafka",
        driver: str = "",
        conf: Any = None,
        **source: object,
    ) -> Query:
        """Start the query, by default until everything that is there now has been read.

        Args:
            transform: a name of `transforms.py`.
            interval: of processing-time batches, without end; `once` for one batch.
            real_time: the length of batches in real-time mode, without end and in update mode.
            sink: further options of the sink; an empty text leaves one out.
            form: the sink's format, or a function of `functions.py` for `foreachBatch`.
            mode: the output mode.
            origin: the source's format; another one has the options of `source` alone.
            driver: which of several, each with a checkpoint of its own.
            conf: settings of the session, by name, from this query on.
            source: further options of the source; `kafka_x_y` for `kafka.x.y`.
        """
        options = {
            **(self._source() if origin == "eoskafka" else {}),
            **{_option(name): str(value) for name, value in source.items()},
        }
        target = {
            "kafka.bootstrap.servers": self.sink_servers,
            "topic": self.output,
            "transactionalIdPrefix": f"eoskafka-{self.name}",
            **(sink or {}),
        }
        target = {name: value for name, value in target.items() if value}
        return application.query(
            f"{self.name}-{next(self._runs)}",
            origin=origin,
            source=options,
            sink=target,
            format=form,
            mode="update" if real_time else mode,
            transform=transform,
            interval=interval,
            real_time=real_time,
            conf=dict(conf or {}),
            checkpoint=f"{self.url or self.checkpoint}{driver}",
        )

    def reach(self, application: Application, point: Point, action: Action, **how: Any) -> Query:
        """Start the query, and wait until it has come to `point` and `action` was taken there.

        Args:
            how: as `start` has it.
        """
        application.faults.arm(point, action)
        query = self.start(application, **how)
        application.faults.wait_taken(point)
        return query

    def _source(self) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self.servers,
            "subscribe": self.input,
            "kafka.group.id": self.group,
            "startingOffsets": "earliest",
            "slots": "2",
        }

    def add_partitions(self, count: int) -> None:
        """Give the input topic `count` partitions."""
        with self.admin() as admin:
            admin.create_partitions({self.input: count})
            until(
                lambda: len(admin.describe_topics([self.input])[0]["partitions"]) == count,
                f"{count} partitions of {self.input}",
                SETTLE_S,
            )
        self.partitions = count

    def delete_records(self, before: dict[int, int]) -> None:
        """Remove the input's records before these offsets, by partition, as retention does."""
        with self.admin() as admin:
            admin.delete_records({TopicPartition(self.input, p): o for p, o in before.items()})

    def create_again(self) -> None:
        """Delete the input topic and create it again, empty."""
        with self.admin() as admin:
            admin.delete_topics([self.input])
            until(lambda: self.input not in admin.list_topics(), f"the end of {self.input}", 20)
            admin.create_topics([NewTopic(self.input, self.partitions, 1)])
            admin.wait_for_topics([self.input])

    def members(self) -> set[str]:
        """The ids of the group's members."""
        with self.admin() as admin:
            (group,) = admin.describe_groups([self.group]).values()
        return {member["member_id"] for member in group["members"]}

    def owner(self) -> str:
        """The id of the group's only member."""
        (member,) = self.members()
        return member

    def inputs(self) -> list[Record]:
        """The committed records of the input."""
        return list(read_committed(self.servers, self.input))

    def outputs(self) -> list[Record]:
        """The committed records of the output."""
        return list(read_committed(self.sink_servers, self.output))

    def committed(self) -> dict[int, int]:
        """The group's offsets by input partition."""
        return {partition: offset.offset for partition, offset in self._offsets().items()}

    def _offsets(self) -> dict[int, OffsetAndMetadata]:
        with self.admin() as admin:
            offsets = until_elected(lambda: admin.list_group_offsets([self.group]))[self.group]
        return {tp.partition: offset for tp, offset in offsets.items() if tp.topic == self.input}

    def ends(self) -> dict[int, int]:
        """The ends of the input's partitions, control records included."""
        latest = {TopicPartition(self.input, p): OffsetSpec.LATEST for p in range(self.partitions)}
        with self.admin() as admin:
            found = until_elected(
                lambda: admin.list_partition_offsets(latest), (OffsetNotAvailableError,)
            )
        return {tp.partition: o.offset for tp, o in found.items()}

    def transactional_ids(self, states: Iterable[str] | None = None) -> list[str]:
        """The ids of this query's producers that the brokers list, in these states or any."""
        wanted = None if states is None else set(states)
        return sorted(
            name
            for found in self.transactions().values()
            for name, state in found.items()
            if wanted is None or state in wanted
        )

    def decision_id(self) -> str:
        """The id of the producer that decides this query's epochs."""
        (name,) = (name for name in self.transactional_ids() if name.endswith("-decisions"))
        return name

    def transactions(self) -> dict[int, dict[str, str]]:
        """The ids of this query's producers and their states, by the broker that lists them."""
        with self.admin(self.sink_servers) as admin:
            listed = admin.list_transactions()
        return {
            broker: {t.transactional_id: t.state.value for t in found if self.name in t[0]}
            for broker, found in listed.items()
        }

    def open_transactions(self) -> list[str]:
        """The ids of this query's producers with a transaction that has not ended."""
        return self.transactional_ids(OPEN_STATES)

    def wait_committed(self, timeout_s: float = 60) -> None:
        """Wait until the group's offsets are the input's ends."""
        until(lambda: self.committed() == self.ends(), f"all offsets of {self.group}", timeout_s)

    def assert_nothing_is_open(self) -> None:
        """Wait until no transaction of the query is open; fail if one stays open."""
        until(
            lambda: not self.open_transactions(),
            f"the end of {self.open_transactions()}",
            SETTLE_S,
        )

    def _require_committed(self) -> None:
        """The group's offsets are the input's ends, and stay there."""
        first, ends = self._offsets(), self.ends()
        if {partition: offset.offset for partition, offset in first.items()} == ends:
            return
        # All output is visible, and nothing writes any more. So this is a defect if it stays, and
        # a broker's late view of the last commit if it does not.
        with suppress(TimeoutError):
            self.wait_committed(SETTLE_S)
        raise AssertionError(
            f"{self.group} had {first}, then {self._offsets()}; the input ends at {ends}"
        )

    def assert_exactly_once(self) -> None:
        """Every input record came out once, the group says so, and nothing is left open."""
        self.assert_nothing_is_open()
        inputs = self.inputs()
        assert len(inputs) == self.produced, f"the input has {len(inputs)} of {self.produced}"
        report = compare(inputs, self.outputs(), exclaimed)
        assert report.is_exactly_once, "\n".join(
            [f"{report.faults}", *(str(finding) for finding in report.findings)]
        )
        self._require_committed()
        tally.add("records", len(inputs))


def end_one(flow: Flow) -> str:
    """Abort one of the query's open transactions, as anybody can who may use its id."""
    ended = flow.open_transactions()[0]
    end(flow, ended)
    return ended


def end(flow: Flow, transactional_id: str) -> None:
    """Abort what is open under this id."""
    with closing(
        KafkaProducer(bootstrap_servers=flow.servers, transactional_id=transactional_id)
    ) as producer:
        producer.init_transactions()
