"""Entries of the decision topic that no driver of the query has written.

Every executor of a team may write to the topic. An entry of somebody else's commits nothing and
makes nothing count as written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from harness import forget_last_batch, until
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from pyspark.sql import DataFrame, functions
from pyspark.sql.streaming import DataStreamWriter
from streams import Job, Streams, held

Entry = dict[str, Any]


@pytest.fixture
def job(streams: Streams) -> Job:
    """Ten records in two partitions."""
    return streams.job(records=10)


def topic_of(job: Job) -> str:
    return f"{job.output}-decisions"


def in_epochs(job: Job, plan: Callable[[DataFrame], DataFrame] | None = None) -> DataStreamWriter:
    """The query in epoch scope, with a prefix and a decision topic of its own."""
    return job.writer(plan).options(
        transactionScope="epoch",
        decisionTopic=topic_of(job),
        transactionalIdPrefix=f"x-{job.output}",
    )


def records(job: Job) -> list[Any]:
    """All that is in the job's decision topic, in the order of each partition."""
    with closing(
        KafkaConsumer(
            bootstrap_servers=job.streams.servers,
            isolation_level="read_committed",
            consumer_timeout_ms=2_000,
        )
    ) as consumer:
        numbers = sorted(consumer.partitions_for_topic(topic_of(job)) or ())
        consumer.assign([TopicPartition(topic_of(job), number) for number in numbers])
        consumer.seek_to_beginning()
        return list(consumer)


def last_decision(job: Job) -> tuple[int, bytes, Entry]:
    """Partition, key and value of the query's last decision, which is one record."""
    found = [r for r in records(job) if r.key.startswith(b"decision:") and r.value]
    return found[-1].partition, found[-1].key, json.loads(found[-1].value)


def put(job: Job, partition: int, key: bytes, value: bytes | None) -> None:
    with closing(KafkaProducer(bootstrap_servers=job.streams.servers)) as producer:
        producer.send(topic_of(job), key=key, value=value, partition=partition).get(30)


@contextmanager
def open_transaction(job: Job, name: str) -> Iterator[tuple[int, int]]:
    """Somebody's open transaction with a record for the output; its producer's id and epoch."""
    with closing(
        KafkaProducer(bootstrap_servers=job.streams.servers, transactional_id=name)
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(job.output, key=b"foreign", value=b"99", partition=0).get(30)
        with closing(KafkaAdminClient(bootstrap_servers=job.streams.servers)) as admin:
            described = admin.describe_transactions([name])[name]
        yield described.producer_id, described.producer_epoch
        # It would fail if anybody had ended it.
        producer.abort_transaction()


@pytest.mark.parametrize("name", ["foreign", "x-{output}-{owner}-decisions-w1.0.0"])
def test_a_decision_that_names_somebody_elses_transaction_commits_nothing(
    job: Job, name: str
) -> None:
    job.streams.run(in_epochs(job))
    partition, key, decision = last_decision(job)
    foreign = name.format(output=job.output, owner=key.split(b":")[1].decode())
    forget_last_batch(job.checkpoint)
    with open_transaction(job, f"{foreign}-{job.output}") as (producer_id, epoch):
        forged = json.loads(json.dumps(decision))
        forged["outputs"][0] |= {
            "id": f"{foreign}-{job.output}",
            "producerId": producer_id,
            "producerEpoch": epoch,
        }
        put(job, partition, key, json.dumps(forged).encode())
        error = job.streams.failure(in_epochs(job))
    assert "[EOSKAFKA_DECISION_UNREADABLE]" in error, error
    assert "is no transactional id of its writer 0" in error
    assert job.written() == [*range(10)]
    put(job, partition, key, json.dumps(decision).encode())
    job.streams.run(in_epochs(job))
    assert job.written() == [*range(10)]


def test_a_decision_without_a_plan_does_not_make_an_open_batch_count_as_written(
    job: Job,
) -> None:
    job.streams.run(in_epochs(job))
    job.send(10)

    def fails(rows: DataFrame) -> DataFrame:
        wrong = functions.expr("if(value = '10', raise_error('on purpose'), value)")
        return rows.select("key", wrong.alias("value"))

    assert "on purpose" in job.streams.failure(in_epochs(job, fails))
    partition, key, decision = last_decision(job)
    forged = {**decision, "epoch": 1, "outputs": [], "plan": {"before": "", "of": ""}}
    put(job, partition, key, json.dumps(forged).encode())
    error = job.streams.failure(in_epochs(job))
    assert "[EOSKAFKA_DECISION_OTHER_PLAN]" in error, error
    put(job, partition, key, json.dumps(decision).encode())
    job.streams.run(in_epochs(job))
    assert job.written() == [*range(11)]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda entry: {**entry, "epoch": "0"}, "epoch is no number"),
        (lambda entry: {**entry, "parts": 2}, "does not belong to the others"),
        (lambda entry: {**entry, "outputs": None}, "outputs is no list"),
        (lambda entry: {**entry, "run": 10**20}, "run is no number"),
        (lambda entry: {**entry, "run": 10**17}, "and the last one is"),
        (lambda entry: {}, "version is no number"),
    ],
)
def test_an_entry_that_is_no_decision_is_named(
    job: Job, change: Callable[[Entry], Entry], problem: str
) -> None:
    job.streams.run(in_epochs(job))
    partition, key, decision = last_decision(job)
    put(job, partition, key, json.dumps(change(decision)).encode())
    error = job.streams.failure(in_epochs(job))
    assert "[EOSKAFKA_DECISION_UNREADABLE]" in error, error
    assert problem in error, error
    assert key.decode().rpartition(":")[0] in error, error


