"""Error conditions that no other file is about, each by its real cause.

What a condition is called and where users read of it is in `docs/errors.md`; that each one is
raised by some test is checked in `tests/unit/test_spec.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from eoskafka.cluster import LocalCluster
from harness import Flow, StartApplication, hidden, until
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.structs import OffsetAndMetadata
from pyspark.sql import DataFrame, functions
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery
from sessions import NO_GENERATED_CODE, settings
from streams import LARGE, QUERY_S, SMALL_FETCHES, Job, Streams, held, kv

# Longer than a start waits for a transaction that hides what it has to read: 60 s, and as long for
# what it has decided.
PATIENT_S = 180


@pytest.fixture
def job(streams: Streams) -> Job:
    """Ten records in two partitions."""
    return streams.job(records=10)


def in_epochs(
    job: Job, plan: Callable[[DataFrame], DataFrame] | None = None, **sink: str
) -> DataStreamWriter:
    """The query in epoch scope, with a prefix and a decision topic of its own."""
    given = {
        "transactionScope": "epoch",
        "decisionTopic": decisions_of(job),
        "transactionalIdPrefix": f"x-{job.output}",
    }
    return job.writer(plan).options(**{**given, **sink})


def decisions_of(job: Job) -> str:
    """Its decision topic."""
    return f"{job.output}-decisions"


def decision_partitions(job: Job) -> list[TopicPartition]:
    """Where decisions may be; in between are the markers of writers."""
    (topic,) = job.streams.admin.describe_topics([decisions_of(job)])
    numbers = range(0, len(topic["partitions"]), 2)
    return [TopicPartition(decisions_of(job), number) for number in numbers]


def resting(job: Job, writer: DataStreamWriter) -> StreamingQuery:
    """A query whose rows are `held` with the output's name, once its first task rests."""
    return job.streams.start_held(writer, job.output)


def error_of(query: StreamingQuery, timeout_s: int = QUERY_S) -> str:
    """How a query has failed."""
    until(lambda: not query.isActive, "the end of the query", timeout_s)
    return str(query.exception())


# ---- batches


def test_a_batch_without_anything_to_read(streams: Streams) -> None:
    topic = streams.topic(records=2)
    for options, at in (
        ({"startingOffsets": "latest"}, "startingOffsets=latest"),
        ({"endingOffsets": "earliest"}, "endingOffsets=earliest"),
    ):
        with pytest.raises(Exception, match="EOSKAFKA_BATCH_BOUND") as error:
            streams.batch(topic, options).collect()
        assert at in str(error.value)


def test_a_batch_from_an_offset_that_is_gone(streams: Streams) -> None:
    topic = streams.topic(partitions=1, records=2)
    at = json.dumps({topic: {"0": 7}})
    with pytest.raises(Exception, match="EOSKAFKA_BATCH_OUT_OF_RANGE") as error:
        streams.batch(topic, {"startingOffsets": at}).collect()
    assert f"ending offset of {topic}-0 is 7" in str(error.value)
    assert "take 2 instead" in str(error.value)


def test_a_batch_write_that_would_replace_a_topic(streams: Streams) -> None:
    output = streams.topic()
    rows = streams.spark.createDataFrame([("v",)], ["value"])
    with pytest.raises(Exception, match="EOSKAFKA_SAVE_MODE") as error:
        streams.save(rows, output, mode="overwrite")
    assert "save mode Overwrite" in str(error.value)
    assert streams.values(output) == []


# ---- files of the checkpoint


