"""A source on another cluster than its sink: the decision has its offsets, the group follows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from eoskafka.audit import read_committed
from eoskafka.brokers.connection import Connection
from eoskafka.brokers.groups import committed
from eoskafka.cluster import LocalCluster
from eoskafka.offsets.commit import commit_offsets
from harness import Application, Flow, Point, StartApplication, until
from kafka.admin import KafkaAdminClient, NewTopic
from streams import Streams, kv

INPUT = 20
RECORDS = 600
IN_BATCHES: dict[str, Any] = {"maxOffsetsPerTrigger": 200}

SLOW = pytest.mark.slow


@pytest.fixture(scope="module")
def shared_other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One more broker; use `other`."""
    with LocalCluster(brokers=1, data_dir=tmp_path_factory.mktemp("other")) as cluster:
        yield cluster


@pytest.fixture
def other(shared_other: LocalCluster, keep_logs: list[Path]) -> LocalCluster:
    """The sink's cluster."""
    keep_logs += [broker.log_file for broker in shared_other.brokers]
    return shared_other


@pytest.fixture
def flow(cluster: LocalCluster, other: LocalCluster, tmp_path: Path) -> Flow:
    """Input and group on one cluster, output and decisions on the other."""
    return Flow(
        cluster.bootstrap_servers, tmp_path / "checkpoint", sink_servers=other.bootstrap_servers
    )


def test_a_narrow_plan_over_several_runs(streams: Streams, other: LocalCluster) -> None:
    topic, output, group = streams.topic(records=INPUT), "narrow", streams.group()
    checkpoint = streams.checkpoint()
    with closing(KafkaAdminClient(bootstrap_servers=other.bootstrap_servers)) as admin:
        admin.create_topics([NewTopic(output, 2, 1)])
        admin.wait_for_topics([output])

    def run() -> None:
        rows = streams.source(topic, {"kafka.group.id": group, "maxOffsetsPerTrigger": 8})
        sink = {"kafka.bootstrap.servers": other.bootstrap_servers}
        streams.run(streams.sink(kv(rows), output, checkpoint, options=sink))

    run()
    streams.send(topic, *range(INPUT, INPUT + 15))
    run()
    run()
    written = [int(r.value or b"-1") for r in read_committed(other.bootstrap_servers, output)]
    assert sorted(written) == [*range(INPUT + 15)]
    committed = streams.committed(group, topic)
    assert {p: offset.offset for p, offset in committed.items()} == streams.ends(topic)
    assert all(f":{other.cluster_id}:" in offset.metadata for offset in committed.values())


def test_task_scope_is_refused(streams: Streams, other: LocalCluster) -> None:
    topic, group = streams.topic(records=INPUT), streams.group()
    rows = kv(streams.source(topic, {"kafka.group.id": group}))
    sink = {"kafka.bootstrap.servers": other.bootstrap_servers, "transactionScope": "task"}
    error = streams.failure(streams.sink(rows, "refused", options=sink))
    assert "[EOSKAFKA_SCOPE_REFUSED]" in error, error
    assert "its source is on another cluster than its sink" in error
    assert set(streams.offsets(group, topic).values()) <= {0}


def test_a_sink_that_has_moved_to_another_cluster_is_refused(
    streams: Streams, other: LocalCluster
) -> None:
    topic, output, group = streams.topic(records=INPUT), streams.topic(), streams.group()
    checkpoint = streams.checkpoint()
    rows = kv(streams.source(topic, {"kafka.group.id": group}))
    streams.run(streams.sink(rows, output, checkpoint))
    streams.send(topic, INPUT)
    moved = {"kafka.bootstrap.servers": other.bootstrap_servers}
    error = streams.failure(streams.sink(rows, output, checkpoint, options=moved))
    assert "[EOSKAFKA_SINK_MOVED]" in error, error
    assert f"cluster {other.cluster_id}" in error
    streams.run(streams.sink(rows, output, checkpoint))
    assert streams.numbers(output) == [*range(INPUT + 1)]


