"""Topics and partitions that come and go under a running query."""

from __future__ import annotations

import itertools
import json
import random
import re
import time
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from eoskafka import offsets
from eoskafka.audit import UndecidedError
from eoskafka.errors import OffsetsError
from faults.cluster import FaultyCluster
from faults.proxy import Api
from foreach import run_rows
from harness import forget, until
from harness.functions import Function
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery
from streams import LARGE, QUERY_S, SMALL_FETCHES, Streams, held, kv

SECONDS = 120
SETTLED_S = 120
NAMES = 6
RECORDS = 400
FEW = 20


class Topics:
    """Topics of one stem, and what each of their lives has got.

    A record's value is `<topic>#<life>/<number>`: a topic that was deleted and created again has
    another life.
    """

    def __init__(self, streams: Streams, stem: str, seed: int) -> None:
        self._streams = streams
        self._random = random.Random(seed)
        self._names = [f"{stem}-{n}" for n in range(NAMES)]
        self._lives = itertools.count(1)
        self._numbers = itertools.count()
        self._partitions: dict[str, int] = {}
        self._life: dict[str, int] = {}
        # By topic and life.
        self.sent: dict[tuple[str, int], set[str]] = {}
        self.steps: Counter[str] = Counter()

    def step(self) -> None:
        """Do one thing; records are sent more often than anything else."""
        there = sorted(self._partitions)
        missing = sorted(set(self._names) - set(there))
        kinds = [*(["send"] * 12 if there else []), *(["create"] * 2 if missing else [])]
        kinds += ["add", "delete"] if len(there) > 2 else []
        kind = self._random.choice(kinds)
        self.steps[kind] += 1
        if kind == "create":
            self.create(self._random.choice(missing))
        elif kind == "send":
            self._send(self._random.choice(there))
        elif kind == "add":
            self._add(self._random.choice(there))
        else:
            self._delete(self._random.choice(there))

    def create(self, name: str) -> None:
        partitions = self._random.randint(1, 3)
        self._streams.create(name, partitions)
        self._partitions[name] = partitions
        self._life[name] = next(self._lives)
        self.sent[name, self._life[name]] = set()

    def _add(self, name: str) -> None:
        self._partitions[name] += 1
        wanted = {name: self._partitions[name]}
        self._streams.admin.create_partitions(wanted)

    def _delete(self, name: str) -> None:
        del self._partitions[name]
        self._streams.delete(name)

    def _send(self, name: str) -> None:
        sent = self.sent[name, self._life[name]]
        with closing(
            KafkaProducer(bootstrap_servers=self._streams.servers, enable_idempotence=True)
        ) as producer:
            arriving = []
            for _ in range(self._random.randint(1, 60)):
                value = f"{name}#{self._life[name]}/{next(self._numbers)}"
                arriving.append((value, producer.send(name, value=value.encode())))
            producer.flush()
            sent.update(value for value, arrived in arriving if arrived.get(timeout=30))

    def living(self) -> set[str]:
        """All records of the lives that topics have now."""
        return set().union(*(self.sent[name, self._life[name]] for name in self._partitions))

    def ever(self) -> set[str]:
        """All records."""
        return set().union(*self.sent.values())


def repartitioned(rows: DataFrame) -> DataFrame:
    return kv(rows).repartition(2)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("plan", [kv, repartitioned])
def test_topics_and_partitions_come_and_go(
    streams: Streams, plan: Callable[[DataFrame], DataFrame]
) -> None:
    stem, output, checkpoint = streams.topic(), streams.topic(), streams.checkpoint()
    topics = Topics(streams, f"{stem}-come", seed=7)
    topics.create(f"{stem}-come-0")
    failures: list[str] = []
    options: dict[str, Any] = {
        "subscribePattern": f"{stem}-come-.*",
        "failOnDataLoss": "false",
        "maxOffsetsPerTrigger": 200,
        "kafkaConsumer.pollTimeoutMs": 10_000,
    }

    def start() -> StreamingQuery:
        rows = plan(streams.source(options=options))
        writer = streams.sink(rows, output, checkpoint).trigger(processingTime="50 milliseconds")
        return streams.start(writer)

    def revived(query: StreamingQuery) -> StreamingQuery:
        if query.isActive:
            return query
        failures.append(str(query.exception()))
        return start()

    query = start()
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        try:
            topics.step()
        except KafkaError as error:
            raise AssertionError(f"the test's own client: {error!r}") from error
        query = revived(query)

    wanted, seen = topics.living(), Counter[str]()

    def caught_up() -> bool:
        nonlocal query, seen
        query = revived(query)
        with suppress(UndecidedError):  # a transaction is open longer than the reader waits
            seen = Counter(streams.values(output))
        return wanted <= set(seen)

    report = lambda: f"{len(wanted - set(seen))} are missing; {failures}"  # noqa: E731
    until(caught_up, "all records of the topics that are there", SETTLED_S, report)
    query.stop()
    seen = Counter(streams.values(output))
    assert {value: n for value, n in seen.items() if n > 1} == {}
    assert set(seen) <= topics.ever()
    assert failures == []
    assert topics.steps["delete"] > 5
    print(topics.steps, len(topics.ever()), len(wanted), len(seen))


