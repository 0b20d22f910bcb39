"""What docs/repair.md and docs/runbooks.md say mends what they say it mends.

Each drill breaks something, runs the commands of the page as they are written there, and follows
its steps until the query has written what it should have. A command of the pages without a drill
fails a test.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow
import pytest
from eoskafka.audit import read_committed
from eoskafka.cluster import LocalCluster
from eoskafka.cluster.broker import Broker, run_kafka_tool
from eoskafka.cluster.jars import kafka_jars
from harness import Flow, Point, StartApplication, maven, until
from harness.raw_requests import RawConnection
from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.structs import OffsetAndMetadata
from movable import Movable
from pyarrow import parquet
from streams import Streams, command

PAGES = [Path(__file__).parents[2] / "docs" / name for name in ("repair.md", "runbooks.md")]
RECORDS = 12
SERVER = "--bootstrap-servers broker:9092"
ADOPT_WHAT_IS_THERE = f"eoskafka offsets adopt CHECKPOINT {SERVER} --group GROUP"
ADOPT_AT = f"eoskafka offsets adopt CHECKPOINT {SERVER} --at JSON"
SHOW = f"eoskafka offsets show {SERVER} --group GROUP"
FIND_HANGING = f"eoskafka txn find-hanging {SERVER}"
VERIFY = f"eoskafka verify --checkpoint CHECKPOINT --output payments-clean --by key {SERVER}"

DRILLED: set[str] = set()

Drill = TypeVar("Drill", bound=Callable[..., None])


def drills(*written: str) -> Callable[[Drill], Drill]:
    """A test runs these commands."""
    DRILLED.update(written)
    return lambda test: test


def commands() -> set[str]:
    """Those of the pages, without line breaks."""
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    return {
        " ".join(found.split())
        for text in texts
        for found in re.findall(r"`((?:eoskafka|kafka-\S+\.sh) \S[^`]*)`", text)
    }


class Result(NamedTuple):
    """What a command has printed."""

    out: str
    err: str


class Terminal:
    """Runs commands of the pages against the shared broker."""

    def __init__(self, streams: Streams, capsys: pytest.CaptureFixture[str]) -> None:
        self.servers = streams.servers
        self._capsys = capsys

    def run(self, written: str, *more: str, code: int = 0, **places: object) -> Result:
        """Run a command as a page has it.

        Args:
            more: arguments that the page leaves to the reader.
            code: the exit code that it has to have.
            places: what stands for the words in capitals, and for names of examples.
        """
        found, out, err = command(self._capsys, *self._arguments(written, places), *more)
        assert found == code, out + err
        return Result(out, err)

    def run_kafka_tool(self, written: str, main_class: str, **places: object) -> None:
        """Run a command of Kafka's, whose script starts this class."""
        run_kafka_tool(
            [*maven.kafka_tools(), *kafka_jars()], main_class, *self._arguments(written, places)
        )

    def _arguments(self, written: str, places: dict[str, object]) -> list[str]:
        assert written in DRILLED, written
        there = {"broker:9092": self.servers, **places}
        return [str(there.get(word, word)) for word in shlex.split(written)[1:]]


