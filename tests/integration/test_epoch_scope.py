"""Which plans run in epoch scope, and what comes out of them over several batches and runs.

What has to come out is computed here from the input alone; the output is read by a client of its
own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest
from harness import until
from harness.versions import reports
from kafka.admin import ConfigResource, ConfigResourceType
from pyspark.sql import DataFrame, functions
from pyspark.sql.functions import col
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from sessions import settings
from streams import LARGE, SMALL_FETCHES, Streams, kv

KV = "key binary, value binary"
INPUT = 20
AGAIN = range(15, 30)
"""Sent for the second run; the first five are there for the second time."""
TEXT = "cast(value as string)"


class Inputs(NamedTuple):
    """Two eoskafka sources, several batches each, and a static table of ten of the keys."""

    streams: Streams
    topic: str
    group: str
    other_topic: str

    @property
    def source(self) -> DataFrame:
        return self.streams.source(
            self.topic, {"kafka.group.id": self.group, "maxOffsetsPerTrigger": 8}
        )

    @property
    def other(self) -> DataFrame:
        return self.streams.source(self.other_topic, {"kafka.group.id": f"{self.group}-other"})

    @property
    def table(self) -> DataFrame:
        return self.streams.spark.createDataFrame(
            [(f"k{n}".encode(), str(n)) for n in range(10)], "key binary, label string"
        )


@pytest.fixture
def inputs(streams: Streams) -> Inputs:
    """Twenty records in each of two topics."""
    return Inputs(
        streams, streams.topic(records=INPUT), streams.group(), streams.topic(records=INPUT)
    )


def remembered(rows: DataFrame) -> DataFrame:
    """How often each key has come, kept in Python state."""

    def remember(
        key: tuple[bytes], groups: Iterable[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        seen = (state.get[0] if state.exists else 0) + sum(len(group) for group in groups)
        state.update((seen,))
        yield pd.DataFrame({"key": [key[0]], "value": [str(seen).encode()]})

    timeout = GroupStateTimeout.NoTimeout
    return rows.groupBy("key").applyInPandasWithState(remember, KV, "n int", "update", timeout)


def counted(rows: DataFrame) -> DataFrame:
    """How often each key has come."""
    return rows.groupBy("key").count().select("key", col("count").cast("string").alias("value"))


def windowed(rows: DataFrame) -> DataFrame:
    """Records by window of event time, which is made from the number: four to a window."""
    return (
        rows.selectExpr(f"timestamp_seconds(cast({TEXT} as long)) as time")
        .withWatermark("time", "0 seconds")
        .groupBy(functions.window("time", "4 seconds"))
        .count()
        .selectExpr("cast(cast(window.start as long) as string) key", "cast(count as string) value")
    )


def self_join(rows: DataFrame) -> DataFrame:
    """The rows, each joined with itself."""
    return kv(rows.join(rows.select("key"), "key"))


def twice(rows: DataFrame) -> DataFrame:
    """One source, read twice."""
    return rows.union(rows)


Plan = Callable[[Inputs], DataFrame]

EACH = [str(n) for n in [*range(INPUT), *AGAIN]]
COUNTS = ["1"] * (INPUT + len(AGAIN) - 5) + ["2"] * 5

PLANS: dict[str, tuple[Plan, str, list[str]]] = {
    "repartition": (lambda i: kv(i.source.repartition(3)), "append", EACH),
    "repartition by key": (lambda i: kv(i.source.repartition("key")), "append", EACH),
    "repartition, one task": (lambda i: kv(i.source.repartition(1)), "append", EACH),
    "an aggregation, update mode": (lambda i: counted(i.source), "update", COUNTS),
    "state in Python": (lambda i: remembered(kv(i.source)), "update", COUNTS),
    "dropDuplicates": (
        lambda i: kv(i.source.dropDuplicates(["key"])),
        "append",
        [str(n) for n in range(30)],
    ),
    "a window with a watermark": (
        lambda i: windowed(i.source),
        "append",
        # 15 comes late the second time, 16 to 19 do not; the last window stays open.
        [*["4"] * 6, "8"],
    ),
    "a stream-stream join": (
        lambda i: kv(i.source.join(i.other.select("key"), "key")),
        "append",
        # The second run's first five match the other topic's again.
        [str(n) for n in [*range(INPUT), *range(15, 20)]],
    ),
    "a self join": (
        lambda i: self_join(i.source),
        "append",
        # Five keys come twice: two records on each side.
        [str(n) for n in [*range(30), *[n for n in range(15, 20) for _ in range(3)]]],
    ),
    "a self union": (lambda i: twice(kv(i.source)), "append", EACH * 2),
    "a shuffled join with a static table": (
        lambda i: kv(i.source.join(i.table.hint("merge"), "key")),
        "append",
        [str(n) for n in range(10)],
    ),
    "a union of a narrow and a shuffled branch": (
        lambda i: kv(i.source).union(kv(i.other.repartition(2))),
        "append",
        [*EACH, *map(str, range(INPUT))],
    ),
    "two sources in one task": (
        lambda i: kv(i.source).union(kv(i.other)).coalesce(1),
        "append",
        [*EACH, *map(str, range(INPUT))],
    ),
    "a function by group": (
        lambda i: kv(i.source).groupBy("key").applyInPandas(lambda group: group, KV),
        "append",
        EACH,
    ),
}


# Much like another one.
SLOW = {"repartition by key", "repartition, one task", "a function by group", "a self union"}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in PLANS]
)
def test_epoch_scope_serves(inputs: Inputs, name: str) -> None:
    plan, mode, expected = PLANS[name]
    streams, output, checkpoint = (
        inputs.streams,
        inputs.streams.topic(),
        inputs.streams.checkpoint(),
    )
    streams.run(streams.sink(plan(inputs), output, checkpoint, mode=mode))
    streams.send(inputs.topic, *AGAIN)
    streams.run(streams.sink(plan(inputs), output, checkpoint, mode=mode))
    assert Counter(streams.values(output)) == Counter(expected)
    assert streams.offsets(inputs.group, inputs.topic) == streams.ends(inputs.topic)


def test_epoch_scope_may_be_asked_for(inputs: Inputs) -> None:
    streams, output = inputs.streams, inputs.streams.topic()
    epoch = {"transactionScope": "epoch"}
    query = streams.run(streams.sink(kv(inputs.source), output, options=epoch))
    metrics = [p.sink.metrics for p in reports(query) if p.numInputRows > 0]
    assert {(m["transactionScope"], m["transactionsCommitted"]) for m in metrics} == {
        ("epoch", "2")
    }
    assert streams.numbers(output) == [*range(INPUT)]
    stamps = streams.committed(inputs.group, inputs.topic).values()
    assert all(":e:" in offset.metadata for offset in stamps)


def test_state_without_a_shuffle(inputs: Inputs) -> None:
    streams, output = inputs.streams, inputs.streams.topic()
    with settings(streams.spark, {"spark.sql.shuffle.partitions": "1"}):
        rows = counted(inputs.source.coalesce(1))
        streams.run(streams.sink(rows, output, mode="update"))
    assert streams.values(output) == ["1"] * INPUT


def test_complete_mode_adds_all_rows_in_each_batch(inputs: Inputs) -> None:
    streams, output, checkpoint = (
        inputs.streams,
        inputs.streams.topic(),
        inputs.streams.checkpoint(),
    )
    all_in_one = streams.source(inputs.topic).groupBy().count()
    rows = all_in_one.selectExpr("cast(count as string) value")
    streams.run(streams.sink(rows, output, checkpoint, mode="complete"))
    streams.send(inputs.topic, *AGAIN)
    streams.run(streams.sink(rows, output, checkpoint, mode="complete"))
    assert streams.values(output) == ["20", "35"]


def test_the_rate_source(streams: Streams) -> None:
    output, checkpoint = streams.topic(), streams.checkpoint()
    rows = (
        streams.spark.readStream.format("rate-micro-batch")
        .options(rowsPerBatch=10, numPartitions=2)
        .load()
        .selectExpr("cast(value as string) value")
    )

    def run_to(count: int) -> None:
        query = streams.start(
            streams.sink(rows, output, checkpoint).trigger(processingTime="100 milliseconds")
        )
        until(lambda: len(streams.values(output)) >= count, f"{count} rows", 60)
        query.stop()
        assert query.exception() is None

    run_to(30)
    run_to(60)
    numbers = streams.numbers(output)
    assert numbers == [*range(len(numbers))]


def test_a_file_source(streams: Streams, tmp_path: Path) -> None:
    output, checkpoint, folder = streams.topic(), streams.checkpoint(), tmp_path / "files"
    folder.mkdir()
    rows = streams.spark.readStream.text(str(folder))
    for number in range(3):
        (folder / f"{number}.txt").write_text(f"{number}\n", encoding="utf-8")
        streams.run(streams.sink(rows, output, checkpoint))
    assert streams.numbers(output) == [0, 1, 2]


def test_the_scope_may_change_between_runs(inputs: Inputs) -> None:
    streams, output, checkpoint = (
        inputs.streams,
        inputs.streams.topic(),
        inputs.streams.checkpoint(),
    )
    for number, scope in enumerate(("task", "epoch", "task", "epoch")):
        streams.send(inputs.topic, INPUT + number)
        rows = streams.sink(
            kv(inputs.source), output, checkpoint, options={"transactionScope": scope}
        )
        streams.run(rows)
    assert streams.numbers(output) == [*range(INPUT + 4)]
    assert streams.offsets(inputs.group, inputs.topic) == streams.ends(inputs.topic)


def test_a_record_that_the_topic_does_not_take_fails_the_batch(streams: Streams) -> None:
    # The writer's marker arrives all the same, and neither flush nor coordinator tell of the loss.
    topic, output, group = streams.topic(records=INPUT), streams.topic(), streams.group()
    small = ConfigResource(ConfigResourceType.TOPIC, output, {"max.message.bytes": "1000"})
    streams.admin.alter_configs([small])
    rows = streams.source(topic, {"kafka.group.id": group})
    large = rows.repartition(2).select("key", functions.repeat(col("value").cast("string"), 5_000))
    error = streams.failure(streams.sink(large.toDF("key", "value"), output))
    assert "[EOSKAFKA_RECORD_TOO_LARGE]" in error, error
    assert f"topic '{output}'" in error, error
    assert streams.values(output) == []
    assert set(streams.offsets(group, topic).values()) <= {0}


def test_a_query_that_has_ended_leaves_no_client(inputs: Inputs) -> None:
    streams = inputs.streams
    streams.run(streams.sink(kv(inputs.source.repartition(2)), streams.topic()))

    def clients() -> list[str]:
        jvm: Any = streams.spark._jvm
        threads = jvm.Thread.getAllStackTraces().keySet()
        return [t.getName() for t in threads if "eoskafka-driver-epochs" in t.getName()]

    until(lambda: not clients(), f"the end of {clients()}", 20)


def test_a_plan_that_reads_none_of_its_records_goes_on_after_a_restart(streams: Streams) -> None:
    topic, output, group = streams.topic(), streams.topic(), streams.group()
    checkpoint = streams.checkpoint()
    for number in range(3):
        streams.send(topic, number)
        rows = streams.source(topic, {"kafka.group.id": group}).where("1 = 0")
        streams.run(streams.sink(kv(rows), output, checkpoint))
    assert streams.numbers(output) == []
    assert sum(streams.offsets(group, topic).values()) == 3


def test_a_task_reads_its_partitions_one_after_the_other(streams: Streams) -> None:
    """Spark may run it again for the rows of some writers only, and takes their order for fixed."""
    topic = streams.topic(partitions=3)
    for partition in (2, 1, 0):
        streams.send_values(topic, *([LARGE] * 60), partition=partition)
    rows = streams.source(topic, {"slots": 1, **SMALL_FETCHES}).select("partition", "offset")
    read: list[tuple[int, int]] = []
    writer = rows.writeStream.foreachBatch(
        lambda batch, _: read.extend(map(tuple, batch.collect()))
    )
    streams.run(
        writer.option("checkpointLocation", str(streams.checkpoint())).trigger(availableNow=True)
    )
    assert read == [(partition, offset) for partition in range(3) for offset in range(60)]
