"""Brokers that are cut off from their peers and still answer clients.

The controller names another coordinator of the group, and another leader, after four seconds. The
former one does not hear of it. It still names itself, and answers from its memory, because a read
needs no other broker. It cannot commit anything.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from eoskafka import offsets
from eoskafka.audit import UndecidedError, slices
from eoskafka.audit.request import By, Request
from eoskafka.audit.verify import verify
from eoskafka.brokers.connection import Connection
from harness import Application, Flow, until
from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.structs import OffsetAndMetadata

from faults.proxy import Api
from faults.split import BROKERS, GROUPS, TRANSACTIONS, SplitCluster, is_possible

RECORDS = 200
PER_BATCH = 100
# Longer than a start waits for what a broker does not have.
UNREADABLE_S = 150
# The admin client of a source's driver.
DRIVER = "eoskafka-driver-[0-9a-f]{8}-"
# With the default a query that believes a wrong answer would only stop.
SKIPS: dict[str, Any] = {"failOnDataLoss": "false"}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not is_possible(), reason="needs root and iproute2, for namespaces"),
]


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SplitCluster]:
    with SplitCluster(tmp_path_factory.mktemp("split")) as cluster:
        make_kafkas_own_topics(cluster.servers())
        yield cluster


def make_kafkas_own_topics(servers: str) -> None:
    """The first transaction with offsets makes the topics whose leaders the tests choose."""
    name = "first"
    with closing(KafkaAdminClient(bootstrap_servers=servers)) as admin:
        admin.create_topics([NewTopic(name, 1, len(BROKERS))])
        admin.wait_for_topics([name])
    with closing(KafkaProducer(bootstrap_servers=servers, transactional_id=name)) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        offsets_of = {TopicPartition(name, 0): OffsetAndMetadata(0, "", -1)}
        producer.send_offsets_to_transaction(offsets_of, name)
        producer.commit_transaction()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    """Two executors: a retry runs on the other one, which has never read a start."""
    folder = tmp_path_factory.mktemp("application")
    # Attempts may fail until a client has found the right broker.
    settings = {"spark.task.maxFailures": "12"}
    with Application(folder, "local-cluster[2,1,1024]", settings) as application:
        yield application


@pytest.fixture
def application(shared: Application, keep_logs: list[Path]) -> Iterator[Application]:
    """Both executors are there; faults and queries end with the test."""
    with shared.lent(keep_logs) as lent:
        lent.wait_executors(2)
        yield lent


@pytest.fixture
def flow(split: SplitCluster, tmp_path: Path, keep_logs: list[Path]) -> Flow:
    """One partition, so that one task reads all of a batch."""
    keep_logs += split.logs()
    return Flow(split.servers(), tmp_path / "checkpoint", partitions=1, replicas=3)


@pytest.fixture(autouse=True)
def healed(split: SplitCluster) -> Iterator[None]:
    """Whatever a test has left."""
    yield
    heal(split)


def heal(split: SplitCluster) -> None:
    """Every client reaches every broker, and every broker the others."""
    heal_clients(split)
    split.join(*BROKERS)


def heal_clients(split: SplitCluster) -> None:
    """Every client reaches every broker."""
    for proxy in split.proxies.values():
        proxy.mend()


def another(*but: int) -> int:
    """A broker that is none of these."""
    return next(node for node in BROKERS if node not in but)


def send_elsewhere(flow: Flow, split: SplitCluster, *but: int) -> None:
    """From now on, everything that the test asks or starts begins with other brokers than these."""
    flow.servers = flow.sink_servers = split.servers(*but)


def depose_coordinator(split: SplitCluster, flow: Flow) -> int:
    """Cut the coordinator of the group off, while no transaction of the query is open.

    Returns:
        the deposed broker, which still answers as before.
    """
    deposed = split.coordinator()
    partition = TopicPartition(flow.input, 0)
    known = split.fetched(deposed, flow.group, partition)
    split.cut(deposed)
    elected = split.wait_deposed(deposed, GROUPS)
    until(
        lambda: split.fetched(elected, flow.group, partition) == known,
        f"the offsets of the group on broker {elected}",
        30,
    )
    assert split.says_of_itself(deposed, flow.group) == deposed
    assert split.fetched(deposed, flow.group, partition) == known
    return deposed


def test_an_attempt_that_a_deposed_coordinator_has_answered_writes_nothing_twice(
    split: SplitCluster, application: Application, flow: Flow
) -> None:
    partition = TopicPartition(flow.input, 0)
    flow.produce(PER_BATCH)
    query = flow.start(
        application,
        interval="0 seconds",
        maxOffsetsPerTrigger=PER_BATCH,
        kafka_session_timeout_ms=120_000,
    )
    flow.wait_committed()
    flow.assert_nothing_is_open()
    split.lead(another(split.coordinator()), flow.input, flow.output, TRANSACTIONS)
    deposed = depose_coordinator(split, flow)

    # The first attempt commits, and nobody hears of it.
    application.faults.arm("after-commit", "kill")
    # An executor's admin client keeps to the broker that it has asked before, and a producer
    # has found the coordinator elsewhere.
    for node in BROKERS:
        split.proxies[node].refuse(
            f"eoskafka-{flow.name}" if node == deposed else "eoskafka-executor"
        )
    send_elsewhere(flow, split, deposed)
    flow.produce(PER_BATCH)
    application.faults.wait_taken("after-commit")
    elected = split.coordinator(deposed)
    until(
        lambda: split.fetched(elected, flow.group, partition) == RECORDS,
        "the second batch's offset",
        30,
    )
    assert split.fetched(deposed, flow.group, partition) == PER_BATCH

    until(lambda: len(application.executors()) == 2, "another executor", 60)
    before = application.ended_attempts()
    until(lambda: application.ended_attempts() > before, "the end of the retry", 60)
    heal_clients(split)
    until(lambda: query.status().batches == 2, "the second batch", 60, application.tail)
    query.stop()
    heal(split)
    send_elsewhere(flow, split)
    flow.assert_exactly_once()
    assert "[EOSKAFKA_START_NOT_CONFIRMED]" in application.text()


def test_a_range_is_not_left_out_because_a_deposed_coordinator_calls_it_committed(
    split: SplitCluster, application: Application, flow: Flow
) -> None:
    """The offset was moved back since, which that broker does not know."""
    begin, partition = PER_BATCH // 2, TopicPartition(flow.input, 0)
    flow.produce(PER_BATCH)
    flow.start(application).wait_done()
    flow.assert_nothing_is_open()
    split.lead(another(split.coordinator()), flow.input, flow.output, TRANSACTIONS)
    deposed = depose_coordinator(split, flow)
    to = json.dumps({flow.input: {"0": begin}})
    offsets.reset(split.servers(deposed), flow.group, to)

    for node in BROKERS:
        split.proxies[node].refuse(".*-driver$" if node == deposed else "eoskafka-executor")
    query = flow.start(application)
    until(
        lambda: (
            "[EOSKAFKA_COMMIT_NOT_CONFIRMED]" in application.text() or not query.status().active
        ),
        "an answer of the former coordinator",
        90,
    )
    heal_clients(split)
    query.wait_done()
    assert split.fetched(split.coordinator(deposed), flow.group, partition) == PER_BATCH
    heal(split)
    written = sorted(int((r.key or b"k")[1:]) for r in flow.outputs())
    assert written == sorted([*range(PER_BATCH), *range(begin, PER_BATCH)])


def test_an_epoch_does_not_begin_where_a_deposed_coordinator_says(
    split: SplitCluster, application: Application, tmp_path: Path, keep_logs: list[Path]
) -> None:
    """No decision says where a partition is that had no records in the last epoch."""
    keep_logs += split.logs()
    flow = Flow(split.servers(), tmp_path / "checkpoint", partitions=2, replicas=3)
    first, epochs = TopicPartition(flow.input, 0), {"transform": "repartitioned", **SKIPS}
    flow.produce(PER_BATCH, [0])
    flow.start(application, **epochs).wait_done()
    topics = flow.input, flow.output, TRANSACTIONS, "__eoskafka_decisions"
    split.lead(another(split.coordinator()), *topics)
    deposed = depose_coordinator(split, flow)
    send_elsewhere(flow, split, deposed)
    for partition in (0, 1):
        flow.produce(PER_BATCH, [partition])
        flow.start(application, **epochs).wait_done()
    assert split.fetched(split.coordinator(deposed), flow.group, first) == RECORDS
    assert split.fetched(deposed, flow.group, first) == PER_BATCH

    flow.produce(PER_BATCH, [1])
    for node in BROKERS:
        if node == deposed:
            # The driver's membership is with the coordinator that was elected.
            split.proxies[node].refuse(".*-driver$")
        else:
            for api in (Api.METADATA, Api.FIND_COORDINATOR, Api.OFFSET_FETCH):
                split.proxies[node].refuse(DRIVER, api)
    asked = split.proxies[deposed].requests[Api.OFFSET_FETCH]
    send_elsewhere(flow, split)
    flow.start(application, **epochs).wait_done()
    assert split.proxies[deposed].requests[Api.OFFSET_FETCH] > asked
    heal(split)
    flow.assert_exactly_once()


def test_a_batch_that_a_deposed_leader_of_the_decisions_does_not_know_is_not_written_again(
    split: SplitCluster, flow: Flow, tmp_path: Path, keep_logs: list[Path]
) -> None:
    """It was decided and committed in foreachBatch; its driver dies before Spark logs it."""
    decisions = "__eoskafka_decisions"
    in_batches: dict[str, Any] = {"form": "foreach_batch"}
    flow.produce(PER_BATCH)
    for name in ("first", "next"):
        (tmp_path / name).mkdir()
    with Application(tmp_path / "first", "local[2]") as application:
        keep_logs += application.logs()
        flow.start(application, **in_batches).wait_done()
        coordinator = split.coordinator()
        deposed = another(coordinator)
        split.lead(deposed, decisions)
        split.lead(coordinator, flow.input, flow.output, TRANSACTIONS)
        split.cut(deposed)
        split.wait_deposed(deposed, decisions)
        send_elsewhere(flow, split, deposed)
        flow.produce(PER_BATCH)
        flow.reach(application, "before-log", "kill", **in_batches)
    with Application(tmp_path / "next", "local[2]") as application:
        keep_logs += application.logs()
        take_metadata_from(split, deposed, "eoskafka-(driver-epochs|decisions)")
        send_elsewhere(flow, split)
        error = flow.start(application, **in_batches).wait_end(UNREADABLE_S).error or ""
        assert len(flow.outputs()) == RECORDS
        assert "[EOSKAFKA_DECISIONS_UNREADABLE]" in error, error
        heal(split)
        flow.start(application, **in_batches).wait_done()
        flow.assert_exactly_once()


def depose_leader(split: SplitCluster, flow: Flow) -> int:
    """Cut the leader of the input off; it leads nothing else, and coordinates nothing.

    Returns:
        the deposed broker.
    """
    coordinator = split.coordinator()
    deposed = another(coordinator)
    split.lead(deposed, flow.input)
    split.lead(coordinator, flow.output, TRANSACTIONS)
    split.cut(deposed)
    split.wait_deposed(deposed, flow.input)
    send_elsewhere(flow, split, deposed)
    return deposed


def take_metadata_from(split: SplitCluster, node: int, client_id: str) -> None:
    """Clients with this id learn of leaders from one broker alone, and reach all of them."""
    for other in BROKERS:
        if other != node:
            split.proxies[other].refuse(client_id, Api.METADATA)


def test_a_log_that_a_deposed_leader_says_is_shorter_has_lost_nothing(
    split: SplitCluster, application: Application, flow: Flow
) -> None:
    partition = TopicPartition(flow.input, 0)
    flow.produce(PER_BATCH)
    flow.start(application, **SKIPS).wait_done()
    deposed = depose_leader(split, flow)
    flow.produce(PER_BATCH)
    flow.start(application, **SKIPS).wait_done()
    coordinator = split.coordinator(deposed)
    assert split.fetched(coordinator, flow.group, partition) == RECORDS

    take_metadata_from(split, deposed, DRIVER)
    send_elsewhere(flow, split)
    flow.start(application, **SKIPS).wait_done()
    assert split.fetched(coordinator, flow.group, partition) == RECORDS
    heal(split)
    flow.start(application, **SKIPS).wait_done()
    flow.assert_exactly_once()
    assert "The leaders that were elected last say" in application.text()


def test_a_position_that_a_deposed_leader_does_not_know_is_not_skipped(
    split: SplitCluster, application: Application, flow: Flow
) -> None:
    """The query begins there, so that no leader epoch is committed that would tell the reader."""
    begin, partition = PER_BATCH + PER_BATCH // 2, TopicPartition(flow.input, 0)
    flow.produce(PER_BATCH)
    deposed = depose_leader(split, flow)
    flow.produce(PER_BATCH)
    take_metadata_from(split, deposed, "[0-9a-f]{8}-")  # consumers of slots
    send_elsewhere(flow, split)
    starting = json.dumps({flow.input: {"0": begin}})
    query = flow.start(application, startingOffsets=starting, **SKIPS)
    until(
        lambda: "[EOSKAFKA_LEADER_IS_FORMER]" in application.text() or not query.status().active,
        "an answer of the former leader",
        90,
    )
    heal(split)
    query.wait_done()
    assert split.fetched(split.coordinator(), flow.group, partition) == RECORDS
    assert sorted(int((r.key or b"k")[1:]) for r in flow.outputs()) == [*range(begin, RECORDS)]


def test_a_batch_query_reads_what_a_deposed_leader_does_not_know(
    split: SplitCluster, application: Application, flow: Flow
) -> None:
    """Nobody would read later what it leaves out."""
    flow.produce(PER_BATCH)
    deposed = BROKERS[0]
    split.lead(deposed, flow.input)
    until(lambda: flow.ends() == {0: PER_BATCH}, "the end that the leader knows", 30)
    split.cut(deposed)
    split.wait_deposed(deposed, flow.input)
    send_elsewhere(flow, split, deposed)
    flow.produce(PER_BATCH)
    take_metadata_from(split, deposed, "eoskafka-batch")
    split.proxies[deposed].refuse("[0-9a-f]{8}-", Api.METADATA)  # consumers of tasks
    send_elsewhere(flow, split)
    source = {"kafka.bootstrap.servers": flow.servers, "subscribe": flow.input}
    until_end = application.read(**source)
    until_now = application.read(**source, endingTimestamp=str(time.time_ns() // 1_000_000))
    heal(split)
    assert sorted(until_end) == sorted(f"v{number}" for number in range(RECORDS))
    assert sorted(until_now) == sorted(until_end)


def replace_topic(split: SplitCluster, flow: Flow) -> int:
    """Create the input again, while a leader of the former topic is cut off.

    That one still has the former log, of which only the end is left: its first offset is PER_BATCH.

    Returns:
        the deposed broker, which leads and coordinates nothing else.
    """
    coordinator = split.coordinator()
    deposed = another(coordinator)
    split.lead(deposed, flow.input)
    with flow.admin() as admin:
        admin.delete_records({TopicPartition(flow.input, 0): PER_BATCH})
    split.lead(coordinator, flow.output, TRANSACTIONS)
    split.cut(deposed)
    split.wait_deposed(deposed, flow.input)
    send_elsewhere(flow, split, deposed)
    flow.create_again()
    flow.produce(RECORDS)
    split.proxies[deposed].refuse(DRIVER, Api.DESCRIBE_TOPIC_PARTITIONS)
    return deposed


def assert_both_topics_were_read(flow: Flow) -> None:
    """The output has the records of the former input, PER_BATCH, and those of the present one."""
    flow.assert_nothing_is_open()
    assert len(flow.inputs()) == RECORDS
    assert sorted(int((r.key or b"k")[1:]) for r in flow.outputs()) == [*range(PER_BATCH + RECORDS)]


def test_a_topic_that_is_created_again_begins_where_its_new_leader_says(
    split: SplitCluster, application: Application, flow: Flow
) -> None:
    flow.produce(PER_BATCH)
    flow.start(application, **SKIPS).wait_done()
    deposed = replace_topic(split, flow)
    take_metadata_from(split, deposed, DRIVER)
    send_elsewhere(flow, split)
    flow.start(application, **SKIPS).wait_done()
    heal(split)
    flow.start(application, **SKIPS).wait_done()
    assert_both_topics_were_read(flow)


def test_a_task_does_not_begin_where_a_leader_of_the_former_topic_says(
    split: SplitCluster, application: Application, flow: Flow
) -> None:
    flow.produce(PER_BATCH)
    flow.start(application, **SKIPS).wait_done()
    deposed = replace_topic(split, flow)
    split.proxies[deposed].refuse(DRIVER, Api.METADATA)
    take_metadata_from(split, deposed, "[0-9a-f]{8}-")  # consumers of slots
    send_elsewhere(flow, split)
    query = flow.start(application, **SKIPS)
    until(
        lambda: "Records are gone and skipped" in application.text(),
        "an answer of the former leader",
        90,
    )
    heal(split)
    query.wait_done()
    assert_both_topics_were_read(flow)


def add_partition(split: SplitCluster, flow: Flow) -> int:
    """Give the input a second partition, of which a broker that is cut off does not hear.

    Returns:
        the deposed broker, which leads and coordinates nothing.
    """
    deposed, *others = BROKERS
    split.lead(others[0], flow.input, flow.output, TRANSACTIONS, GROUPS, "__eoskafka_decisions")
    split.cut(deposed)
    until(lambda: deposed in split.fenced(deposed), f"the fencing of broker {deposed}", 30)
    send_elsewhere(flow, split, deposed)
    with flow.admin() as admin:
        new = {"count": 2, "assignments": [[*others, deposed]]}
        admin.create_partitions({flow.input: new})
    flow.partitions = 2
    until(lambda: len(split.leaders(flow.input, deposed)) == 2, "another partition", 30)
    flow.produce(PER_BATCH, [1])
    return deposed


def take_topics_from(split: SplitCluster, node: int, client_id: str) -> None:
    """Clients with this id learn of topics from one broker alone."""
    take_metadata_from(split, node, client_id)
    for other in BROKERS:
        if other != node:
            split.proxies[other].refuse(client_id, Api.DESCRIBE_TOPIC_PARTITIONS)


def test_a_batch_query_reads_a_partition_that_a_deposed_broker_does_not_know(
    split: SplitCluster, application: Application, flow: Flow
) -> None:
    flow.produce(PER_BATCH)
    # So that the decision topic is there.
    flow.start(application, transform="repartitioned").wait_done()
    deposed = add_partition(split, flow)
    take_topics_from(split, deposed, "eoskafka-batch")
    source = {"kafka.bootstrap.servers": split.servers(), "subscribe": flow.input}
    asked = split.proxies[deposed].requests
    before = asked[Api.DESCRIBE_TOPIC_PARTITIONS]
    with ThreadPoolExecutor() as pool:
        reading = pool.submit(application.read, **source)
        until(
            lambda: reading.done() or asked[Api.DESCRIBE_TOPIC_PARTITIONS] > before + 1,
            "another question to the deposed broker",
            60,
        )
        heal(split)
        assert len(reading.result()) == RECORDS


def test_a_partition_that_a_deposed_broker_does_not_know_is_not_dropped_from_an_open_batch(
    split: SplitCluster, flow: Flow, tmp_path: Path, keep_logs: list[Path]
) -> None:
    epochs: dict[str, Any] = {"transform": "repartitioned", **SKIPS}
    flow.produce(PER_BATCH)
    for name in ("first", "next"):
        (tmp_path / name).mkdir()
    with Application(tmp_path / "first", "local[2]") as application:
        keep_logs += application.logs()
        flow.start(application, **epochs).wait_done()
        deposed = add_partition(split, flow)
        flow.reach(application, "before-log", "kill", **epochs)
    with Application(tmp_path / "next", "local[2]") as application:
        keep_logs += application.logs()
        take_topics_from(split, deposed, DRIVER)
        send_elsewhere(flow, split)
        error = flow.start(application, **epochs).wait_end(UNREADABLE_S).error or ""
        assert "[EOSKAFKA_TOPIC_ID_UNCLEAR]" in error, error
        heal(split)
        flow.start(application, **epochs).wait_done()
        flow.assert_exactly_once()


def test_a_query_does_not_wait_for_a_leader_that_was_deposed_while_it_ran(
    split: SplitCluster, application: Application, flow: Flow
) -> None:
    """Its driver has asked that broker before, and gets an answer without an error."""
    flow.produce(PER_BATCH)
    split.lead(another(split.coordinator()), flow.input)
    # The consumer of the slot keeps to that broker, too, until an attempt fails.
    patience: dict[str, Any] = {"kafkaConsumer.pollTimeoutMs": 10_000}
    query = flow.start(application, interval="0 seconds", **patience)
    flow.wait_committed()
    deposed = depose_leader(split, flow)
    take_metadata_from(split, deposed, DRIVER)
    flow.produce(PER_BATCH)
    until(lambda: len(flow.outputs()) == RECORDS, "the second batch", 150, application.tail)
    heal(split)
    query.stop()
    send_elsewhere(flow, split)
    flow.assert_exactly_once()


class Silent:
    """Ignores the progress of `verify`."""

    def begins(self, what: str, records: int) -> None: ...
    def read(self, records: int) -> None: ...


def test_verify_gives_no_verdict_on_what_a_deposed_leader_says(
    split: SplitCluster,
    application: Application,
    flow: Flow,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A duplicate was written since, which that leader does not know of."""
    flow.produce(PER_BATCH)
    flow.start(application).wait_done()
    flow.assert_exactly_once()
    deposed = another(split.coordinator())
    split.lead(deposed, flow.input, flow.output)
    split.cut(deposed)
    split.wait_deposed(deposed, flow.output)
    send_elsewhere(flow, split, deposed)
    first = flow.outputs()[0]
    with closing(KafkaProducer(bootstrap_servers=flow.servers)) as producer:
        producer.send(flow.output, first.value, first.key).get(30)

    request = Request([flow.output], By.KEY, [flow.input])
    # The others do not list the broker that is cut off. It lists them, and this client then takes
    # its metadata from any of the three.
    others = [node for node in BROKERS if node != deposed]
    auditor = Connection(split.servers(*others), {})
    monkeypatch.setattr(slices, "STALL_TIMEOUT_S", 3)

    def verdict_is_refused() -> bool:
        try:
            assert not verify(auditor, request, Silent()).holds
        except UndecidedError as refusal:
            return "a former leader has named the end of" in str(refusal)
        return False

    until(verdict_is_refused, "an answer of the former leader", 200)
    heal(split)
    assert not verify(Connection(split.servers(), {}), request, Silent()).holds
