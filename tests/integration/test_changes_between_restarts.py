"""What may change between two runs of a query: it goes on exactly once, or says why it does not.

Each change meets a query that was stopped between two batches, and one that died in a batch. A
query that is refused with its change goes on without it.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, NamedTuple

import pytest
from eoskafka.audit import read_committed
from harness import Application, Flow, Point, StartApplication
from harness.versions import needs_named_sources
from kafka import KafkaProducer
from kafka.admin import NewTopic
from pyspark.sql import DataFrame
from sessions import settings
from streams import Streams, kv

RECORDS = 200
TASK: dict[str, Any] = {"transform": "exclaim"}
EPOCH: dict[str, Any] = {"transform": "repartitioned"}
# Where the former run has ended; None: it was stopped.
ENDS: dict[str, Point | None] = {
    "stopped": None,
    "committed and not logged": "before-log",
    "not decided": "before-decision",
    "decided": "after-decision",
    "half committed": "half-rolled-forward",
}


class Change(NamedTuple):
    """What the second run has otherwise.

    Attributes:
        make: does what is to be done before it, and gives its options, as `Flow.start` has them.
        refused: the condition that it is refused with; empty if it goes on.
    """

    make: Callable[[Flow], dict[str, Any]]
    refused: str = ""


def moved(flow: Flow) -> dict[str, Any]:
    """Another path for the checkpoint."""
    place = flow.checkpoint.with_name("elsewhere")
    shutil.move(flow.checkpoint, place)
    flow.checkpoint = place
    return {}


def beside(topic: str) -> str:
    """Another topic for the same."""
    return f"{topic}-second"


def one_more(flow: Flow) -> dict[str, Any]:
    """A topic more, with records from before it is chosen."""
    with closing(KafkaProducer(bootstrap_servers=flow.servers)) as producer:
        for number in range(20):
            producer.send(beside(flow.input), value=b"b%d" % number)
    return {"subscribe": f"{flow.input},{beside(flow.input)}"}


CHANGES = {
    "fewer slots": Change(lambda flow: {"slots": 1}),
    "more slots": Change(lambda flow: {"slots": 7}),
    "split partitions": Change(lambda flow: {"minPartitions": 5, "slots": 5}),
    "smaller batches": Change(lambda flow: {"maxOffsetsPerTrigger": 20}),
    "startingOffsets": Change(lambda flow: {"startingOffsets": "latest"}),
    "the group": Change(lambda flow: {"kafka.group.id": "another"}, "EOSKAFKA_GROUP_CHANGED"),
    "a topic more": Change(one_more),
    "a topic fewer": Change(
        lambda flow: {"subscribe": beside(flow.input)}, "EOSKAFKA_PARTITION_GONE"
    ),
    "the sink's topic": Change(lambda flow: {"sink": {"topic": beside(flow.output)}}),
    "the checkpoint's path": Change(moved),
    "task scope": Change(lambda flow: {**TASK, "sink": {"transactionScope": "task"}}),
    "epoch scope": Change(lambda flow: {"sink": {"transactionScope": "epoch"}}),
    "a shuffle more": Change(lambda flow: EPOCH),
    "ownership": Change(lambda flow: {**TASK, "ownership": "shared"}),
    "foreachBatch": Change(lambda flow: {"form": "foreach_batch"}),
}


def refusal(scope: str, end: str, name: str) -> str:
    """The condition that a change is refused with after such an end; empty if it is not."""
    was_decided = scope == "epoch" and end != "not decided"
    if name == "foreachBatch" and end != "stopped":
        # What a batch has written knows the sink that it was for.
        return "EOSKAFKA_BATCH_UNFINISHED"
    if name == "task scope" and was_decided and end != "stopped":
        # It is in epoch scope until that batch is logged.
        return "EOSKAFKA_SCOPE_REFUSED"
    if name == "ownership" and was_decided:
        return "EOSKAFKA_SHARED_REFUSED"
    return CHANGES[name].refused


# To the plan of a batch that runs again these are what fewer slots are: it is planned as it was.
ALIKE = ("more slots", "smaller batches", "startingOffsets", "a shuffle more")


def cases() -> Iterator[Any]:
    """All of it; in a short run each kind of change once, where the most is at stake."""
    for scope in ("task", "epoch"):
        for end in ENDS:
            if scope == "task" and end in ("not decided", "decided", "half committed"):
                continue
            for name in CHANGES:
                is_short = end == "half committed" and name not in ALIKE
                marks = () if is_short else (pytest.mark.slow,)
                yield pytest.param(scope, end, name, marks=marks, id=f"{scope}-{end}-{name}")


@pytest.mark.parametrize(("scope", "end", "name"), [*cases()])
def test_a_change_between_two_runs(
    application: Application, flow: Flow, scope: str, end: str, name: str
) -> None:
    how = TASK if scope == "task" else EPOCH
    with flow.admin() as admin:
        admin.create_topics([NewTopic(beside(topic), 2, 1) for topic in (flow.input, flow.output)])
        admin.wait_for_topics([beside(flow.input), beside(flow.output)])
    flow.produce(RECORDS)
    point = ENDS[end]
    if point is None:
        flow.start(application, **how).wait_done()
    else:
        query = flow.reach(application, point, "fail", **how)
        assert query.wait_end().error
    flow.produce(RECORDS)

    refused = refusal(scope, end, name)
    changed = {**how, **CHANGES[name].make(flow)}
    status = flow.start(application, **changed).wait_end()
    assert (status.error is not None) == bool(refused), status.error
    if refused:
        assert f"[{refused}]" in str(status.error)
        flow.start(application, **how).wait_done()
    read = values(flow, flow.input)
    assert values(flow, flow.output) == Counter({f"{value}!": n for value, n in read.items()})
    flow.assert_nothing_is_open()


def values(flow: Flow, topic: str) -> Counter[str]:
    """What is in the topic and in the one beside it."""
    return Counter(
        (record.value or b"").decode()
        for each in (topic, beside(topic))
        for record in read_committed(flow.servers, each)
    )


def test_a_sink_in_the_place_of_foreach_batch(application: Application, flow: Flow) -> None:
    # Spark asks for the start of the query's first batch, and has that of a later one.
    for _ in ("first", "later"):
        flow.produce(RECORDS)
        query = flow.reach(application, "before-log", "fail", form="foreach_batch")
        assert query.wait_end().error
        flow.produce(RECORDS)
        error = flow.start(application).wait_end().error
        assert "[EOSKAFKA_BATCH_UNFINISHED]" in str(error)
        assert "begun with foreachBatch" in str(error)
        flow.start(application, form="foreach_batch").wait_done()
    flow.produce(RECORDS)
    flow.start(application).wait_done()
    flow.assert_exactly_once()


@pytest.mark.slow
@pytest.mark.parametrize("point", ["before-decision", "half-rolled-forward"])
@pytest.mark.parametrize(
    "how",
    # Spark keeps the number for state; without it the batch runs again with other writers.
    [{"transform": "grouped", "mode": "update"}, {"transform": "by_key"}],
    ids=["state", "no state"],
)
def test_another_number_of_shuffle_partitions(
    application: Application,
    start_application: StartApplication,
    flow: Flow,
    point: Any,
    how: dict[str, Any],
) -> None:
    flow.produce(RECORDS)
    flow.reach(application, point, "fail", **how).wait_end()
    flow.produce(RECORDS)
    other = start_application("local[2]", spark_sql_shuffle_partitions="5")
    flow.start(other, **how).wait_done()
    flow.assert_exactly_once()


@needs_named_sources
def test_a_source_with_a_name_may_be_added(streams: Streams) -> None:
    first, second = streams.topic(records=10), streams.topic()
    streams.send(second, *range(100, 110))
    output, checkpoint, group = streams.topic(), streams.checkpoint(), streams.group()

    def rows(name: str, topic: str, starting: str) -> DataFrame:
        options = {
            "kafka.bootstrap.servers": streams.servers,
            "kafka.group.id": f"{group}-{name}",
            "subscribe": topic,
            "startingOffsets": starting,
        }
        reader = streams.spark.readStream.format("eoskafka").name(name)
        return kv(reader.options(**options).load())

    def both() -> None:
        united = rows("first", first, "earliest").union(rows("second", second, "latest"))
        streams.run(streams.sink(united, output, checkpoint))

    of_sources = {
        "spark.sql.streaming.offsetLog.formatVersion": "2",
        "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
    }
    with settings(streams.spark, of_sources):
        streams.run(streams.sink(rows("first", first, "earliest"), output, checkpoint))
        streams.send(first, *range(10, 20))
        both()
        streams.send(first, *range(20, 30))
        streams.send(second, *range(110, 120))
        both()
    assert streams.numbers(output) == [*range(30), *range(110, 120)]