@SLOW
@pytest.mark.parametrize(
    "point", ["before-decision", "after-decision", "half-rolled-forward", "before-log"]
)
def test_a_driver_killed_at_any_step(
    start_application: StartApplication, application: Application, flow: Flow, point: Point
) -> None:
    flow.produce(RECORDS)
    first = start_application("local[2]")
    flow.reach(first, point, "kill", **IN_BATCHES)
    first.kill()
    flow.start(application, **IN_BATCHES).wait_done()
    flow.assert_exactly_once()


@SLOW
@pytest.mark.parametrize("point", ["before-decision", "after-decision"])
def test_a_driver_that_wakes_up_after_another_has_taken_over_changes_nothing(
    start_application: StartApplication, application: Application, flow: Flow, point: Point
) -> None:
    flow.produce(RECORDS)
    first = start_application("local[2]")
    query = flow.reach(first, point, "stop", **IN_BATCHES)
    flow.start(application, **IN_BATCHES).wait_done()
    flow.produce(RECORDS)
    first.resume()
    assert query.wait_end().error is not None
    flow.start(application, **IN_BATCHES).wait_done()
    flow.assert_exactly_once()


@SLOW
def test_what_was_decided_is_committed_though_the_source_cannot_be_reached(
    start_application: StartApplication, cluster: LocalCluster, other: LocalCluster, tmp_path: Path
) -> None:
    flow = Flow(
        other.bootstrap_servers, tmp_path / "checkpoint", sink_servers=cluster.bootstrap_servers
    )
    flow.produce(RECORDS)
    first = start_application("local[2]")
    flow.reach(first, "after-decision", "kill", **IN_BATCHES)
    first.kill()
    assert flow.open_transactions()
    other.stop()
    second = start_application("local[2]")
    try:
        soon: dict[str, Any] = {
            "kafka.default.api.timeout.ms": "5000",
            "kafka.request.timeout.ms": "4000",
        }
        error = flow.start(second, **IN_BATCHES, **soon).wait_end().error
    finally:
        other.start()
    assert "[EOSKAFKA_UNREACHABLE]" in str(error), error
    flow.assert_nothing_is_open()
    assert len(flow.outputs()) == IN_BATCHES["maxOffsetsPerTrigger"]
    flow.start(second, **IN_BATCHES).wait_done()
    flow.assert_exactly_once()


def move(flow: Flow, offset: int) -> None:
    """Move every offset of the group and leave its stamp, as an operator's own tool would."""
    cluster = Connection(flow.servers, {})
    before = committed(cluster, flow.group)
    moved = {partition: each._replace(offset=offset) for partition, each in before.items()}
    commit_offsets(cluster, flow.group, before, moved)


@SLOW
def test_an_offset_that_is_moved_back_behind_a_decided_epoch_stops_the_query(
    start_application: StartApplication, application: Application, flow: Flow
) -> None:
    """The group does not know of the epoch yet, so its offset can still be moved."""
    flow.produce(RECORDS)
    begin = {flow.input: {"0": 100, "1": 100}}
    how = {
        **IN_BATCHES,
        "startingOffsets": json.dumps(begin),
        "kafka.session.timeout.ms": 6_000,  # a killed driver is a member for so long
    }
    first = start_application("local[2]")
    flow.reach(first, "after-decision", "kill", **how)
    first.kill()
    assert flow.committed() == {0: 100, 1: 100}
    until(lambda: not flow.members(), "the end of the driver's membership", 60)
    move(flow, 0)
    error = flow.start(application, **how).wait_end().error
    assert "[EOSKAFKA_GROUP_BEHIND_DECISION]" in str(error), error
    assert flow.committed() == {0: 0, 1: 0}
    until(lambda: not flow.members(), "the end of the next driver's membership", 60)
    move(flow, 100)
    flow.start(application, **how).wait_done()
    wanted = [f"{(r.value or b'').decode()}!" for r in flow.inputs() if r.offset >= 100]
    assert sorted((r.value or b"").decode() for r in flow.outputs()) == sorted(wanted)