def replace(streams: Streams, topic: str, records: int) -> list[int]:
    """Delete the topic and create it again; the numbers of its records, from 1,000.

    A client reads on in them where it was in the former ones.
    """
    streams.delete(topic)
    streams.create(topic, 1)
    later = [*range(1_000, 1_000 + records)]
    streams.send_values(topic, *(f"{n}{LARGE}" for n in later))
    return later


@pytest.mark.parametrize(
    "plan",
    [
        held,
        pytest.param(
            lambda rows, name: held(rows, name).repartition(2),
            marks=pytest.mark.slow,
            id="shuffled",
        ),
    ],
)
# With fewer records than were planned the reader waits for more.
@pytest.mark.parametrize("records", [pytest.param(RECORDS, marks=pytest.mark.slow), RECORDS // 2])
def test_a_topic_that_is_replaced_under_a_reader(
    streams: Streams, plan: Callable[[DataFrame, str], DataFrame], records: int
) -> None:
    topic, output = streams.topic(partitions=1), streams.topic()
    streams.send_values(topic, *(f"{n}{LARGE}" for n in range(RECORDS)))
    options: dict[str, Any] = {
        "subscribePattern": topic,
        "failOnDataLoss": "false",
        **SMALL_FETCHES,
    }
    rows = plan(streams.source(options=options), topic)
    writer = streams.sink(rows, output).trigger(processingTime="100 milliseconds")
    query = streams.start_held(writer, topic)
    later = replace(streams, topic, records)

    def read() -> list[int]:
        return [n for n in streams.numbers(output) if n >= 1_000]

    # Its first record is replaced by a zero.
    report = lambda: f"{len(read())}, {query.exception()}"  # noqa: E731
    until(lambda: read() == later[1:], "the later records, once", 60, report)
    assert [n for n in streams.finished(query, output) if n >= 1_000] == later[1:]


def test_a_topic_that_is_replaced_under_a_reader_stops_the_query(
    streams: Streams, spark_folder: Path
) -> None:
    topic, output = streams.topic(partitions=1), streams.topic()
    checkpoint = streams.checkpoint()
    streams.send_values(topic, *(f"{n}{LARGE}" for n in range(RECORDS)))
    logged = (spark_folder / "spark.log").stat().st_size

    def writer(may_lose: str) -> DataStreamWriter:
        options: dict[str, Any] = {"subscribe": topic, "failOnDataLoss": may_lose, **SMALL_FETCHES}
        return streams.sink(held(streams.source(options=options), topic), output, checkpoint)

    query = streams.start_held(writer("true"), topic)
    later = replace(streams, topic, RECORDS)
    until(lambda: not query.isActive, "the end of the query", 60)
    # Its first attempt saw that, or that the topic was not there; the second one finds that the
    # offset went with it.
    with (spark_folder / "spark.log").open(encoding="utf-8") as log:
        log.seek(logged)
        said = re.findall(rf"\[(EOSKAFKA_\w+)\] [^\n]*{topic}-0", log.read())
    assert said[0] in ("EOSKAFKA_TOPIC_REPLACED", "EOSKAFKA_PARTITION_GONE")
    assert "or its topic was deleted" in str(query.exception())
    # What the next start says: nothing is read on the quiet.
    error = streams.failure(writer("true"))
    assert "[EOSKAFKA_DATA_LOSS]" in error
    assert "deleted and created again" in error
    assert streams.values(output) == []
    streams.run(writer("false"))
    assert streams.numbers(output) == [0, *later[1:]]


def numbers(batch: DataFrame) -> list[int]:
    """What the values of a batch's records are."""
    return [int(row.value) for row in batch.select("value").collect()]


def run_function(streams: Streams, topic: str, checkpoint: Path, function: Function) -> None:
    """Hand each batch of a topic that is there now to a function, whatever was lost."""
    rows = streams.source(topic, {"failOnDataLoss": "false"})
    run_rows(streams, rows.selectExpr("CAST(value AS STRING) AS value"), checkpoint, function)


# More records than the former topic had, and fewer.
@pytest.mark.parametrize("records", [FEW * 2, pytest.param(FEW // 2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("runs_on", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_function_reads_a_topic_that_was_created_again_from_its_first_record(
    streams: Streams, records: int, runs_on: bool
) -> None:
    """By Spark's log, the query would go on where the former topic ended."""
    topic, checkpoint = streams.topic(partitions=1), streams.checkpoint()
    streams.send(topic, *range(FEW))
    read: list[int] = []

    def take(batch: DataFrame, number: int) -> None:
        read.extend(numbers(batch))

    def start() -> StreamingQuery:
        options = {"subscribePattern": topic, "failOnDataLoss": "false"}
        rows = streams.source(options=options).selectExpr("CAST(value AS STRING) AS value")
        writer = rows.writeStream.foreachBatch(take).trigger(processingTime="100 milliseconds")
        return streams.start(writer.option("checkpointLocation", str(checkpoint)))

    query = start()
    until(lambda: sorted(read) == [*range(FEW)], "the first records", QUERY_S)
    query.processAllAvailable()
    if not runs_on:
        query.stop()
    streams.delete(topic)
    streams.create(topic, 1)
    later = [*range(1_000, 1_000 + records)]
    streams.send(topic, *later)
    if not runs_on:
        query = start()
    report = lambda: f"{read}, {query.exception()}"  # noqa: E731
    until(lambda: sorted(read[FEW:]) == later, "the later records", QUERY_S, report)
    # The next start is told by Spark's log alone.
    query.processAllAvailable()
    query.stop()
    query = start()
    streams.send(topic, 5_000)
    until(lambda: read[-1] == 5_000, "the last record", QUERY_S, report)
    query.stop()
    assert sorted(read[FEW:]) == [*later, 5_000]


@pytest.mark.parametrize(
    "left",
    [
        *("the first batch", "no plan"),
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("another batch", "a plan")),
    ],
)
def test_a_function_whose_run_ends_while_sparks_log_has_the_former_topic(
    streams: Streams, left: str
) -> None:
    """Whatever a run has left, the next one reads the new topic from its first record."""
    topic, checkpoint = streams.topic(partitions=1), streams.checkpoint()
    streams.send(topic, *range(FEW))
    read: list[int] = []
    fails = False

    def take(batch: DataFrame, number: int) -> None:
        if fails:
            raise ValueError("a batch fails")
        read.extend(numbers(batch))

    run = partial(run_function, streams, topic, checkpoint, take)

    def fail() -> int:
        """The batch that is planned now, and fails."""
        nonlocal fails
        fails = True
        with pytest.raises(StreamingQueryException, match="a batch fails"):
            run()
        fails = False
        return max(int(file.name) for file in (checkpoint / "offsets").glob("[0-9]*"))

    former: list[int] = []
    if left != "the first batch":
        run()
        former = [*range(FEW)]
    if left == "another batch":
        streams.send(topic, *range(FEW, 2 * FEW))
    if left in ("the first batch", "another batch"):
        fail()
    streams.delete(topic)
    streams.create(topic, 1)
    later = [*range(1_000, 1_000 + 3 * FEW)]
    streams.send(topic, *later)
    if left in ("no plan", "a plan"):
        planned = fail()
        if left == "no plan":
            forget([checkpoint / "offsets" / str(planned)])
    run()
    assert sorted(read) == [*former, *later]
    streams.send(topic, 5_000)
    run()
    assert sorted(read) == [*former, *later, 5_000]


def test_a_sink_does_not_go_on_where_a_function_has_read_a_former_topic(streams: Streams) -> None:
    """The log's offset may be of either topic, whatever may be lost."""
    topic, output, checkpoint = streams.topic(partitions=1), streams.topic(), streams.checkpoint()
    read: list[int] = []

    def take(batch: DataFrame, number: int) -> None:
        read.extend(numbers(batch))

    run = partial(run_function, streams, topic, checkpoint, take)

    def writer(may_lose: str) -> DataStreamWriter:
        rows = kv(streams.source(topic, {"failOnDataLoss": may_lose}))
        return streams.sink(rows, output, checkpoint)

    streams.send(topic, *range(FEW))
    run()
    streams.delete(topic)
    streams.create(topic, 1)
    later = [*range(1_000, 1_000 + 2 * FEW)]
    streams.send(topic, *later)
    for may_lose in ("true", "false"):
        error = streams.failure(writer(may_lose))
        assert f"[EOSKAFKA_LOG_OF_FORMER_TOPIC] The topic of {topic}-0" in error
        assert f"at offset {FEW}" in error
    with pytest.raises(OffsetsError, match=f"^the topic of {topic}-0 was deleted"):
        offsets.adopt(streams.servers, str(checkpoint), dry_run=True)
    # The error names this way.
    run()
    assert read == [*range(FEW), *later]
    streams.send(topic, 5_000)
    streams.run(writer("true"))
    assert streams.numbers(output) == [5_000]


@pytest.mark.slow
def test_a_wait_for_a_topic_that_is_gone_while_its_group_does_not_answer(
    streams: Streams, spark_folder: Path, tmp_path: Path
) -> None:
    log = spark_folder / "spark.log"
    with (
        FaultyCluster(tmp_path / "own", brokers=1) as own,
        closing(Streams(streams.spark, own.bootstrap_servers, tmp_path, "eoskafka")) as there,
    ):
        topic = there.topic(partitions=1)
        there.send_values(topic, *(f"{n}{LARGE}" for n in range(RECORDS)))
        rows = there.source(topic, {"kafkaConsumer.pollTimeoutMs": 2_000, **SMALL_FETCHES})
        writer = held(rows, topic).writeStream.format("noop")
        writer = writer.option("checkpointLocation", str(there.checkpoint()))
        query = there.start_held(writer, topic)
        own.proxies[1].drop_reply(Api.OFFSET_FETCH, count=10_000)
        logged = log.stat().st_size
        there.delete(topic)

        def said() -> list[str]:
            text = log.read_bytes()[logged:].decode()
            return re.findall(r"could not be found out|EOSKAFKA_POLL_TIMEOUT", text)

        # A client asks a group for a minute.
        until(lambda: "EOSKAFKA_POLL_TIMEOUT" in said(), "the end of the wait", 30)
        query.stop()
    assert said()[0] == "could not be found out"


def test_a_topic_that_is_gone_when_a_batch_is_dealt_out_again(streams: Streams) -> None:
    stays, goes, output = streams.topic(partitions=1), streams.topic(partitions=1), streams.topic()
    streams.send(stays, *range(RECORDS))
    streams.send(goes, *range(RECORDS, 2 * RECORDS))
    options: dict[str, Any] = {
        "subscribePattern": f"{stays}|{goes}",
        "failOnDataLoss": "false",
        "slots": "1",
    }
    # Two of four writers run at a time; those that have the first records of a topic rest.
    rest = f"""
        if(cast(cast(value as string) as int) % {RECORDS} < 20,
           concat(java_method('java.lang.System', 'setProperty', '{stays}', 'yes'),
                  java_method('java.lang.Thread', 'sleep', cast(200 as bigint))), '')
    """
    rows = kv(streams.source(options=options)).repartition(4)
    rows = rows.selectExpr("key", "value", f"{rest} as rested").where("rested is not null")
    writer = streams.sink(rows, output, streams.checkpoint())
    query = streams.start_held(writer, stays)
    streams.delete(goes)
    jvm: Any = streams.spark._jvm
    folders = jvm.org.apache.spark.SparkEnv.get().blockManager()
    for folder in folders.diskBlockManager().localDirsString():
        for file in Path(folder).rglob("shuffle_*"):
            file.unlink()
    until(lambda: not query.isActive, "the query's end", 60)
    # Spark notices that the rows were dealt out differently and fails the job.
    assert "indeterminate" in str(query.exception())
    assert streams.numbers(output) == []
    streams.run(writer)
    assert streams.numbers(output) == [*range(RECORDS)]


def lie(own: FaultyCluster, api: Api, truth: uuid.UUID, lie: uuid.UUID) -> None:
    """Let the broker answer as one that has not heard yet that a topic was created again."""
    own.proxies[1].replace(api, truth.bytes, lie.bytes)


@pytest.mark.slow
def test_a_broker_that_still_knows_the_former_topic(streams: Streams, tmp_path: Path) -> None:
    with (
        FaultyCluster(tmp_path / "own", brokers=1) as own,
        closing(Streams(streams.spark, own.bootstrap_servers, tmp_path, "eoskafka")) as there,
        closing(KafkaAdminClient(bootstrap_servers=own.direct_servers)) as direct,
    ):
        job = there.job(partitions=1)
        ids_file = job.checkpoint / "sources" / "0" / "eoskafka-topic-ids.json"

        def topic_id() -> uuid.UUID:
            return uuid.UUID(str(direct.describe_topics([job.input])[0]["topic_id"]))

        def wait_written(*numbers: int) -> None:
            until(lambda: job.written() == [*numbers], f"{numbers} in the output", QUERY_S)

        def wait_asked() -> None:
            asked = own.proxies[1].requests
            wanted = asked[Api.DESCRIBE_TOPIC_PARTITIONS] + 5

            def is_asked() -> bool:
                # A query that believes the broker fails, or begins the topic anew.
                assert query.isActive, query.exception()
                return asked[Api.DESCRIBE_TOPIC_PARTITIONS] >= wanted

            until(is_asked, "5 questions", QUERY_S)

        writer = job.writer(failOnDataLoss="false").trigger(processingTime="50 milliseconds")
        former = topic_id()
        job.send(*range(10))
        query = there.start(writer)
        wait_written(*range(10))
        former_ids = ids_file.read_bytes()
        there.delete(job.input)
        there.create(job.input, 1)
        job.send(*range(10, 20))
        wait_written(*range(20))

        # While the query runs: nothing is read until the broker has caught up.
        lie(own, Api.DESCRIBE_TOPIC_PARTITIONS, topic_id(), former)
        wait_asked()
        own.proxies[1].mend()
        job.send(*range(20, 30))
        wait_written(*range(30))
        query.stop()

        # At a start whose checkpoint knows less than the group, as after a crash in between.
        ids_file.write_bytes(former_ids)
        ids_file.with_name("eoskafka-former-topic-ids.json").unlink()
        lie(own, Api.DESCRIBE_TOPIC_PARTITIONS, topic_id(), former)
        query = there.start(writer)
        wait_asked()
        own.proxies[1].mend()
        job.send(*range(30, 40))
        wait_written(*range(40))
        query.stop()

        # While a query runs that has never known the former topic: it asks all brokers.
        ids_file.with_name("eoskafka-former-topic-ids.json").unlink()
        query = there.start(writer)
        job.send(*range(40, 50))
        wait_written(*range(50))
        lie(own, Api.DESCRIBE_TOPIC_PARTITIONS, topic_id(), former)
        wait_asked()
        own.proxies[1].mend()
        job.send(*range(50, 60))
        wait_written(*range(60))
        assert there.finished(query, job.output) == [*range(60)]


@pytest.mark.slow  # the query waits for 20 seconds
def test_a_broker_that_goes_on_naming_a_former_topic_stops_the_query(streams: Streams) -> None:
    job = streams.job(records=10)
    job.run()
    ids = job.checkpoint / "sources" / "0" / "eoskafka-topic-ids.json"
    topic_id = json.loads(ids.read_text(encoding="utf-8"))[job.input]["0"]
    former = ids.with_name("eoskafka-former-topic-ids.json")
    former.write_text(json.dumps([topic_id]), encoding="utf-8")
    job.send(*range(10, 20))
    error = job.failure(failOnDataLoss="false")
    assert "EOSKAFKA_TOPIC_ID_UNCLEAR" in error
    assert "a former topic of this name had that id" in error
    assert job.written() == [*range(10)]


def test_a_task_whose_consumer_still_knows_the_former_topic(
    streams: Streams, tmp_path: Path
) -> None:
    with (
        FaultyCluster(tmp_path / "own", brokers=1) as own,
        closing(Streams(streams.spark, own.bootstrap_servers, tmp_path, "eoskafka")) as there,
        closing(KafkaAdminClient(bootstrap_servers=own.direct_servers)) as direct,
    ):
        behind, other, output = there.topic(1), there.topic(1), there.topic()
        there.send(behind, *range(10))
        there.send(other, *range(10, 400))
        options: dict[str, Any] = {
            "subscribe": f"{behind},{other}",
            "failOnDataLoss": "false",
            "slots": "1",
            "kafkaConsumer.pollTimeoutMs": 3_000,
            **SMALL_FETCHES,
        }
        writer = there.sink(kv(there.source(options=options)), output, there.checkpoint())
        writer = writer.option("commitIntervalMs", "1")
        truth = uuid.UUID(str(direct.describe_topics([behind])[0]["topic_id"]))
        lie(own, Api.METADATA, truth, uuid.uuid4())
        error = there.failure(writer)
        assert "EOSKAFKA_TOPIC_REPLACED" in error
        own.proxies[1].mend()
        there.run(writer)
        assert there.numbers(output) == [*range(400)]


def test_a_task_whose_topics_were_all_deleted_commits_no_output(streams: Streams) -> None:
    """Without an offset nothing would check that it is the one attempt that counts."""
    topic, output = streams.topic(partitions=1, records=10), streams.topic()
    rows = streams.source(topic, {"failOnDataLoss": "false"})
    writer = streams.sink(held(rows, topic, at=5, rest_ms=4_000), output)
    query = streams.start_held(writer, topic)
    streams.delete(topic)
    until(lambda: not query.isActive, "the end of the query", QUERY_S)
    assert streams.values(output) == []
