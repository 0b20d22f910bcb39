"""Rows that fail go to another topic, in the transaction of those that are right."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any, NamedTuple

import eoskafka.replay
import pytest
from eoskafka import (
    ConfigurationError,
    DataLossError,
    FencedError,
    OffsetsError,
    guard,
    real_time_trigger,
    with_dead_letters,
)
from eoskafka.audit import UndecidedError, read_committed
from eoskafka.dead_letters import PREFIX
from eoskafka.groups import Connection, log_offsets
from eoskafka.session import REAL_TIME_CHECK
from harness import Application, Flow, Point, StartApplication, until
from harness.transforms import TOPICS
from harness.versions import SPARK, needs_real_time
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.structs import OffsetAndMetadata
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from sessions import settings
from streams import QUERY_S, Streams, command

RECORDS = 100
# Retention would delete older records.
BEGAN_MS = time.time_ns() // 1_000_000
# Every tenth value is no number.
BAD = [f"x{n}" for n in range(0, RECORDS, 10)]
GOOD = sorted(str(2 * n) for n in range(RECORDS) if n % 10)


class Letter(NamedTuple):
    """A dead letter, with its own headers by their short names."""

    key: bytes | None
    value: bytes | None
    headers: dict[str, str]
    others: list[tuple[str, bytes | None]]


class Case(NamedTuple):
    """Topics of one test: input with bad records, output and dead letters."""

    streams: Streams
    input: str
    output: str
    dead: str

    def rows(self, **options: Any) -> DataFrame:
        return self.streams.source(self.input, options)

    def run(self, rows: DataFrame, **sink: Any) -> str:
        """Write everything; the transaction scope."""
        query = self.streams.run(self.streams.sink(rows, None, options=sink))
        (scope,) = {p["sink"]["metrics"]["transactionScope"] for p in query.recentProgress}
        return str(scope)

    def letters(self) -> list[Letter]:
        """All committed dead letters, in the order of their values."""
        wanted = [*read_committed(self.streams.servers, self.dead)]
        found: list[Letter] = []
        with closing(
            KafkaConsumer(bootstrap_servers=self.streams.servers, isolation_level="read_committed")
        ) as consumer:
            partitions = [TopicPartition(self.dead, p) for p in range(2)]
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)

            def are_there() -> bool:
                for records in consumer.poll(500).values():
                    for r in records:
                        own = {
                            k.removeprefix(PREFIX): (v or b"").decode()
                            for k, v in r.headers
                            if k.startswith(PREFIX)
                        }
                        others = [(k, v) for k, v in r.headers if not k.startswith(PREFIX)]
                        found.append(Letter(r.key, r.value, own, others))
                return len(found) >= len(wanted)

            until(are_there, "the dead letters", 20)
        return sorted(found, key=lambda letter: letter.value or b"")

    def assert_once(self) -> None:
        """Each record once in one of the two topics; a dead letter as the source has it."""
        assert self.streams.values(self.output) == GOOD
        letters = self.letters()
        assert [(letter.value or b"").decode() for letter in letters] == sorted(BAD)
        there = {
            (r.partition, r.offset): (r.key, r.value)
            for r in read_committed(self.streams.servers, self.input)
        }
        for letter in letters:
            assert letter.headers["topic"] == self.input
            place = int(letter.headers["partition"]), int(letter.headers["offset"])
            assert there[place] == (letter.key, letter.value)


@pytest.fixture
def case(streams: Streams) -> Case:
    case = Case(streams, streams.topic(), streams.topic(), streams.topic())
    with closing(KafkaProducer(bootstrap_servers=streams.servers)) as producer:
        for n in range(RECORDS):
            value = str(n) if n % 10 else f"x{n}"
            producer.send(
                case.input,
                key=f"k{n}".encode(),
                value=value.encode(),
                headers=[("trace", str(n).encode()), (f"{PREFIX}reason", b"a former one")],
                partition=n % 2,
                timestamp_ms=BEGAN_MS + n,
            )
    return case


def parsed(rows: DataFrame) -> DataFrame:
    return rows.withColumn("number", sql.expr("try_cast(cast(value as string) as int)"))


def routed(rows: DataFrame, case: Case, **more: Any) -> DataFrame:
    """Twice each number; what is no number is a dead letter."""
    return with_dead_letters(
        parsed(rows),
        error=sql.when(sql.col("number").isNull(), "it is no number"),
        value=(sql.col("number") * 2).cast("string"),
        topic=case.output,
        dead_letter_topic=case.dead,
        **more,
    )


@guard("string")
def twice(value: bytearray) -> str:
    return str(2 * int(value.decode()))


@guard("string", pandas=True)
def twice_in_pandas(values: Any) -> Any:
    return values.map(lambda value: str(2 * int(value.decode())))


def guarded(rows: DataFrame, case: Case, function: Callable[..., Column], **more: Any) -> DataFrame:
    return with_dead_letters(
        rows.withColumn("result", function("value")),
        error="result.error",
        value="result.value",
        topic=case.output,
        dead_letter_topic=case.dead,
        **more,
    )


def test_rows_that_columns_refuse_go_to_their_topic_in_task_scope(case: Case) -> None:
    assert case.run(routed(case.rows(), case, query="twice")) == "task"
    case.assert_once()
    for letter in case.letters():
        n = int((letter.value or b"")[1:])
        assert letter.headers == {
            "reason": "it is no number",
            "topic": case.input,
            "partition": str(n % 2),
            "offset": str(n // 2),
            "timestamp": str(BEGAN_MS + n),
            "query": "twice",
        }
        assert letter.others == []


def test_a_dead_letter_keeps_the_headers_of_its_record(case: Case) -> None:
    case.run(routed(case.rows(includeHeaders=True), case))
    case.assert_once()
    for letter in case.letters():
        assert letter.headers["reason"] == "it is no number"
        assert letter.others == [("trace", (letter.value or b"")[1:])]


@pytest.mark.parametrize("function", [twice, twice_in_pandas], ids=["rows", "pandas"])
@pytest.mark.parametrize("scope", ["task", "epoch"])
def test_rows_on_which_a_function_fails_go_to_their_topic(
    case: Case, function: Callable[..., Column], scope: str
) -> None:
    rows = case.rows()
    if scope == "epoch":
        rows = rows.repartition(3)
    elif SPARK < (4, 0):
        pytest.skip("Python functions are in epoch scope")
    assert case.run(guarded(rows, case, function)) == scope
    case.assert_once()
    reasons = {
        (letter.value or b"").decode(): letter.headers["reason"] for letter in case.letters()
    }
    assert reasons == {
        value: f"ValueError: invalid literal for int() with base 10: '{value}'" for value in BAD
    }


@guard("timestamp", pandas=True)
def noon(days: Any) -> Any:
    import pandas as pd

    if days.str.contains("x").any():
        raise ValueError("no day")
    return pd.to_datetime(days + " 12:00")


def test_timestamps_of_a_pandas_function_are_in_the_time_zone_of_the_session(
    streams: Streams,
) -> None:
    with settings(streams.spark, {"spark.sql.session.timeZone": "America/New_York"}):
        days = streams.spark.createDataFrame([("2026-01-01",), ("x",)], "day string")
        found = days.select(noon("day").alias("noon")).selectExpr(
            "cast(noon.value as bigint) at", "noon.error"
        )
        assert [(r["at"], r["error"]) for r in found.collect()] == [
            (1_767_286_800, None),
            (None, "ValueError: no day"),
        ]


def test_dead_letters_are_written_beside_an_aggregation(case: Case) -> None:
    rows = parsed(case.rows())
    wrong = with_dead_letters(
        rows.where("number is null"),
        error=sql.lit("it is no number"),
        value="value",
        topic=case.output,
        dead_letter_topic=case.dead,
    )
    counts = (
        rows.where("number is not null")
        .groupBy((sql.col("number") % 10).cast("string").alias("key"))
        .agg(sql.count("*").cast("string").alias("value"))
        .select(sql.col("key").cast("binary"), sql.col("value").cast("binary"))
        .withColumn("topic", sql.lit(case.output))
    )
    both = wrong.unionByName(counts, allowMissingColumns=True)
    case.streams.run(case.streams.sink(both, None, mode="update"))
    assert case.streams.values(case.output) == ["10"] * 9
    assert len(case.letters()) == len(BAD)
    error = case.streams.failure(case.streams.sink(both, case.output, mode="update"))
    assert "would send dead letters" in error


def test_a_batch_write_has_dead_letters(case: Case) -> None:
    case.streams.save(routed(case.streams.batch(case.input), case), None)
    case.assert_once()


def test_a_topic_option_that_would_take_dead_letters_is_refused(case: Case) -> None:
    rows = routed(case.rows(), case)
    error = case.streams.failure(case.streams.sink(rows, case.output))
    assert "[EOSKAFKA_BAD_SCHEMA]" in error
    assert "would send dead letters" in error
    assert case.streams.values(case.output) == []


def test_what_kafka_would_refuse_is_a_dead_letter(case: Case) -> None:
    streams = case.streams
    streams.create(small := f"{case.output}-small", 1, {"max.message.bytes": "1000"})
    sizes = {"fits": 1_000 - 97 - 2, "large": 1_000 - 97 - 1}
    values = [*sizes, "none", "a topic\n", ".", case.dead]
    inputs = streams.topic(1)
    streams.send_values(inputs, *values)
    text = sql.col("value").cast("string")
    length = sql.when(text == "fits", sizes["fits"]).when(text == "large", sizes["large"])
    rows = with_dead_letters(
        streams.source(inputs).withColumn("length", sql.coalesce(length, sql.lit(0))),
        error=sql.lit(None),
        topic=sql.when(text == "none", None).when(length.isNull(), text).otherwise(sql.lit(small)),
        key=sql.lit("k"),
        # The space is one byte more.
        value=sql.expr("concat(' ', repeat('x', length))"),
        dead_letter_topic=case.dead,
        max_bytes=1_000,
    )
    case.run(rows)
    assert [len(value) for value in streams.values(small)] == [sizes["fits"] + 1]
    assert {letter.value: letter.headers["reason"] for letter in case.letters()} == {
        b"large": "the record would have 1001 of 1000 bytes",
        b"none": "the topic is null",
        b"a topic\n": "no topic can have the name of its topic",
        b".": "no topic can have the name of its topic",
        case.dead.encode(): "its topic is that of the dead letters",
    }


def test_a_dead_letter_that_kafka_refuses_stops_the_query_and_is_not_lost(case: Case) -> None:
    streams = case.streams
    streams.create(small := f"{case.dead}-small", 2, {"max.message.bytes": "100"})
    job = case._replace(dead=small)
    checkpoint = streams.checkpoint()

    def writer() -> Any:
        return streams.sink(routed(job.rows(), job), None, checkpoint)

    assert "[EOSKAFKA_RECORD_TOO_LARGE]" in streams.failure(writer())
    assert streams.values(small) == []
    with_room = {"max.message.bytes": "100000"}
    streams.admin.alter_configs(config_of(small, with_room))
    streams.run(writer())
    job.assert_once()


def config_of(topic: str, settings: dict[str, str]) -> Any:
    from kafka.admin import ConfigResource, ConfigResourceType

    return [ConfigResource(ConfigResourceType.TOPIC, topic, settings)]


@pytest.mark.parametrize(
    ("rows", "more", "says"),
    [
        (lambda r: r.drop("offset"), {}, "the source's column offset (bigint)"),
        (lambda r: r.withColumn("value", sql.lit("a")), {}, "one of type string"),
        (lambda r: r.withColumn("headers", sql.lit("a")), {}, "the source's column headers"),
        (None, {"error": "boolean"}, "error is of type boolean"),
        (None, {"value": "offset"}, "value is of type bigint"),
        (None, {"topic": "a b"}, "no topic can have the name 'a b'"),
        (None, {"dead_letter_topic": "clean"}, "the dead letters' topic is the topic of the rows"),
    ],
)
def test_rows_that_cannot_have_dead_letters_are_refused(
    streams: Streams, rows: Any, more: dict[str, Any], says: str
) -> None:
    source = streams.source(streams.topic()).withColumn("boolean", sql.lit(True))
    given = {"error": sql.lit(None), "value": "value", "topic": "clean", "dead_letter_topic": "d"}
    with pytest.raises(ConfigurationError) as caught:
        with_dead_letters(rows(source) if rows else source, **{**given, **more})
    assert says in str(caught.value)


@needs_real_time
def test_columns_work_in_real_time_mode_and_python_functions_are_refused(case: Case) -> None:
    streams = case.streams
    with settings(streams.spark, {REAL_TIME_CHECK: "false"}):
        writer = streams.sink(routed(case.rows(), case), None, mode="update")
        query = streams.start(real_time_trigger(writer, "10 minutes"))

        def are_there() -> bool:
            assert query.isActive, query.exception()
            try:
                return streams.values(case.output) == GOOD and len(case.letters()) == len(BAD)
            except UndecidedError:
                return False

        until(are_there, "both kinds of rows", QUERY_S)
        query.stop()
        case.assert_once()
        writer = streams.sink(guarded(case.rows(), case, twice), None, mode="update")
        error = streams.failure(real_time_trigger(writer, "10 minutes"))
        assert "[EOSKAFKA_REAL_TIME_REFUSED]" in error


# ---- eoskafka dead-letters


def replay(case: Case, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str, str]:
    servers = ("--bootstrap-servers", case.streams.servers)
    return command(capsys, "dead-letters", "replay", case.dead, *servers, *more)


def test_dead_letters_are_shown_with_their_sources(
    case: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    case.run(routed(case.rows(), case, query="twice"))
    show = ("dead-letters", "show", case.dead, "--bootstrap-servers", case.streams.servers)
    code, out, err = command(capsys, *show, "--format", "json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["count"] == len(found["dead_letters"]) == len(BAD)
    for each in found["dead_letters"]:
        n = int(each["key"][1:])
        assert each["topic"] == case.dead
        assert each["reason"] == "it is no number"
        assert each["query"] == "twice"
        assert (each["source_topic"], each["source_partition"]) == (case.input, n % 2)
        assert (each["source_offset"], each["source_timestamp_ms"]) == (n // 2, BEGAN_MS + n)
    code, out, err = command(capsys, *show, "--limit", "3")
    assert code == 0
    assert len(out.splitlines()) == 4
    assert "it is no number" in out
    assert f"3 of {len(BAD)} dead letters" in err


def test_verify_counts_dead_letters_with_the_output(
    case: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    case.run(routed(case.rows(), case))
    topics = ("--input", case.input, "--output", case.output, "--dead-letters", case.dead)
    servers = ("--bootstrap-servers", case.streams.servers)
    code, out, _ = command(capsys, "verify", *topics, *servers, "--by", "key")
    assert (code, out.splitlines()[-1][:46]) == (
        0,
        "exactly once: 100 in, 90 out, 10 dead letters,",
    )


def test_a_replay_writes_each_dead_letter_once(
    case: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    streams = case.streams
    case.run(routed(case.rows(includeHeaders=True), case))
    code, _, err = replay(case, capsys)
    assert code == 1
    assert "--from-beginning" in err
    assert replay(case, capsys, "--from-beginning")[:2] == (0, "10 dead letters were replayed\n")
    assert replay(case, capsys)[:2] == (0, "0 dead letters were replayed\n")
    assert replay(case, capsys, "--from-beginning")[:2] == (0, "0 dead letters were replayed\n")
    records = [*read_committed(streams.servers, case.input)]
    assert len(records) == RECORDS + len(BAD)
    before = {r.key: r for r in records if r.offset < RECORDS // 2}
    for record in (r for r in records if r.offset >= RECORDS // 2):
        former = before[record.key]
        assert (record.partition, record.value) == (former.partition, former.value)
    # What was replayed fails again, with the headers of its record and no former ones.
    case.run(routed(case.rows(includeHeaders=True), case._replace(dead=streams.topic())))
    # Another group has a place of its own, and one topic for all.
    elsewhere = streams.topic()
    more = ("--from-beginning", "--to", elsewhere, "--group", streams.group())
    assert replay(case, capsys, *more)[0] == 0
    assert streams.values(elsewhere) == sorted(BAD)


def test_a_replay_that_cannot_know_where_a_record_goes_is_refused(
    case: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    streams = case.streams
    streams.send(case.dead, 1)
    code, _, err = replay(case, capsys, "--from-beginning")
    assert code == 1
    assert "has no headers of a dead letter" in err
    code, _, err = replay(case, capsys, "--from-beginning", "--to", case.dead)
    assert code == 1
    assert "the topic of the dead letters itself" in err
    code, _, err = replay(case, capsys, "--from-beginning", "--to", "not-there")
    assert code == 1
    assert "there is no topic not-there" in err
    assert replay(case, capsys, "--from-beginning", "--to", case.output)[0] == 0
    assert streams.values(case.output) == ["1"]


def test_a_second_replay_fences_one_that_still_runs(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = case.streams
    case.run(routed(case.rows(), case))
    cluster, target = Connection(streams.servers, {}), streams.topic()
    monkeypatch.setattr(eoskafka.replay, "_PORTION", 3)
    how: dict[str, Any] = {"group": streams.group(), "to": target, "from_beginning": True}
    counts: list[int] = []

    def meanwhile(count: int) -> None:
        counts.append(count)
        if len(counts) == 2:
            assert eoskafka.replay.replay(cluster, case.dead, **how) == len(BAD) - sum(counts)

    with pytest.raises(FencedError):
        eoskafka.replay.replay(cluster, case.dead, **how, replayed=meanwhile)
    assert streams.values(target) == sorted(BAD)


def test_a_replay_refuses_offsets_that_do_not_say_what_was_replayed(
    streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead, target, group = streams.topic(partitions=1, records=10), streams.topic(), streams.group()
    first = TopicPartition(dead, 0)
    cluster = Connection(streams.servers, {})

    def replay(**more: Any) -> int:
        return eoskafka.replay.replay(cluster, dead, to=target, group=group, **more)

    def refused(error: type[Exception], says: str) -> None:
        with pytest.raises(error, match=says):
            replay()

    assert replay(from_beginning=True, skip={(0, 3)}) == 9
    streams.send(dead, 10, 11, 12)
    with monkeypatch.context() as patch:
        # What a former coordinator would say, and what a broker would say that is behind.
        patch.setattr(
            eoskafka.replay,
            "_committed",
            lambda *_, real=eoskafka.replay._committed: {
                p: each._replace(offset=5) for p, each in real(*_).items()
            },
        )
        refused(OffsetsError, "former coordinator")
    with monkeypatch.context() as patch:
        patch.setattr(
            eoskafka.replay,
            "log_offsets",
            lambda *_, real=log_offsets: dict.fromkeys(real(*_), 4),
        )
        refused(OffsetsError, "may be behind")
    streams.admin.delete_records({first: 12})
    refused(DataLossError, "up to 2 dead letters were deleted")
    assert replay(accept_loss=True) == 1
    assert streams.numbers(target) == [0, 1, 2, *range(4, 10), 12]
    group = streams.group()
    with closing(KafkaConsumer(bootstrap_servers=streams.servers, group_id=group)) as consumer:
        consumer.assign([first])
        consumer.commit({first: OffsetAndMetadata(0, "", -1)})
    refused(OffsetsError, "no replay has committed")


KILLED = """
import os, signal, sys
from eoskafka import replay
from eoskafka.groups import Connection
replay._PORTION = 7
commits = int(sys.argv[5])
def commit(producer, *rest, real=replay._commit):
    global commits
    commits -= 1
    if commits == 0:
        # In the middle of a transaction that has records and offsets.
        producer.commit_transaction = lambda: os.kill(os.getpid(), signal.SIGKILL)
    real(producer, *rest)
