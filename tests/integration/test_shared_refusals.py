"""`ownership=shared`: what cannot share a group, and whom a driver refuses beside itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from harness import Application, Flow, StartApplication, until
from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamWriter
from shared_groups import (
    RECORDS,
    SESSION_S,
    SHARED,
)
from streams import Streams, kv

SLOW = pytest.mark.slow


def counted(rows: DataFrame) -> DataFrame:
    """With state."""
    return rows.groupBy("key").count().selectExpr("key", "cast(count as string) value")


@pytest.mark.parametrize(
    ("query", "sink", "reason"),
    [
        (counted, {}, "it keeps state or shuffles, Aggregate"),
        (lambda rows: kv(rows).repartition(2), {}, "it keeps state or shuffles, Repartition"),
        (lambda rows: kv(rows).union(kv(rows)), {}, "it reads another source, or one twice"),
        (kv, {"transactionScope": "epoch"}, "transactionScope=epoch"),
    ],
    ids=["state", "a shuffle", "read twice", "epoch scope"],
)
def test_what_is_not_for_task_scope_cannot_be_shared_and_goes_on_alone(
    streams: Streams,
    query: Callable[[DataFrame], DataFrame],
    sink: dict[str, str],
    reason: str,
) -> None:
    topic, output, checkpoint = streams.topic(records=20), streams.topic(), streams.checkpoint()
    alone = {"kafka.group.id": streams.group()}

    def writer(source: dict[str, str]) -> DataStreamWriter:
        rows = query(streams.source(topic, source))
        return streams.sink(rows, output, checkpoint, sink, mode="update")

    error = streams.failure(writer({**alone, **SHARED}))
    assert "[EOSKAFKA_SHARED_REFUSED]" in error, error
    assert reason in error
    assert streams.values(output) == []
    streams.run(writer(alone))
    assert len(streams.values(output)) == (40 if "twice" in reason else 20)


@SLOW
def test_without_the_plugin_nothing_is_shared(
    start_application: StartApplication, flow: Flow
) -> None:
    application = start_application("local[2]", spark_plugins="")
    error = flow.start(application, **SHARED).wait_end().error
    assert "[EOSKAFKA_SHARED_REFUSED]" in str(error), error
    assert "set spark.plugins=io.eoskafka.EosKafkaPlugin" in str(error)
    assert not flow.members()


def test_a_sink_that_is_not_ours_cannot_share(streams: Streams) -> None:
    topic, group = streams.topic(records=20), streams.group()
    rows = kv(streams.source(topic, {"kafka.group.id": group, **SHARED}))
    writer = (
        rows.writeStream.format("noop")
        .option("checkpointLocation", str(streams.checkpoint()))
        .trigger(availableNow=True)
    )
    error = streams.failure(writer)
    assert "[EOSKAFKA_SHARED_REFUSED]" in error, error
    assert "its sink is not eoskafka" in error


def test_a_group_goes_from_exclusive_to_shared_and_not_back(streams: Streams) -> None:
    topic, output, group = streams.topic(records=20), streams.topic(), streams.group()
    checkpoint = streams.checkpoint()
    alone = {"kafka.group.id": group}
    streams.copy(topic, output, checkpoint, alone)
    streams.send(topic, 20)
    streams.copy(topic, output, checkpoint, {**alone, **SHARED})
    streams.send(topic, 21)
    rows = kv(streams.source(topic, alone))
    assert "[EOSKAFKA_OWNERSHIP_CHANGED]" in streams.failure(streams.sink(rows, output, checkpoint))
    assert "[EOSKAFKA_GROUP_IS_SHARED]" in streams.failure(streams.sink(rows, output))
    streams.copy(topic, output, checkpoint, {**alone, **SHARED})
    assert streams.numbers(output) == [*range(22)]


@SLOW
def test_what_a_dead_exclusive_driver_has_left_is_ended_by_a_shared_one(
    start_application: StartApplication, application: Application, flow: Flow
) -> None:
    soon: dict[str, Any] = {"kafka.session.timeout.ms": str(SESSION_S * 1_000)}
    flow.produce(RECORDS)
    first = start_application("local[2]")
    flow.reach(first, "after-offsets", "kill", **soon)
    first.kill()
    assert flow.open_transactions()
    error = flow.start(application, **soon, **SHARED).wait_end().error
    assert "[EOSKAFKA_FOREIGN_MEMBER]" in str(error), error
    until(lambda: not flow.members(), "the end of its membership", 30)
    flow.start(application, **soon, **SHARED).wait_done()
    flow.assert_exactly_once()


def test_two_sources_of_a_query_cannot_share_one_group(streams: Streams) -> None:
    topic, group = streams.topic(records=20), streams.group()
    shared = {"kafka.group.id": group, **SHARED}
    left = kv(streams.source(topic, shared))
    right = kv(streams.source(topic, {**shared, "maxOffsetsPerTrigger": 5}))
    error = streams.failure(streams.sink(left.union(right), streams.topic()))
    assert "[EOSKAFKA_SHARED_REFUSED]" in error, error
    assert "two of its sources are in one group" in error


@pytest.mark.parametrize(("running", "coming"), [({}, SHARED), (SHARED, {})])
def test_a_driver_of_the_other_kind_is_refused_beside_a_running_one(
    streams: Streams, running: dict[str, str], coming: dict[str, str]
) -> None:
    topic, output, group = streams.topic(records=20), streams.topic(), streams.group()
    alone = {"kafka.group.id": group}
    rows = kv(streams.source(topic, {**alone, **running}))
    query = streams.start(streams.sink(rows, output).trigger(processingTime="100 milliseconds"))
    until(lambda: len(streams.numbers(output)) == 20, "the first batch", 60)
    error = streams.failure(streams.sink(kv(streams.source(topic, {**alone, **coming})), output))
    named = "[EOSKAFKA_FOREIGN_STAMP]" if coming else "[EOSKAFKA_GROUP_IS_SHARED]"
    assert named in error, error
    assert "(client eoskafka-" in error  # who is in the group
    streams.send(topic, 20)
    until(lambda: len(streams.numbers(output)) == 21, "the next batch", 60)
    assert streams.finished(query, output) == [*range(21)]
