"""Which plans run in task scope, and which are refused before anything is written.

Refused means: nothing in the output topic, nothing of the input counted as done, and an error that
names the reason. The output is read and the group is asked by clients of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from eoskafka import real_time_trigger
from harness.versions import HAS_PYTHON_IN_TASK_SCOPE, UNION_JOINS_PARTITIONS, needs_real_time
from plans import (
    INPUT,
    KV,
    TASK_SCOPE,
    Inputs,
    Plan,
    assert_all_dropped,
    assert_untouched,
    counts,
    doubled,
    in_python,
    remembered,
    self_join,
    union_of_coalesced,
)
from pyspark.sql import DataFrame, functions
from pyspark.sql.functions import col, lit
from sessions import NO_GENERATED_CODE, settings
from streams import Streams, kv


@pytest.fixture(scope="session")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keys 0 to 9 with a label each, as Parquet files."""
    folder = tmp_path_factory.mktemp("static") / "keys.parquet"
    pd.DataFrame(
        {"key": [f"k{n}".encode() for n in range(10)], "label": [str(n) for n in range(10)]}
    ).to_parquet(folder)
    return folder


@pytest.fixture
def inputs(streams: Streams, parquet: Path) -> Inputs:
    """Twenty records in each of two topics."""
    topic, group = streams.topic(records=INPUT), streams.group()
    table = streams.spark.createDataFrame(
        [(f"k{n}".encode(), str(n)) for n in range(10)], "key binary, label string"
    )
    return Inputs(
        streams,
        topic,
        group,
        streams.source(topic, {"kafka.group.id": group}),
        streams.source(streams.topic(records=INPUT)),
        table,
        streams.spark.read.parquet(str(parquet)),
    )


# ---- what task scope serves

LIST_WITH_NULL = "a broadcast anti join of a list with a null"
NO_ROW_PASSES: dict[str, Plan] = {
    "a broadcast join that matches nothing": (
        lambda i: kv(i.source.join(functions.broadcast(i.parquet.where("label = 'x'")), "key"))
    ),
    "a broadcast semi join that matches nothing": (
        lambda i: kv(i.source.join(i.parquet.where("label = 'x'"), "key", "left_semi"))
    ),
    LIST_WITH_NULL: (
        lambda i: i.streams.spark.sql(
            "select key, value from {s} where key not in (select nullif(key, 'k3') from {p})",
            s=i.source,
            p=i.parquet,
        )
    ),
    "a semi join without a key that matches nothing": (
        lambda i: kv(i.source.join(i.parquet.where("label = 'x'"), how="left_semi"))
    ),
    "an anti join without a key": lambda i: kv(i.source.join(i.parquet, how="left_anti")),
}


OF_COALESCED = "union of sources that each have one task"
UNION_IN_ONE_TASK: dict[str, tuple[Plan, str]] = {
    OF_COALESCED: (union_of_coalesced, "union would put slots of several sources in one task")
}
UNION_IN_TWO_TASKS: dict[str, tuple[Plan, list[int]]] = {
    OF_COALESCED: (union_of_coalesced, sorted([*range(20)] * 2))
}

IN_PYTHON: dict[str, tuple[Plan, list[int]]] = {
    "a Python udf": (
        lambda i: i.source.select(
            "key", functions.udf(lambda v: bytes(v).decode() + "0")("value").alias("value")
        ),
        [*range(0, 200, 10)],
    ),
    "a pandas udf": (
        lambda i: i.source.select(
            "key",
            functions.pandas_udf(lambda v: v + "0", "string")(  # type: ignore[call-overload]
                col("value").cast("string")
            ).alias("value"),
        ),
        [*range(0, 200, 10)],
    ),
    "mapInPandas": (lambda i: doubled(kv(i.source)), sorted([*range(20)] * 2)),
}

