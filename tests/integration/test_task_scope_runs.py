"""Task scope over several runs of a query: what is read, what goes on where, what is refused."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from eoskafka.cluster import LocalCluster
from harness import (
    Application,
    Flow,
    StartApplication,
    compile_to_jar,
    forget,
    forget_last_batch,
    last_batches,
    until,
    until_ended,
)
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

RECORDS = 1_000
PER_BATCH = 250


@pytest.fixture(scope="module")
def shared_application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    """Driver and executor in one JVM; use `application`."""
    folder = tmp_path_factory.mktemp("application")
    settings = {"spark.jars": str(compile_to_jar(folder))}
    with Application(folder, "local[2,4]", settings) as application:
        yield application


@pytest.fixture
def application(shared_application: Application, keep_logs: list[Path]) -> Iterator[Application]:
    """Shared by all tests, with nothing armed."""
    with shared_application.lent(keep_logs) as lent:
        yield lent


def test_a_deleted_checkpoint_goes_on_from_the_group(application: Application, flow: Flow) -> None:
    flow.produce(RECORDS)
    flow.start(application, maxOffsetsPerTrigger=PER_BATCH).wait_done()
    shutil.rmtree(flow.checkpoint)
    flow.produce(RECORDS)
    flow.start(application, maxOffsetsPerTrigger=PER_BATCH).wait_done()
    flow.assert_exactly_once()


def test_a_batch_whose_commit_log_entry_is_gone_takes_effect_once(
    application: Application, flow: Flow
) -> None:
    flow.produce(RECORDS)
    flow.start(application, maxOffsetsPerTrigger=PER_BATCH).wait_done()
    forget_last_batch(flow.checkpoint)
    flow.produce(RECORDS)
    flow.start(application, maxOffsetsPerTrigger=PER_BATCH).wait_done()
    flow.assert_exactly_once()


def test_an_older_copy_of_sparks_logs_goes_on_from_the_group(
    application: Application, flow: Flow
) -> None:
    flow.produce(RECORDS)
    flow.start(application, maxOffsetsPerTrigger=PER_BATCH).wait_done()
    older = {name: last_batches(flow.checkpoint / name) for name in ("offsets", "commits")}
    flow.produce(RECORDS)
    flow.start(application, maxOffsetsPerTrigger=PER_BATCH).wait_done()
    for name, batches in older.items():
        forget([b for b in last_batches(flow.checkpoint / name) if b not in batches[:-1]])
    flow.produce(RECORDS)
    flow.start(application, maxOffsetsPerTrigger=PER_BATCH).wait_done()
    flow.assert_exactly_once()


def test_slots_may_change_between_runs(application: Application, flow: Flow) -> None:
    for slots in (2, 1, 2):
        flow.produce(RECORDS)
        flow.start(application, maxOffsetsPerTrigger=PER_BATCH, slots=slots).wait_done()
        flow.assert_exactly_once()


def test_runs_without_new_records_change_nothing(application: Application, flow: Flow) -> None:
    flow.start(application).wait_done()
    flow.assert_exactly_once()
    flow.produce(RECORDS)
    for _ in range(2):
        flow.start(application).wait_done()
        flow.assert_exactly_once()


def test_a_query_that_waits_for_records_goes_on_when_they_come(
    application: Application, flow: Flow
) -> None:
    query = flow.start(application, interval="50 milliseconds")
    for _ in range(3):
        flow.produce(PER_BATCH)
        flow.wait_committed()
    # Between the last batch and this, Spark has asked for new offsets again and again.
    assert query.stop().error is None
    flow.assert_exactly_once()


def test_a_batch_whose_records_were_all_filtered_out_commits_its_offsets(
    application: Application, flow: Flow
) -> None:
    flow.produce(RECORDS)
    query = flow.start(application, transform="drop_all", maxOffsetsPerTrigger=PER_BATCH)
    query.wait_done()
    assert flow.committed() == flow.ends()
    assert flow.outputs() == []
    flow.start(application).wait_done()
    assert flow.outputs() == []
    flow.assert_nothing_is_open()


def test_a_task_that_leaves_its_input_early_commits_nothing(
    application: Application, flow: Flow
) -> None:
    flow.produce(RECORDS)
    error = flow.start(application, transform="leave_early").wait_end().error
    assert error is not None
    assert "EOSKAFKA_INPUT_NOT_DRAINED" in error
    flow.assert_nothing_is_open()
    assert flow.outputs() == []
    assert flow.committed() == {0: 0, 1: 0}
    # A corrected query goes on where nothing was committed.
    flow.start(application, transform="exclaim_in_pandas").wait_done()
    flow.assert_exactly_once()


def test_null_keys_and_null_values_come_through(application: Application, flow: Flow) -> None:
    records = [(b"k", b"v"), (None, b"v"), (b"k", None), (b"", b"")] * 25
    with closing(KafkaProducer(bootstrap_servers=flow.servers)) as producer:
        for number, (key, value) in enumerate(records):
            producer.send(flow.input, key=key, value=value, partition=number % 2)
    flow.start(application, transform="as_is").wait_done()
    assert Counter((r.key, r.value) for r in flow.outputs()) == Counter(records)
    assert flow.committed() == flow.ends()


def test_headers_come_through_in_their_order(application: Application, flow: Flow) -> None:
    headers = [("a", b"1"), ("b", b""), ("a", b"2"), ("Umlaut-\u00e4", b"\xff\x00")]
    with closing(KafkaProducer(bootstrap_servers=flow.servers)) as producer:
        producer.send(flow.input, key=b"with", value=b"v", headers=headers, partition=0)
        producer.send(flow.input, key=b"without", value=b"v", partition=1)
    flow.start(application, transform="as_is", includeHeaders="true").wait_done()
    found = {}
    with closing(
        KafkaConsumer(bootstrap_servers=flow.servers, isolation_level="read_committed")
    ) as consumer:
        partitions = [TopicPartition(flow.output, p) for p in range(2)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)

        def both() -> bool:
            for records in consumer.poll(200).values():
                found.update({r.key: list(r.headers) for r in records})
            return len(found) == 2

        until(both, "both records", 20)
    assert found == {b"with": headers, b"without": []}


def test_aborted_records_and_control_records_are_passed_over_once(
    application: Application, flow: Flow
) -> None:
    # The offsets of control records and of aborted records are committed too: a partition ends
    # with them, and whoever comes back to them reads nothing twice and waits for nothing.
    flow.produce(PER_BATCH, transaction="commit")
    flow.produce(PER_BATCH, transaction="abort")
    flow.start(application, maxOffsetsPerTrigger=100).wait_done()
    flow.assert_exactly_once()
    flow.start(application).wait_done()
    flow.assert_exactly_once()
    flow.produce(PER_BATCH, transaction="abort")
    flow.start(application).wait_done()
    flow.assert_exactly_once()
    flow.produce(PER_BATCH, partitions=[1], transaction="commit")
    flow.start(application).wait_done()
    flow.assert_exactly_once()


def test_records_of_an_open_transaction_are_read_when_it_has_committed(
    application: Application, flow: Flow
) -> None:
    name = f"{flow.name}-open"
    with closing(KafkaProducer(bootstrap_servers=flow.servers, transactional_id=name)) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for number in range(100):
            producer.send(flow.input, key=b"o%d" % number, value=b"v", partition=0)
        producer.flush()
        flow.produce(PER_BATCH)
        flow.start(application).wait_done()
        # Partition 0 is hidden behind the open transaction, partition 1 is not.
        assert flow.committed() == {0: 0, 1: flow.ends()[1]}
        producer.commit_transaction()
    until_ended(flow.servers, name)
    flow.produced += 100
    flow.start(application).wait_done()
    flow.assert_exactly_once()


def test_partitions_added_while_the_query_runs_are_read_from_their_start(
    application: Application, flow: Flow
) -> None:
    query = flow.start(application, interval="100 milliseconds")
    flow.produce(PER_BATCH)
    flow.wait_committed()
    flow.add_partitions(5)
    flow.produce(RECORDS)
    flow.wait_committed()
    flow.produce(RECORDS)
    flow.wait_committed()
    assert query.stop().error is None
    flow.assert_exactly_once()


def test_one_input_partition_uses_one_producer(
    application: Application, cluster: LocalCluster, tmp_path: Path
) -> None:
    flow = Flow(cluster.bootstrap_servers, tmp_path / "one", partitions=1)
    flow.produce(RECORDS)
    flow.start(application, maxOffsetsPerTrigger=PER_BATCH).wait_done()
    flow.assert_exactly_once()
    assert len(flow.transactional_ids()) == 1


@pytest.mark.slow
def test_a_thousand_input_partitions_use_as_many_producers_as_there_are_slots(
    application: Application, cluster: LocalCluster, tmp_path: Path
) -> None:
    flow = Flow(cluster.bootstrap_servers, tmp_path / "many", partitions=1_000)
    flow.produce(3_000)
    flow.start(application, maxOffsetsPerTrigger=2_000).wait_done()
    flow.produce(3_000)
    flow.start(application).wait_done()
    flow.assert_exactly_once()
    assert len(flow.transactional_ids()) == 2
    with flow.admin() as admin:
        admin.delete_topics([flow.input])


def test_a_second_query_on_the_same_topic_and_group_is_refused_and_disturbs_nothing(
    application: Application, flow: Flow, cluster: LocalCluster, tmp_path: Path
) -> None:
    other = Flow(cluster.bootstrap_servers, tmp_path / "second")
    other.group = flow.group
    other.input = flow.input
    assert "EOSKAFKA_FOREIGN_STAMP" in refused_beside(flow, other, application)


def test_a_second_query_on_another_topic_and_the_same_group_is_refused_and_disturbs_nothing(
    application: Application, flow: Flow, cluster: LocalCluster, tmp_path: Path
) -> None:
    other = Flow(cluster.bootstrap_servers, tmp_path / "second")
    other.group = flow.group
    assert "EOSKAFKA_FOREIGN" in refused_beside(flow, other, application)


def refused_beside(flow: Flow, other: Flow, application: Application) -> str:
    """The error of `other`, started while `flow` runs; `flow` must not notice anything of it."""
    flow.produce(PER_BATCH)
    first = flow.start(application, interval="100 milliseconds")
    flow.wait_committed()
    members = flow.members()
    error = other.start(application).wait_end().error
    assert error is not None
    assert all(member in error for member in members)
    assert flow.members() == members
    flow.produce(PER_BATCH)
    flow.wait_committed()
    assert first.stop().error is None
    flow.assert_exactly_once()
    return error


@pytest.mark.slow
@pytest.mark.parametrize("transform", ["exclaim", "repartitioned"])
def test_a_session_with_the_kryo_serializer(
    start_application: StartApplication, flow: Flow, transform: str
) -> None:
    # What a task reports after its commit is serialized by the session's serializer.
    kryo = "org.apache.spark.serializer.KryoSerializer"
    flow.produce(RECORDS)
    flow.start(
        start_application("local[2]", spark_serializer=kryo), transform=transform
    ).wait_done()
    flow.assert_exactly_once()
