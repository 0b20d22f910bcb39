"""Rows that fail go to another topic, in the transaction of those that are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from eoskafka import ConfigurationError, guard, real_time_trigger, with_dead_letters
from eoskafka.audit import UndecidedError
from eoskafka.session import REAL_TIME_CHECK
from harness import until
from harness.versions import SPARK, needs_real_time
from letters import BAD, BEGAN_MS, GOOD, Case, parsed, routed
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from sessions import settings
from streams import QUERY_S, Streams


@pytest.fixture
def case(streams: Streams) -> Case:
    return Case.of(streams)


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


@pytest.mark.parametrize(
    ("scope", "function"),
    [
        pytest.param("task", twice, id="task-rows"),
        pytest.param("task", twice_in_pandas, id="task-pandas", marks=pytest.mark.slow),
        pytest.param("epoch", twice, id="epoch-rows", marks=pytest.mark.slow),
        pytest.param("epoch", twice_in_pandas, id="epoch-pandas"),
    ],
)
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
        (lambda r: r.withColumn("EosKafka_Error", sql.lit("a")), {}, "have a column EosKafka_Err"),
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