SERVED: dict[str, tuple[Plan, list[int]]] = {
    "select": (lambda i: kv(i.source), [*range(20)]),
    "filter": (lambda i: kv(i.source.where("cast(cast(value as string) as int) < 5")), [*range(5)]),
    "a filter that drops all": (lambda i: kv(i.source.where("value = 'x'")), []),
    "a filter that is always false": (lambda i: kv(i.source.where(lit(False))), []),
    "a filter that a date makes false": (
        lambda i: kv(i.source.where("current_date() < date'2001-01-01'")),
        [],
    ),
    "explode": (
        lambda i: i.source.select(
            "key", functions.explode(functions.array("value", "value")).alias("value")
        ),
        sorted([*range(20)] * 2),
    ),
    "a lateral view": (
        lambda i: i.streams.spark.sql(
            "select s.key, l.value from {s} s, lateral (select s.value) l(value)", s=i.source
        ),
        [*range(20)],
    ),
    **(IN_PYTHON if HAS_PYTHON_IN_TASK_SCOPE else {}),
    "a broadcast join with a local table": (
        lambda i: kv(i.source.join(functions.broadcast(i.table), "key")),
        [*range(10)],
    ),
    "a broadcast join with Parquet files": (
        lambda i: kv(i.source.join(i.parquet, "key")),
        [*range(10)],
    ),
    "a broadcast outer join": (lambda i: kv(i.source.join(i.parquet, "key", "left")), [*range(20)]),
    "a broadcast anti join": (
        lambda i: kv(i.source.join(i.parquet, "key", "left_anti")),
        [*range(10, 20)],
    ),
    "a broadcast join with a cached table": (
        lambda i: kv(
            i.source.join(functions.broadcast(i.parquet.where("label < 5").cache()), "key")
        ),
        [*range(5)],
    ),
    "a static subquery": (
        lambda i: i.streams.spark.sql(
            "select key, value from {s} where key = (select max(key) from {p})",
            s=i.source,
            p=i.parquet,
        ),
        [9],
    ),
    "a watermark without an aggregation": (
        lambda i: kv(i.source.withWatermark("timestamp", "1 minute")),
        [*range(20)],
    ),
    "an observation": (
        lambda i: kv(i.source.observe("rows", functions.count(lit(1)).alias("n"))),
        [*range(20)],
    ),
    "coalesce to one task": (lambda i: kv(i.source.coalesce(1)), [*range(20)]),
    "union of two sources": (lambda i: kv(i.source).union(kv(i.other)), sorted([*range(20)] * 2)),
    "union with a filtered-out source": (
        lambda i: kv(i.source).union(kv(i.other.where(lit(False)))),
        [*range(20)],
    ),
    **({} if UNION_JOINS_PARTITIONS else UNION_IN_TWO_TASKS),
}


@pytest.mark.parametrize("name", SERVED)
def test_task_scope_serves(inputs: Inputs, name: str) -> None:
    plan, expected = SERVED[name]
    streams, output = inputs.streams, inputs.streams.topic()
    streams.run(streams.sink(plan(inputs), output, options=TASK_SCOPE))
    assert streams.numbers(output) == expected
    # A batch whose records were all dropped counts as done too.
    assert streams.offsets(inputs.group, inputs.topic) == streams.ends(inputs.topic)


CODE: dict[str, dict[str, str]] = {"generated code": {}, "none": NO_GENERATED_CODE}


def unread_joins() -> Iterator[Any]:
    """Each join, with what changes its plan; in a short run each of these values once."""
    for name, adaptive, code in product(NO_ROW_PASSES, ("true", "false"), CODE):
        if (name, adaptive) != (LIST_WITH_NULL, "true"):
            is_short = (adaptive == "true") == (code == "generated code")
            marks = () if is_short else pytest.mark.slow
            yield pytest.param(
                name, adaptive, CODE[code], marks=marks, id=f"{name}-{adaptive}-{code}"
            )


@pytest.mark.parametrize(("name", "adaptive", "code"), [*unread_joins()])
def test_joins_that_no_row_passes_are_in_epoch_scope(
    inputs: Inputs, name: str, adaptive: str, code: dict[str, str]
) -> None:
    # The operator itself does not ask for any record; its generated code does.
    plan, streams = NO_ROW_PASSES[name], inputs.streams
    output, checkpoint = streams.topic(), streams.checkpoint()
    with settings(streams.spark, {"spark.sql.adaptive.enabled": adaptive, **code}):
        error = streams.failure(streams.sink(plan(inputs), output, checkpoint, TASK_SCOPE))
        assert "[EOSKAFKA_SCOPE_REFUSED]" in error, error
        assert "it leaves its records unread" in error
        assert_untouched(inputs, output)
        streams.run(streams.sink(plan(inputs), output, checkpoint))
    assert_all_dropped(inputs, output)


def test_a_join_whose_code_is_too_large_is_in_epoch_scope(inputs: Inputs) -> None:
    # The plan says that there is generated code. Spark finds out later that it is too large, and
    # runs the operator.
    plan = NO_ROW_PASSES["a broadcast join that matches nothing"](inputs)
    streams, output = inputs.streams, inputs.streams.topic()
    with settings(streams.spark, {"spark.sql.codegen.hugeMethodLimit": "1"}):
        streams.succeed(streams.sink(plan, output))
    assert_all_dropped(inputs, output)


