"""Logs that an unclean leader election has cut, and that have grown again with other records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event
from typing import TypeVar

import pytest
from eoskafka.audit import UndecidedError
from eoskafka.cluster import LocalCluster
from harness import until
from harness.segments import transactions
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import KafkaError
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery
from streams import QUERY_S, Job, Streams, held, kv

T = TypeVar("T")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

UNCLEAN = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
# Longer than all that happens to the log meanwhile.
REST_MS = 60_000


@contextmanager
def of_three_brokers(streams: Streams, folder: Path) -> Iterator[tuple[LocalCluster, Streams]]:
    """A cluster whose followers count as behind after three seconds, and queries on it."""
    with (
        LocalCluster(
            brokers=3, data_dir=folder / "own", properties={"replica.lag.time.max.ms": "3000"}
        ) as own,
        closing(Streams(streams.spark, own.bootstrap_servers, folder, "eoskafka")) as there,
    ):
        yield own, there


def create(streams: Streams, name: str, *brokers: int) -> str:
    """A topic with one partition, whose leader is the first of these brokers."""
    # A client of its own: one that has seen brokers die and come back may not know them all.
    client = patiently(lambda: KafkaAdminClient(bootstrap_servers=streams.servers))
    with closing(client) as admin:
        admin.create_topics(
            [NewTopic(name, replica_assignments={0: [*brokers]}, topic_configs=UNCLEAN)]
        )
        admin.wait_for_topics([name])
    return name


def send(streams: Streams, topic: str, numbers: range) -> None:
    with closing(KafkaProducer(bootstrap_servers=streams.servers, acks="all")) as producer:
        arriving = [producer.send(topic, value=str(n).encode(), partition=0) for n in numbers]
        for arrived in arriving:
            arrived.get(timeout=60)


def wait_led(streams: Streams, topic: str, broker: int) -> None:
    def is_led() -> bool:
        client = patiently(lambda: KafkaAdminClient(bootstrap_servers=streams.servers))
        with closing(client) as admin:
            (described,) = patiently(lambda: admin.describe_topics([topic]))
        return bool(described["partitions"][0]["leader_id"] == broker)

    until(is_led, f"broker {broker} as the leader of {topic}", QUERY_S)


def written(job: Job) -> list[int]:
    """What is in the output."""
    return patiently(job.written)


def offsets(job: Job) -> dict[int, int]:
    """The group's."""

    def ask() -> dict[int, int]:
        # A client of its own: see `create`.
        with closing(KafkaAdminClient(bootstrap_servers=job.streams.servers)) as admin:
            found = admin.list_group_offsets([job.group])[job.group]
        return {p.partition: each.offset for p, each in found.items() if p.topic == job.input}

    return patiently(ask)


def readers_of(topic: str, log: Path) -> int:
    """How many consumers in this JVM have been given the topic's only partition."""
    return log.read_text(encoding="utf-8").count(f"Assigned to partition(s): {topic}-0")


def patiently(ask: Callable[[], T]) -> T:
    """What the brokers answer. One that was just killed may be the first one that is asked."""

    def answer() -> tuple[T] | None:
        try:
            return (ask(),)
        except (KafkaError, UndecidedError):
            return None

    return until(answer, "an answer of the brokers", QUERY_S)[0]