def test_an_entry_that_is_removed_as_its_error_says_stops_no_start(job: Job) -> None:
    job.streams.run(in_epochs(job))
    partition, key, decision = last_decision(job)
    owner = key.split(b":")[1].decode()
    put(job, partition, f"decision:{owner}:x:0".encode(), b"nobody's")
    job.send(10)
    error = job.streams.failure(in_epochs(job))
    assert "[EOSKAFKA_DECISION_UNREADABLE]" in error, error
    named = re.search(r"an entry with the key (\S+) ", error)
    assert named, error
    put(job, partition, named[1].encode(), None)
    # Without its real decision the query does not go on either.
    put(job, partition, key, None)
    error = job.streams.failure(in_epochs(job))
    assert "[EOSKAFKA_DECISIONS_GONE]" in error, error
    put(job, partition, key, json.dumps(decision).encode())
    job.streams.run(in_epochs(job))
    assert job.written() == [*range(11)]


def test_a_strangers_id_that_ends_like_ours_stops_no_start(job: Job) -> None:
    job.streams.run(in_epochs(job))
    owner = last_decision(job)[1].split(b":")[1].decode()
    job.send(10)
    stranger = f"x-{job.output}-{owner}-w{10**19}.0.0"
    with open_transaction(job, stranger):
        job.streams.run(in_epochs(job))
        # The stranger's transaction hides what comes after it from readers.
    assert job.written() == [*range(11)]


def test_presence_records_are_removed_with_the_next_decision(job: Job) -> None:
    for partitions in (0, 1), (0, 1), (0,):
        for partition in partitions:
            job.send(*range(100), partition=partition)
        job.streams.run(in_epochs(job))
    kept = {r.key: r.value for r in records(job) if r.key.startswith(b"marker:")}
    decision = last_decision(job)[2]
    (last,) = [output["id"] for output in decision["outputs"] if "id" in output]
    # Those of the first two batches are gone, of the writer without rows in the third as well.
    assert len(kept) == 5
    present = [key for key, value in kept.items() if value is not None]
    assert len(present) == 1, present
    assert present[0].endswith(f":{decision['epoch']}:{last}".encode())


def test_a_writer_that_had_rows_opens_its_producer_before_its_first_row(job: Job) -> None:
    job.streams.run(in_epochs(job))
    ends = job.offsets()
    for partition in ends:
        job.send(*range(100), partition=partition)

    def rests_at_its_first_row(rows: DataFrame) -> DataFrame:
        return held(rows.where("partition = 0"), job.output, at=ends[0])

    query = job.streams.start_held(in_epochs(job, rests_at_its_first_row), job.output)
    until(lambda: len(writers(job)) == 4, "both writers of the second run", 2)
    assert query.awaitTermination(60)
    # The other one had none this time.
    until(lambda: not producers(job), "the end of its producer", 20)


def writers(job: Job) -> set[str]:
    """The transactional ids of all runs' writers that the brokers know."""
    listed = job.streams.admin.list_transactions().values()
    ids = {each.transactional_id for broker in listed for each in broker}
    return {name for name in ids if re.match(rf"x-{job.output}-.*-w\d+\.", name)}


def producers(job: Job) -> list[str]:
    """The threads of the job's producers."""
    jvm: Any = job.streams.spark._jvm
    names = [thread.getName() for thread in jvm.Thread.getAllStackTraces().keySet()]
    return [name for name in names if f"x-{job.output}" in name]