def test_a_join_that_has_no_records_to_leave_unread_is_served(inputs: Inputs) -> None:
    streams, output = inputs.streams, inputs.streams.topic()
    nothing = functions.broadcast(inputs.parquet.where("label = 'x'"))
    joined = streams.source(streams.topic()).join(nothing, "key")
    with settings(streams.spark, NO_GENERATED_CODE):
        rows = kv(joined).union(kv(inputs.source))
        streams.run(streams.sink(rows, output, options=TASK_SCOPE))
    assert streams.numbers(output) == [*range(INPUT)]


def test_task_scope_serves_update_mode(inputs: Inputs) -> None:
    streams, output = inputs.streams, inputs.streams.topic()
    streams.run(streams.sink(kv(inputs.source), output, mode="update"))
    assert streams.numbers(output) == [*range(INPUT)]


@pytest.mark.parametrize("each", [kv, lambda rows: in_python(kv(rows))])
def test_a_union_goes_on_when_only_one_of_its_sources_has_news(
    streams: Streams, each: Callable[[DataFrame], DataFrame]
) -> None:
    left, right, output = streams.topic(records=4), streams.topic(), streams.topic()
    checkpoint = streams.checkpoint()

    def run() -> None:
        union = each(streams.source(left)).union(each(streams.source(right)))
        streams.run(streams.sink(union, output, checkpoint))

    run()
    assert streams.numbers(output) == [0, 1, 2, 3]
    streams.send(right, 10, 11)
    run()
    assert streams.numbers(output) == [0, 1, 2, 3, 10, 11]
    streams.send(left, 4)
    run()
    assert streams.numbers(output) == [0, 1, 2, 3, 4, 10, 11]


def test_a_udf_that_fails_leaves_nothing_and_the_next_start_goes_on(inputs: Inputs) -> None:
    streams, output, checkpoint = (
        inputs.streams,
        inputs.streams.topic(),
        inputs.streams.checkpoint(),
    )

    def fails(value: bytearray) -> bytearray:
        raise ValueError(f"no {value!r}")

    broken = inputs.source.select("key", functions.udf(fails, "binary")("value").alias("value"))
    assert "ValueError" in streams.failure(streams.sink(broken, output, checkpoint))
    assert_untouched(inputs, output)
    streams.run(streams.sink(kv(inputs.source), output, checkpoint))
    assert streams.numbers(output) == [*range(INPUT)]


# ---- what it refuses

REFUSED: dict[str, tuple[Plan, str]] = {
    "repartition": (lambda i: kv(i.source.repartition(3)), "it shuffles"),
    "repartition to one": (lambda i: kv(i.source.repartition(1)), "it shuffles"),
    "repartition by key": (lambda i: kv(i.source.repartition("key")), "it shuffles"),
    "an aggregation with a watermark": (
        lambda i: (
            i.source.withWatermark("timestamp", "1 minute")
            .groupBy(functions.window("timestamp", "1 minute"))
            .count()
            .select(col("count").cast("string").alias("value"))
        ),
        "it keeps state",
    ),
    "an aggregation": (lambda i: counts(i.source), "it keeps state"),
    "dropDuplicates": (lambda i: kv(i.source.dropDuplicates(["key"])), "it keeps state"),
    "dropDuplicates within a watermark": (
        lambda i: kv(
            i.source.withWatermark("timestamp", "1 minute").dropDuplicatesWithinWatermark(["key"])
        ),
        "it keeps state",
    ),
    "distinct": (lambda i: kv(i.source).distinct(), "it keeps state"),
    "limit": (lambda i: kv(i.source.limit(5)), "it keeps state"),
    "except": (
        lambda i: (
            i.source.select("key")
            .subtract(i.table.select("key"))
            .select("key", col("key").alias("value"))
        ),
        "it keeps state",
    ),
    "applyInPandasWithState": (lambda i: remembered(kv(i.source)), "it keeps state"),
    "applyInPandas": (
        lambda i: kv(i.source).groupBy("key").applyInPandas(lambda group: group, KV),
        "it shuffles",
    ),
    "two sources in one task each, cogrouped in Python": (
        lambda i: (
            kv(i.source)
            .coalesce(1)
            .groupBy("key")
            .cogroup(kv(i.other).coalesce(1).groupBy("key"))
            .applyInPandas(lambda left, right: left, KV)
        ),
        "it shuffles",
    ),
    "a stream-stream join": (
        lambda i: kv(i.source.join(i.other.select("key"), "key")),
        "it keeps state",
    ),
    "a self join": (lambda i: self_join(i.streams.source(i.topic)), "it keeps state"),
    "a shuffled join with a static table": (
        lambda i: kv(i.source.join(i.parquet.hint("merge"), "key")),
        "it shuffles",
    ),
    "a nested-loop join with a static table": (
        lambda i: kv(
            i.source.join(
                i.parquet.select("label").hint("shuffle_replicate_nl"), col("value") != col("label")
            )
        ),
        "it joins a table that is not broadcast",
    ),
    "a cross join with no row": (
        lambda i: kv(
            i.source.crossJoin(
                i.table.where(lit(False)).select("label").hint("shuffle_replicate_nl")
            )
        ),
        "it joins a table that is not broadcast",
    ),
    "another source": (lambda i: kv(rate(i)), "it reads from another source"),
    "union with another source": (
        lambda i: kv(i.source).union(kv(rate(i))),
        "it reads from another source",
    ),
    "union of sources in one task": (
        lambda i: kv(i.source).union(kv(i.other)).coalesce(1),
        "coalesce would put slots of several sources in one task",
    ),
    **(UNION_IN_ONE_TASK if UNION_JOINS_PARTITIONS else {}),
    **(
        {}
        if HAS_PYTHON_IN_TASK_SCOPE
        else {
            name: (plan, "it has an operator that is not known to be fit for task scope")
            for name, (plan, _) in IN_PYTHON.items()
        }
    ),
}