def test_what_an_unclean_election_has_put_in_the_place_of_read_records_is_read(
    streams: Streams, tmp_path: Path, spark_folder: Path
) -> None:
    log = spark_folder / "spark.log"
    with of_three_brokers(streams, tmp_path) as (own, there):
        first, second, third = own.brokers

        def job(topic: str) -> Job:
            create(there, topic, 1, 2)
            send(there, topic, range(50))
            output = create(there, f"of-{topic[:4]}", 3)
            return Job(there, topic, output, there.group(), there.checkpoint())

        resting, running = job("resting"), job("running")
        # So that Kafka's own topics are there when a broker is away.
        running.run()
        second.kill()
        # It waits until the follower is not in sync any more.
        send(there, resting.input, range(50, 100))
        send(there, running.input, range(50, 100))
        pattern = {
            "kafka.group.id": running.group,
            "subscribePattern": f"a?{running.input}",
            "failOnDataLoss": "false",
            "slots": "2",
        }
        writer = there.sink(kv(there.source(options=pattern)), running.output, running.checkpoint)
        goes_on = there.start(writer.trigger(processingTime="100 milliseconds"))
        until(lambda: written(running) == [*range(100)], "the first records", QUERY_S)
        options = {"failOnDataLoss": "false", "kafka.group.id": resting.group}
        rows = held(there.source(resting.input, options), resting.input, at=99, rest_ms=REST_MS)
        writer = there.sink(
            rows, resting.output, resting.checkpoint, {"kafka.transaction.timeout.ms": 300_000}
        ).trigger(processingTime="100 milliseconds")
        waits = there.start_held(writer, resting.input)

        # The follower, which has half of the records, becomes the leader.
        first.kill()
        second.start()
        wait_led(there, resting.input, 2)
        wait_led(there, running.input, 2)
        send(there, resting.input, range(1_050, 1_120))
        # This one sees the log while it is short.
        until(lambda: offsets(running) == {0: 50}, "the offset of the cut log", QUERY_S)
        former = readers_of(running.input, log)
        send(there, running.input, range(1_050, 1_060))
        until(lambda: written(running)[-1] == 1_059, "records of the cut log", QUERY_S)
        # One that rests, there or elsewhere, may hold records of the log as it was.
        assert readers_of(running.input, log) > former
        # A partition that comes before the others when slots are dealt out.
        create(there, f"a{running.input}", 3)
        send(there, running.input, range(1_060, 1_120))
        both = [*range(100), *range(1_050, 1_120)]
        until(lambda: written(running) == both, "the later records", QUERY_S)
        send(there, f"a{running.input}", range(2_000, 2_010))
        goes_on.processAllAvailable()
        goes_on.stop()
        assert written(running) == [*both, *range(2_000, 2_010)]
        # A late attempt of a batch before would have the same transactional id as those after it.
        ended = transactions(third.folder, running.output, running.group, running.input)
        assert len({each.producer for each in ended if 0 in each.offsets}) == 1

        # This one comes when the log is longer than what it has read.
        until(lambda: not waits.isActive, "the end of the query", 2 * REST_MS // 1_000)
        assert "EOSKAFKA_LOG_TRUNCATED" in str(waits.exception())
        assert "was cut to offset 50" in str(waits.exception())
        assert written(resting) == [*range(100)]
        there.succeed(resting.writer(failOnDataLoss="false"))
        assert written(resting) == both


@pytest.mark.parametrize("meets", ["a run", "a start", "a batch"])
def test_a_function_reads_on_where_a_log_was_cut(
    streams: Streams, tmp_path: Path, meets: str
) -> None:
    """By Spark's log, the query would go on where the log ended before."""
    read: list[int] = []
    fails = False
    goes_on = Event()
    goes_on.set()

    def take(batch: DataFrame, number: int) -> None:
        if fails:
            raise ValueError("a batch fails")
        assert goes_on.wait(QUERY_S)
        read.extend(int(row.value) for row in batch.collect())

    with of_three_brokers(streams, tmp_path) as (own, there):
        first, second, _ = own.brokers
        topic, other = create(there, "cut", 1, 2), create(there, "other", 3)
        checkpoint = there.checkpoint()
        options = {"failOnDataLoss": "false", "minOffsetsPerTrigger": "30"}
        rows = there.source(f"{topic},{other}", options)

        def start() -> StreamingQuery:
            return there.start(
                rows.selectExpr("CAST(value AS STRING) AS value")
                .writeStream.foreachBatch(take)
                .option("checkpointLocation", str(checkpoint))
                .trigger(processingTime="100 milliseconds")
            )

        send(there, topic, range(50))
        query = start()
        until(lambda: len(read) == 50, "the first records", QUERY_S)
        query.processAllAvailable()
        query.stop()
        # The follower has these, and not those that come next.
        send(there, topic, range(50, 80))
        second.kill()
        send(there, topic, range(80, 120))
        fails = meets == "a batch"
        query = start()
        if fails:
            until(lambda: not query.isActive, "the end of the query", QUERY_S)
            fails = False
        else:
            until(lambda: len(read) == 120, "the records of the leader", QUERY_S)
            query.processAllAvailable()
        # Too few for a batch, but one must be planned all the same.
        send(there, other, range(2_000, 2_005))
        if meets == "a start":
            query.stop()
        first.kill()
        second.start()
        wait_led(there, topic, 2)
        if meets == "a batch":
            # Until the log is longer than the batch was to read.
            goes_on.clear()
        if meets != "a run":
            query = start()
        name = "cut" if meets == "a batch" else "restarted"
        noted = checkpoint / "sources" / "0" / f"eoskafka-{name}.json"
        until(noted.exists, "the cut", QUERY_S, lambda: str(read))
        send(there, topic, range(1_080, 1_150))
        goes_on.set()
        before = range(80 if meets == "a batch" else 120)
        everything = [*before, *range(1_080, 1_150), *range(2_000, 2_005)]
        until(lambda: len(read) >= len(everything), "the later records", QUERY_S, lambda: str(read))
        query.processAllAvailable()
        query.stop()
        assert sorted(read) == everything


def test_a_log_that_was_cut_behind_an_epoch_is_read_from_there(
    streams: Streams, tmp_path: Path
) -> None:
    with of_three_brokers(streams, tmp_path) as (own, there):
        first, second, _ = own.brokers
        topic = create(there, "cut", 1, 2)
        send(there, topic, range(50))
        job = Job(there, topic, create(there, "of-cut", 3), there.group(), there.checkpoint())

        def run() -> None:
            rows = there.source(topic, {"kafka.group.id": job.group, "failOnDataLoss": "false"})
            sink = {"transactionScope": "epoch"}
            there.run(there.sink(kv(rows), job.output, job.checkpoint, sink))

        run()
        second.kill()
        send(there, topic, range(50, 100))
        run()
        assert offsets(job) == {0: 100}
        first.kill()
        second.start()
        wait_led(there, topic, 2)
        # Spark logs a batch that ends where the log now does. The next start finds this there.
        run()
        assert offsets(job) == {0: 50}
        send(there, topic, range(1_050, 1_060))
        run()
        assert written(job) == [*range(100), *range(1_050, 1_060)]
        assert offsets(job) == {0: 60}