@pytest.fixture
def terminal(streams: Streams, capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(streams, capsys)


@pytest.fixture
def job(streams: Streams) -> Movable:
    """It has written ten records, and two more are waiting."""
    job = Movable(streams, records=RECORDS - 2)
    job.run()
    streams.send(job.input, RECORDS - 2, RECORDS - 1)
    return job


def written_up_to(job: Movable) -> str:
    """For each partition, the offset after the last input record whose output is there."""
    written = {record.key for record in read_committed(job.streams.servers, job.output)}
    ends = {
        record.partition: record.offset + 1
        for record in read_committed(job.streams.servers, job.input)
        if record.key in written
    }
    return json.dumps({job.input: {str(partition): end for partition, end in ends.items()}})


# ---- giving a query its offsets


@drills(ADOPT_WHAT_IS_THERE, ADOPT_AT)
def test_a_query_whose_offsets_a_tool_has_set(job: Movable, terminal: Terminal) -> None:
    job.streams.set_offsets(job.group, job.input, {0: (6, ""), 1: (6, "")})
    assert "EOSKAFKA_OFFSET_WITHOUT_STAMP" in job.streams.failure(job.writer())
    places: dict[str, Any] = {"CHECKPOINT": job.checkpoint, "GROUP": job.group}
    refused = terminal.run(ADOPT_WHAT_IS_THERE, code=1, **places)
    assert f"ends at offset 5 of {job.input}-0" in " ".join(refused.err.split())
    terminal.run(ADOPT_AT, **places, JSON=written_up_to(job))
    job.run()
    assert job.written() == [*range(RECORDS)]


@drills(ADOPT_AT)
def test_a_query_whose_offsets_are_gone(job: Movable, terminal: Terminal) -> None:
    partitions = [TopicPartition(job.input, partition) for partition in (0, 1)]
    job.streams.admin.delete_group_offsets(job.group, partitions)
    assert "EOSKAFKA_OFFSETS_GONE" in job.streams.failure(job.writer())
    job.streams.wait_empty(job.group)
    terminal.run(ADOPT_AT, CHECKPOINT=job.checkpoint, JSON=written_up_to(job))
    job.run()
    assert job.written() == [*range(RECORDS)]


@drills(ADOPT_WHAT_IS_THERE)
def test_a_new_query_that_goes_on_for_another_application(
    streams: Streams, terminal: Terminal
) -> None:
    job = Movable(streams, records=RECORDS)
    streams.set_offsets(job.group, job.input, {0: (3, "left by a consumer"), 1: (4, "")})
    terminal.run(ADOPT_WHAT_IS_THERE, CHECKPOINT=job.checkpoint, GROUP=job.group)
    job.run()
    # Partition 0 has the even numbers.
    assert job.written() == [6, 8, 9, 10, 11]


DRY_RUN = f"eoskafka offsets adopt CHECKPOINT {SERVER} --dry-run"


@drills(DRY_RUN)
def test_a_query_in_epoch_scope_whose_offsets_are_gone(
    streams: Streams, terminal: Terminal
) -> None:
    job = Movable(streams, records=RECORDS - 2)
    job.run(transactionScope="epoch")
    streams.wait_empty(job.group)
    streams.admin.delete_groups([job.group])
    streams.send(job.input, RECORDS - 2, RECORDS - 1)
    said = terminal.run(DRY_RUN, CHECKPOINT=job.checkpoint)
    assert "can start as it is" in said.out
    job.run(transactionScope="epoch")
    assert job.written() == [*range(RECORDS)]


# ---- a transaction hangs


def killed(start: StartApplication, flow: Flow, point: Point, transform: str) -> None:
    """The flow's query has begun, and its driver is killed at this point of its first batch."""
    flow.produce(RECORDS)
    application = start("local[2]")
    flow.reach(application, point, "kill", transform=transform)
    application.kill()


@drills(FIND_HANGING)
def test_a_transaction_that_holds_up_readers_and_ends_when_its_query_starts(
    start_application: StartApplication, flow: Flow, terminal: Terminal
) -> None:
    killed(start_application, flow, "before-decision", "repartitioned")
    said = terminal.run(FIND_HANGING, "--topics", flow.output, "--format", "json")
    assert any(name in said.out for name in flow.open_transactions()), said.out
    flow.start(start_application("local[2]"), transform="repartitioned").wait_done()
    flow.assert_exactly_once()


END_UNKNOWN = (
    "kafka-transactions.sh --bootstrap-server broker:9092 abort --topic TOPIC --partition N "
    "--start-offset OFFSET"
)


@contextmanager
def unverified(streams: Streams, broker: Broker) -> Iterator[None]:
    """It takes records of transactions that no coordinator knows, as former releases did."""

    def let(value: str) -> None:
        setting = {"transaction.partition.verification.enable": value}
        where = str(broker.node_id)
        streams.admin.alter_configs([ConfigResource(ConfigResourceType.BROKER, where, setting)])

    let("false")
    try:
        yield
    finally:
        let("true")


@drills(END_UNKNOWN)
def test_a_transaction_that_no_coordinator_knows(
    cluster: LocalCluster, streams: Streams, terminal: Terminal
) -> None:
    topic = streams.topic(partitions=1)
    (broker,) = cluster.brokers
    with unverified(streams, broker), closing(RawConnection(broker.port)) as connection:
        # The setting takes effect some time after it was accepted.
        until(lambda: connection.produce(topic, producer_id=2**40), "a record that is taken", 10)
    streams.send(topic, 7)
    said = terminal.run(FIND_HANGING, "--topics", topic, "--format", "json", code=1)
    (held,) = json.loads(said.out)["blocked"]
    assert (held["transactional_id"], held["is_hanging"], held["stable"]) == ("", True, 0)
    terminal.run_kafka_tool(
        END_UNKNOWN, "org.apache.kafka.tools.TransactionsCommand", TOPIC=topic, N=0, OFFSET=0
    )
    terminal.run(FIND_HANGING, "--topics", topic)
    assert streams.numbers(topic) == [7]


RESOLVE_QUERY = f"eoskafka txn resolve --checkpoint CHECKPOINT {SERVER}"


@drills(RESOLVE_QUERY)
def test_a_query_that_will_not_run_again(
    start_application: StartApplication, flow: Flow, terminal: Terminal
) -> None:
    killed(start_application, flow, "half-rolled-forward", "repartitioned")
    assert flow.open_transactions()
    terminal.run(RESOLVE_QUERY, CHECKPOINT=flow.checkpoint)
    assert flow.open_transactions() == []
    flow.assert_exactly_once()


RESOLVE_JOB = f"eoskafka txn resolve WRITE_ID {SERVER}"


@drills(RESOLVE_JOB)
def test_a_batch_job_that_will_not_run_again(
    start_application: StartApplication, flow: Flow, terminal: Terminal
) -> None:
    application = start_application("local[2]")
    application.faults.arm("half-rolled-forward", "kill")
    sink: dict[str, Any] = {"kafka.bootstrap.servers": flow.servers, "topic": flow.output}
    with pytest.raises(RuntimeError):
        application.write(RECORDS, **sink, writeId=flow.name)
    application.kill()
    terminal.run(RESOLVE_JOB, WRITE_ID=flow.name)
    assert len(flow.outputs()) == RECORDS


ABORT = f"eoskafka txn abort ID {SERVER}"


@drills(ABORT)
def test_one_transaction_of_a_program_that_is_gone(
    start_application: StartApplication, flow: Flow, terminal: Terminal
) -> None:
    killed(start_application, flow, "after-flush", "exclaim")
    prefix = ("--transactional-id-prefix", f"eoskafka-{flow.name}")
    for name in flow.open_transactions():
        terminal.run(ABORT, *prefix, ID=name)
    assert flow.open_transactions() == []
    assert flow.outputs() == []
    flow.start(start_application("local[2]"), transform="exclaim").wait_done()
    flow.assert_exactly_once()


# ---- replaying and recovering


@drills("eoskafka offsets reset")
def test_records_that_are_replayed(job: Movable, terminal: Terminal) -> None:
    job.run()
    job.streams.remove_members(job.group)
    where = ("--bootstrap-servers", terminal.servers, "--group", job.group)
    terminal.run("eoskafka offsets reset", *where, "--to", "earliest")
    job.run()
    assert job.written() == sorted([*range(RECORDS), *range(RECORDS)])


TAKE_OVER = f"eoskafka offsets adopt NEW_CHECKPOINT {SERVER} --group GROUP --take-over"


@drills(TAKE_OVER)
def test_a_checkpoint_that_is_lost(job: Movable, terminal: Terminal) -> None:
    shutil.rmtree(job.checkpoint)
    job.checkpoint = job.streams.checkpoint()
    job.streams.wait_empty(job.group)
    terminal.run(TAKE_OVER, NEW_CHECKPOINT=job.checkpoint, GROUP=job.group)
    job.run()
    assert job.written() == [*range(RECORDS)]


@drills(SHOW)
def test_a_checkpoint_in_epoch_scope_that_has_to_be_deleted(
    streams: Streams, terminal: Terminal
) -> None:
    job = Movable(streams, records=RECORDS - 2)
    job.run(transactionScope="epoch")
    said = terminal.run(SHOW, "--format", "json", GROUP=job.group)
    (group,) = json.loads(said.out)["groups"]
    starts = {str(each["partition"]): each["committed"] for each in group["positions"]}
    shutil.rmtree(job.checkpoint)
    streams.send(job.input, RECORDS - 2, RECORDS - 1)
    given = {
        "kafka.group.id": streams.group(),
        "startingOffsets": json.dumps({job.input: starts}),
    }
    rows = streams.source(job.input, given).select("key", "value")
    options = {"transactionScope": "epoch"}
    streams.run(streams.sink(rows, job.output, streams.checkpoint(), options))
    assert job.written() == [*range(RECORDS)]


@drills("eoskafka verify --expected")
def test_output_that_is_missing_is_named(job: Movable, terminal: Terminal, tmp_path: Path) -> None:
    expected = tmp_path / "expected.parquet"
    keys = [f"k{number}".encode() for number in range(RECORDS)]
    parquet.write_table(pyarrow.table({"key": keys}), expected)
    where = ("--bootstrap-servers", terminal.servers, "--output", job.output, "--by", "key")
    said = terminal.run("eoskafka verify --expected", str(expected), *where, code=1)
    assert "lost: expected row 10" in said.out
    job.run()
    terminal.run("eoskafka verify --expected", str(expected), *where)


# ---- runbooks

DOCTOR = f"eoskafka doctor {SERVER}"
LAG = f"eoskafka offsets lag {SERVER}"
LIST = f"eoskafka txn list {SERVER}"


@drills(VERIFY)
def test_the_output_of_a_query_that_has_failed_and_runs_again(
    job: Movable, terminal: Terminal
) -> None:
    rows = job.streams.source(job.input, {"kafka.group.id": job.group})
    broken = rows.selectExpr("key", "raise_error('no') as value")
    assert "no" in job.streams.failure(job.streams.sink(broken, job.output, job.checkpoint))
    job.run()
    places: dict[str, Any] = {"CHECKPOINT": job.checkpoint, "payments-clean": job.output}
    said = terminal.run(VERIFY, **places)
    assert str(RECORDS) in said.out
    # Somebody else's copy of a record.
    job.streams.send(job.output, 3)
    assert "k3" in terminal.run(VERIFY, code=1, **places).out


@drills(DOCTOR)
def test_a_query_that_does_not_start_because_nobody_is_there(terminal: Terminal) -> None:
    terminal.run(DOCTOR)
    nobody: dict[str, Any] = {"broker:9092": "127.0.0.1:1"}
    assert "127.0.0.1:1" in str(terminal.run(DOCTOR, code=3, **nobody))


@drills(LAG, SHOW)
def test_which_partitions_are_behind(job: Movable, terminal: Terminal) -> None:
    job.streams.send(job.input, *range(100, 150), partition=1)
    assert job.group in terminal.run(LAG).out
    (group,) = json.loads(terminal.run(SHOW, "--format", "json", GROUP=job.group).out)["groups"]
    assert {each["partition"]: each["lag"] for each in group["positions"]} == {0: 1, 1: 51}


@drills(LIST)
def test_who_else_has_a_transaction_open(streams: Streams, terminal: Terminal) -> None:
    job = Movable(streams, records=2)
    intruder = f"eoskafka-{job.group}-0"
    with job.transaction(intruder, 0, OffsetAndMetadata(1, "", -1)) as producer:
        said = terminal.run(LIST, "--all")
        assert intruder in said.out
        producer.abort_transaction()
    assert intruder not in terminal.run(LIST, "--all").out


def test_every_command_of_the_pages_has_a_drill() -> None:
    assert commands() == DRILLED