@pytest.mark.parametrize(
    "file",
    [
        "sources/0/0",
        "sources/0/eoskafka-identity.json",
        "sources/0/eoskafka-topic-ids.json",
        "eoskafka-sink.json",
    ],
)
def test_a_file_that_is_not_as_it_was_written_is_refused(job: Job, file: str) -> None:
    job.streams.run(in_epochs(job))
    job.send(10)
    place = job.checkpoint / file
    kept = place.read_bytes()
    # Hadoop's own, of the former text.
    place.with_name(f".{place.name}.crc").unlink(missing_ok=True)
    # The first is what a host leaves that went down before the file was on its disk.
    for damaged in (b"", b"null", b"[]", b"{}", kept[: len(kept) // 2]):
        place.write_bytes(damaged)
        error = job.streams.failure(in_epochs(job))
        assert "[EOSKAFKA_CHECKPOINT_UNREADABLE]" in error, (damaged, error)
        assert file in error
    assert job.written() == [*range(10)]
    place.write_bytes(kept)
    job.streams.run(in_epochs(job))
    assert job.written() == [*range(11)]


# ---- records


def test_a_header_without_a_key(job: Job) -> None:
    header = "array(struct(cast(null as string) as key, value as value)) as headers"
    error = job.streams.failure(job.writer(lambda rows: rows.selectExpr("value", header)))
    assert "[EOSKAFKA_NULL_HEADER]" in error
    assert job.written() == []


def test_a_timestamp_in_microseconds(job: Job) -> None:
    topic = f"{job.input}-micros"
    job.streams.create(topic, 1, {"message.timestamp.after.max.ms": str(2**63 - 1)})
    micros = 1_763_000_000_000_000_0
    job.streams.send(topic, 1, at_ms=micros)
    error = job._replace(input=topic).failure()
    assert "[EOSKAFKA_TIMESTAMP_TOO_LARGE]" in error
    assert f"offset 0 of {topic}-0 has the timestamp {micros}" in error
    assert job.written() == []


# ---- settings of an epoch's transactions, and of its decisions


@pytest.mark.parametrize(
    ("timeout", "wanted"),
    [
        ("3600000", ["EOSKAFKA_TRANSACTION_TIMEOUT_TOO_LONG", "is 900000 ms"]),
        ("1000", ["EOSKAFKA_TRANSACTION_TIMEOUT_TOO_SHORT", "is 1000; in epoch scope"]),
    ],
)
def test_a_timeout_that_is_none_for_an_epoch(job: Job, timeout: str, wanted: list[str]) -> None:
    writer = in_epochs(job, None, **{"kafka.transaction.timeout.ms": timeout})
    error = job.streams.failure(writer)
    assert [text for text in wanted if text not in error] == [], error
    assert job.written() == []


def test_a_decision_topic_that_forgets(job: Job) -> None:
    job.streams.create(decisions_of(job), 8, {"cleanup.policy": "delete"})
    error = job.streams.failure(in_epochs(job))
    assert "[EOSKAFKA_DECISION_TOPIC_UNFIT]" in error
    assert f"{decisions_of(job)} could lose a decision: its cleanup.policy is not" in error
    assert job.written() == []


def test_decisions_are_looked_for_where_they_are(job: Job) -> None:
    job.streams.run(in_epochs(job))
    error = job.streams.failure(in_epochs(job, decisionTopic=f"{job.output}-other"))
    assert "[EOSKAFKA_DECISIONS_ELSEWHERE]" in error
    assert f"decisionTopic was '{decisions_of(job)}'" in error
    assert f"is '{job.output}-other' now" in error
    error = job.streams.failure(in_epochs(job, transactionalIdPrefix=f"y-{job.output}"))
    assert "[EOSKAFKA_DECISION_ID_CHANGED]" in error
    assert f"were written with the transactional id x-{job.output}-" in error
    job.send(10)
    job.streams.run(in_epochs(job))
    assert job.written() == [*range(11)]


def test_a_decision_of_a_newer_version(job: Job) -> None:
    job.streams.run(in_epochs(job))
    kept = json.loads((job.checkpoint / "eoskafka-sink.json").read_text(encoding="utf-8"))
    entry = json.dumps({"version": 99, "run": 1, "decisionId": "d"}).encode()
    with closing(KafkaProducer(bootstrap_servers=job.streams.servers)) as producer:
        for topic, number in decision_partitions(job):
            producer.send(topic, key=f"run:{kept['id']}".encode(), value=entry, partition=number)
    error = job.streams.failure(in_epochs(job))
    assert "[EOSKAFKA_NEWER_DECISIONS]" in error
    assert decisions_of(job) in error
    assert '"version":99' in error


def test_a_driver_whose_decisions_another_one_makes(job: Job) -> None:
    query = resting(job, in_epochs(job, plan=lambda rows: held(rows, job.output)))
    listed = job.streams.admin.list_transactions().values()
    ids = {each.transactional_id for some in listed for each in some}
    (decider,) = (i for i in ids if i.startswith(f"x-{job.output}") and i.endswith("-decisions"))
    # What another driver does first.
    with closing(
        KafkaProducer(bootstrap_servers=job.streams.servers, transactional_id=decider)
    ) as another:
        another.init_transactions()
    error = error_of(query)
    assert "[EOSKAFKA_DECISION_FENCED]" in error
    assert decider in error
    assert job.written() == []
    job.streams.run(in_epochs(job))
    assert job.written() == [*range(10)]


@pytest.mark.slow
def test_decisions_that_a_transaction_hides(job: Job) -> None:
    job.streams.run(in_epochs(job))
    job.send(10)
    with hidden(job.streams.servers, decision_partitions(job)):
        error = error_of(job.streams.start(in_epochs(job)), PATIENT_S)
    assert "[EOSKAFKA_DECISIONS_UNREADABLE]" in error
    assert "an open transaction hides" in error
    assert job.written() == [*range(10)]
    job.streams.run(in_epochs(job))
    assert job.written() == [*range(11)]


# ---- offsets


@pytest.mark.slow
def test_offsets_that_a_transaction_keeps_unstable(job: Job) -> None:
    job.run()
    there = job.streams.committed(job.group, job.input)
    with closing(
        KafkaProducer(
            bootstrap_servers=job.streams.servers,
            transactional_id=f"{job.group}-another",
            transaction_timeout_ms=600_000,
        )
    ) as another:
        another.init_transactions()
        another.begin_transaction()
        offsets = {TopicPartition(job.input, p): each for p, each in there.items()}
        another.send_offsets_to_transaction(offsets, job.group)
        error = error_of(job.streams.start(job.writer()), PATIENT_S)
        another.abort_transaction()
    assert "[EOSKAFKA_OFFSETS_UNSTABLE]" in error
    assert job.group in error
    job.run()
    assert job.written() == [*range(10)]


def failing(rows: DataFrame, reached: str) -> DataFrame:
    """Rows that are `held`; then their task fails."""
    fails = "if(value = '0', raise_error('on purpose'), value) as value"
    return held(rows, reached).selectExpr("key", fails)


def test_an_offset_that_somebody_sets_between_two_attempts(job: Job) -> None:
    query = resting(job, job.writer(lambda rows: failing(rows, job.output)))
    # As Kafka's tools set it, which a group with a member does not let them.
    changed = {TopicPartition(job.input, p): OffsetAndMetadata(2, "", -1) for p in (0, 1)}
    name = f"{job.group}-another"
    with closing(
        KafkaProducer(bootstrap_servers=job.streams.servers, transactional_id=name)
    ) as another:
        another.init_transactions()
        another.begin_transaction()
        another.send_offsets_to_transaction(changed, job.group)
        another.commit_transaction()
    error = error_of(query)
    assert "[EOSKAFKA_OFFSETS_CHANGED]" in error
    assert f"in group '{job.group}' is 2" in error
    assert "planned from 0" in error
    assert job.written() == []


class DriverAssignor(RangePartitionAssignor):  # type: ignore[misc]
    """The one name that brokers accept beside a driver."""

    name = "eoskafka-exclusive"


def test_a_driver_whose_place_in_the_group_is_taken_while_a_batch_runs(job: Job) -> None:
    query = resting(job, job.writer(lambda rows: held(rows, job.output)))
    (instance,) = job.streams.members(job.group)
    with closing(
        KafkaConsumer(
            job.input,
            bootstrap_servers=job.streams.servers,
            group_id=job.group,
            group_instance_id=instance,
            partition_assignment_strategy=[DriverAssignor],
            enable_auto_commit=False,
        )
    ) as another:
        until(lambda: another.poll(100) is not None and another.assignment(), "its join", 30)
        error = error_of(query)
    assert "[EOSKAFKA_FENCED_BY_GROUP]" in error
    assert f"Group '{job.group}' no longer belongs to this driver" in error
    assert f"it is now owned by {instance}-" in error
    assert job.written() == []
    job.leave()
    job.run()
    assert job.written() == [*range(10)]


def failing_at(number: int) -> Callable[[DataFrame], DataFrame]:
    """A plan that rests, so that other tasks are done, and fails at this value."""
    fails = f"""
        if(cast(value as string) = '{number}',
           concat(java_method('java.lang.Thread', 'sleep', cast(2000 as bigint)),
                  raise_error('no such number')),
           cast(value as string))
    """
    return lambda rows: rows.selectExpr("key", f"{fails} as value")


def counted(rows: DataFrame) -> DataFrame:
    """With state."""
    return rows.groupBy("key").count().selectExpr("key", "cast(count as string) value")


def test_state_that_would_miss_what_a_part_of_its_batch_has_done(job: Job) -> None:
    with_state = job.writer(counted).outputMode("update")
    assert "no such number" in job.streams.failure(job.writer(failing_at(1)))
    assert job.written() == [0, 2, 4, 6, 8]
    error = job.streams.failure(with_state)
    assert "[EOSKAFKA_STATE_BEHIND_GROUP]" in error
    assert f"is no longer at offset 0 of {job.input}-0" in error
    # What it says is to be done: the batch as it was; then state, with a checkpoint of its own.
    job.run()
    assert job.written() == [*range(10)]
    job.send(10)
    begin = json.dumps({job.input: {str(p): offset for p, offset in job.offsets().items()}})
    other = job._replace(group=job.streams.group(), checkpoint=job.streams.checkpoint())
    stateful = other.writer(counted, startingOffsets=begin).outputMode("update")
    job.streams.run(stateful)
    assert job.written() == sorted([*range(10), 1])


def test_a_plan_that_shuffles_only_when_it_runs_is_not_shared(job: Job) -> None:
    names = job.streams.spark.createDataFrame([(f"k{n}",) for n in range(10)], ["name"])

    def writer(hint: str) -> DataStreamWriter:
        on = functions.expr("cast(key as string) = name")
        return job.writer(lambda rows: kv(kv(rows).join(names.hint(hint), on)), ownership="shared")

    error = job.streams.failure(writer("merge"))
    assert "[EOSKAFKA_SHARED_BATCH_REFUSED]" in error
    assert job.group in error
    assert job.written() == []
    job.streams.run(writer("broadcast"))
    assert job.written() == [*range(10)]


def test_a_join_that_leaves_records_unread_is_not_shared(job: Job) -> None:
    spark = job.streams.spark
    nothing = functions.broadcast(spark.range(1).where("id > 5").selectExpr("string(id) AS name"))
    on = functions.expr("cast(key as string) = name")
    joined = job.writer(lambda rows: kv(rows.join(nothing, on)), ownership="shared")
    with settings(spark, NO_GENERATED_CODE):
        error = job.streams.failure(joined)
    assert "[EOSKAFKA_SHARED_BATCH_REFUSED]" in error
    assert "no row passes its join" in error
    job.run(ownership="shared")
    assert job.written() == [*range(10)]


# ---- time


def test_no_record_comes_in_time(job: Job, cluster: LocalCluster, spark_folder: Path) -> None:
    log = spark_folder / "spark.log"
    logged = log.stat().st_size
    topic = job.streams.topic(partitions=1)
    job.streams.send_values(topic, *(f"{n}{LARGE}" for n in range(200)))

    def to_nowhere(options: dict[str, int]) -> DataStreamWriter:
        rows = held(job.streams.source(topic, {**options, **SMALL_FETCHES}), job.output)
        writer = rows.writeStream.format("noop").trigger(availableNow=True)
        return writer.option("checkpointLocation", str(job.checkpoint))

    query = resting(job, to_nowhere({"kafkaConsumer.pollTimeoutMs": 2_000}))
    cluster.brokers[0].pause()
    said = b"[EOSKAFKA_POLL_TIMEOUT] No record arrived within 2000 ms"
    try:
        until(lambda: said in log.read_bytes()[logged:], "what its attempt says", QUERY_S)
        query.stop()
    finally:
        cluster.brokers[0].resume()
    # More than two seconds may pass until the broker serves again: its session was over.
    progress = job.streams.run(to_nowhere({})).lastProgress
    assert progress is not None
    assert progress["numInputRows"] == 200


def test_a_transaction_that_comes_near_its_timeout(job: Job) -> None:
    # Its first record is sent when it comes to rest.
    writer = job.writer(lambda rows: held(rows, job.output, at=1))
    error = job.streams.failure(writer.option("kafka.transaction.timeout.ms", "3600"))
    assert "[EOSKAFKA_TRANSACTION_NEAR_TIMEOUT]" in error
    assert "ms of its 3600 ms" in error


# ---- brokers that do not answer


@pytest.mark.slow
def test_a_group_that_cannot_be_joined(
    start_application: StartApplication, flow: Flow, cluster: LocalCluster
) -> None:
    application = start_application("local[2]")
    flow.produce(10)
    query = flow.reach(application, "before-join", "stop")
    cluster.brokers[0].pause()
    try:
        application.resume()
        error = query.wait_end(PATIENT_S).error
    finally:
        cluster.brokers[0].resume()
    assert "[EOSKAFKA_JOIN_TIMEOUT]" in str(error), error
    assert f"group '{flow.group}' within 60 s" in str(error)
    flow.start(application).wait_done()
    flow.assert_exactly_once()