def rate(inputs: Inputs) -> DataFrame:
    """Spark's rate source, with our columns."""
    rows = inputs.streams.spark.readStream.format("rate").option("rowsPerSecond", 10).load()
    return rows.selectExpr("cast('r' as binary) key", "cast(cast(value as string) as binary) value")


@pytest.mark.parametrize("name", REFUSED)
def test_task_scope_refuses(inputs: Inputs, name: str) -> None:
    plan, reason = REFUSED[name]
    streams, output = inputs.streams, inputs.streams.topic()
    mode = "update" if name == "an aggregation" else "append"
    error = streams.failure(streams.sink(plan(inputs), output, options=TASK_SCOPE, mode=mode))
    assert "[EOSKAFKA_SCOPE_REFUSED]" in error, error
    assert f"transactionScope=task is not possible for this query: {reason}" in error
    assert_untouched(inputs, output)


def test_invariant_5_a_source_read_twice_is_refused(inputs: Inputs) -> None:
    streams, output = inputs.streams, inputs.streams.topic()
    twice = kv(inputs.source).union(kv(inputs.source))
    error = streams.failure(streams.sink(twice, output, options=TASK_SCOPE))
    assert "[EOSKAFKA_SCOPE_REFUSED]" in error, error
    assert f"it reads a source twice (eoskafka[{inputs.topic}])" in error
    assert_untouched(inputs, output)


def test_invariant_6_state_without_a_shuffle_is_refused(inputs: Inputs) -> None:
    # One partition all the way: the aggregation needs no shuffle, and keeps state all the same.
    streams, output = inputs.streams, inputs.streams.topic()
    with settings(streams.spark, {"spark.sql.shuffle.partitions": "1"}):
        error = streams.failure(
            streams.sink(
                counts(inputs.source.coalesce(1)), output, options=TASK_SCOPE, mode="update"
            )
        )
    assert "[EOSKAFKA_SCOPE_REFUSED]" in error, error
    assert "it keeps state" in error
    assert_untouched(inputs, output)


def test_the_same_cluster_under_another_name_is_served(inputs: Inputs) -> None:
    streams, output = inputs.streams, inputs.streams.topic()
    name = streams.servers.replace("127.0.0.1", "localhost")
    streams.run(streams.sink(kv(inputs.source), output, options={"kafka.bootstrap.servers": name}))
    assert streams.numbers(output) == [*range(INPUT)]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param("continuous", "does not support continuous processing"),
        pytest.param("real time", "STREAMING_REAL_TIME_MODE", marks=needs_real_time),
    ],
)
def test_other_kinds_of_trigger_are_refused(inputs: Inputs, change: str, reason: str) -> None:
    streams, output = inputs.streams, inputs.streams.topic()
    is_real_time = change == "real time"
    writer = streams.sink(kv(inputs.source), output, mode="update" if is_real_time else "append")
    with pytest.raises(Exception, match=reason):
        streams.run(
            real_time_trigger(writer, "5 seconds")
            if is_real_time
            else writer.trigger(continuous="1 second")
        )
    assert_untouched(inputs, output)


def test_async_progress_is_refused(inputs: Inputs) -> None:
    streams, output = inputs.streams, inputs.streams.topic()
    writer = streams.sink(
        kv(inputs.source), output, options={"asyncProgressTrackingEnabled": "true"}
    ).trigger(processingTime="0 seconds")
    with pytest.raises(Exception, match="does not support async progress tracking"):
        streams.run(writer)
    assert_untouched(inputs, output)