replay._commit = commit
cluster = Connection(sys.argv[1], {})
replay.replay(cluster, sys.argv[2], to=sys.argv[3], group=sys.argv[4], from_beginning=True)
"""


def test_a_replay_that_is_killed_continues_without_a_duplicate(streams: Streams) -> None:
    dead, target, group = streams.topic(records=RECORDS), streams.topic(), streams.group()
    for commits in (1, 3, 2, 100):
        arguments = (streams.servers, dead, target, group, str(commits))
        done = subprocess.run([sys.executable, "-c", KILLED, *arguments], check=False)
        assert done.returncode == (0 if commits == 100 else -signal.SIGKILL)
    assert streams.numbers(target) == [*range(RECORDS)]


# ---- one of a hundred records is wrong, and executors and drivers die

OF_TASKS: list[Point] = ["before-flush", "after-flush", "after-offsets", "after-commit"]
OF_WRITERS: list[Point] = ["after-init", "before-flush", "after-flush"]
OF_DRIVERS: list[Point] = ["before-decision", "after-decision", "half-rolled-forward", "before-log"]
PER_BATCH = 500


class Kills(NamedTuple):
    """What a query is, and where its processes die: None for a driver that dies at any point."""

    transform: str
    executors: list[Point]
    drivers: list[Point | None]
    real_time: str | None = None


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(Kills("dead_letters", OF_TASKS, [None] * 3), id="task scope"),
        pytest.param(Kills("dead_letters_in_python", OF_WRITERS, [*OF_DRIVERS]), id="epoch scope"),
        pytest.param(
            Kills("dead_letters", OF_TASKS, [None] * 2, "5 seconds"),
            id="real time",
            marks=needs_real_time,
        ),
    ],
)
def test_nothing_is_lost_or_duplicated_in_either_topic_whoever_dies(
    flow: Flow,
    start_application: StartApplication,
    capsys: pytest.CaptureFixture[str],
    kills: Kills,
) -> None:
    dead = f"{flow.name}-dead"
    with flow.admin() as admin:
        admin.create_topics([NewTopic(dead, 2, 1)])
    how: dict[str, Any] = {"transform": kills.transform, "sink": {"topic": ""}}
    if not kills.real_time:
        how["maxOffsetsPerTrigger"] = PER_BATCH
    running: dict[str, Any] = {"interval": "0 seconds", "real_time": kills.real_time}

    def application() -> Application:
        return start_application("local-cluster[2,1,1024]", {TOPICS: f"{flow.output},{dead}"})

    for driver in kills.drivers:
        spark = application()
        flow.produce(2 * PER_BATCH)
        flow.start(spark, **how, **running)
        for point in kills.executors:
            spark.faults.arm(point, "kill")
            flow.produce(2 * PER_BATCH)
            spark.faults.wait_taken(point)
        flow.produce(2 * PER_BATCH)
        if driver is not None:
            spark.faults.arm(driver, "kill")
            spark.faults.wait_taken(driver)
        spark.kill()
    flow.start(application(), **how).wait_done()
    flow.assert_nothing_is_open()

    inputs = flow.inputs()
    wrong = [r for r in inputs if (r.value or b"").endswith(b"00")]
    assert len(inputs) == flow.produced
    assert len(wrong) == (flow.produced - 1) // 100
    letters = [*read_committed(flow.servers, dead)]
    assert sorted((r.key, r.value) for r in letters) == sorted((r.key, r.value) for r in wrong)
    right = sorted((r.value or b"") + b"!" for r in inputs if r not in wrong)
    assert sorted(r.value or b"" for r in flow.outputs()) == right
    assert flow.committed() == flow.ends()
    topics = ("--input", flow.input, "--output", flow.output, "--dead-letters", dead)
    servers = ("--group", flow.group, "--bootstrap-servers", flow.servers)
    code, out, err = command(capsys, "verify", *topics, *servers, "--by", "key", "--no-order")
    assert code == 0, out + err
    print(out)
