"""`ownership=shared`: what a rebalance does to the transactions of tasks that are under way."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from eoskafka.cluster import LocalCluster
from harness import Application, Flow, Point, Query, StartApplication, until
from kafka import KafkaProducer
from shared_groups import (
    CLASSIC,
    PARTITIONS,
    PROTOCOLS,
    RECORDS,
    arrivals,
    both_work,
    end,
    reach_beside,
    revocations,
    run_another,
    two_drivers,
)

SLOW = pytest.mark.slow


@pytest.fixture
def flow(short_session_cluster: LocalCluster, tmp_path: Path, keep_logs: list[Path]) -> Flow:
    """Four input partitions."""
    keep_logs += [broker.log_file for broker in short_session_cluster.brokers]
    return Flow(
        short_session_cluster.bootstrap_servers, tmp_path / "checkpoint", partitions=PARTITIONS
    )


@pytest.fixture(params=PROTOCOLS)
def how(request: pytest.FixtureRequest) -> Any:
    """A running query's options, with either protocol of the group."""
    return request.param


@pytest.fixture
def one(short_session_cluster: LocalCluster, tmp_path: Path) -> Flow:
    """One input partition: a second driver brings a new generation, and gets nothing."""
    return Flow(short_session_cluster.bootstrap_servers, tmp_path / "one", partitions=1)


@SLOW
def test_a_partition_is_given_up_when_the_transaction_that_has_read_it_has_ended(
    start_application: StartApplication,
    application: Application,
    flow: Flow,
    one: Flow,
    how: dict[str, Any],
) -> None:
    flow.produce(RECORDS)
    application.faults.arm("after-offsets", "stop")
    first = flow.start(application, driver="a", slots=1, **how)
    executor = application.faults.wait_taken("after-offsets")
    producers = flow.transactional_ids()
    other = start_application("local[2]")
    second = flow.start(other, driver="b", **how)
    until(lambda: arrivals(other), "the second driver", 60)
    until(lambda: revocations(application), "the call for its partitions", 60)
    flow.produce(RECORDS)
    run_another(other, one)
    assert flow.transactional_ids() == producers
    application.resume(executor)
    both_work(first, second, flow)
    end(flow, first, second)


@SLOW
def test_a_partition_is_given_up_after_a_minute_though_its_transaction_has_not_ended(
    start_application: StartApplication, application: Application, flow: Flow, how: dict[str, Any]
) -> None:
    flow.produce(RECORDS)
    first = flow.reach(application, "after-offsets", "stop", driver="a", slots=1, **how)
    executor = application.faults.wait_taken("after-offsets")
    second = flow.start(start_application("local[2]"), driver="b", **how)
    until(lambda: "are aborted" in application.text(), "the end of its patience", 90)
    # What goes over is what was asked for; the rest is still the first one's.
    until(lambda: second.status().batches, "work for the second driver", 30)
    application.resume(executor)
    both_work(first, second, flow)
    end(flow, first, second)


@SLOW
@pytest.mark.parametrize("point", ["after-lease", "after-offsets"])
def test_an_executor_whose_driver_has_lost_its_partitions_commits_nothing(
    start_application: StartApplication,
    application: Application,
    flow: Flow,
    how: dict[str, Any],
    point: Point,
) -> None:
    # The executor has the fence, and goes on while its driver is still away.
    other = start_application("local-cluster[1,1,1024]")
    first, second, executor = reach_beside(flow, application, other, how, point, "stop")
    other.pause_driver()
    flow.wait_committed()
    before = sorted(flow.outputs())
    other.resume(executor)
    refused = "Transiting to fatal error state"
    until(lambda: refused in other.executor_log.read_text(), "the refusal of its commit", 60)
    assert sorted(flow.outputs()) == before
    other.resume()
    both_work(first, second, flow)
    end(flow, first, second)


def hold_a_lease(
    one: Flow,
    application: Application,
    start_application: StartApplication,
    how: dict[str, Any],
) -> tuple[int, Query, Query]:
    """Stop an executor that has the fence, and let a second driver join.

    Returns:
        the executor's pid, the first driver's query, the second one's.
    """
    first = one.start(application, driver="a", **how)
    one.produce(RECORDS)
    first.wait_batches(1)
    one.wait_committed()
    application.faults.arm("after-lease", "stop")
    one.produce(RECORDS)
    executor = application.faults.wait_taken("after-lease")
    other = start_application("local[2]")
    second = one.start(other, driver="b", **how)
    until(lambda: arrivals(other), "the second driver", 60)
    return executor, first, second


@SLOW
def test_a_transaction_whose_partitions_stay_outlives_a_rebalance(
    start_application: StartApplication, application: Application, one: Flow, how: dict[str, Any]
) -> None:
    executor, first, second = hold_a_lease(one, application, start_application, how)
    application.resume(executor)
    one.wait_committed()
    assert "was aborted" not in application.text()
    end(one, first, second)


@SLOW
def test_one_that_was_fenced_during_a_rebalance_is_not_taken_for_its_successor(
    start_application: StartApplication, application: Application, one: Flow
) -> None:
    # The consumer protocol takes the offsets of a partition that stayed, and refuses nothing.
    executor, first, second = hold_a_lease(one, application, start_application, CLASSIC)
    application.faults.arm("after-refusal", "stop")
    application.resume(executor)
    assert application.faults.wait_taken("after-refusal") == executor
    (name,) = one.open_transactions()
    # As another attempt would; it has written a part when the first one goes on.
    successor = KafkaProducer(bootstrap_servers=one.servers, transactional_id=name)
    with closing(successor):
        successor.init_transactions()
        successor.begin_transaction()
        successor.send(one.output, value=b"a part of it").get(30)
        application.resume(executor)
        until(lambda: "EOSKAFKA_ATTEMPT_FENCED" in application.text(), "the attempt's end", 40)
        assert b"a part of it" not in [record.value for record in one.outputs()]
    end(one, first, second)


@SLOW
def test_an_executor_that_is_lost_between_offsets_and_commit(
    start_application: StartApplication, application: Application, flow: Flow, how: dict[str, Any]
) -> None:
    first, second = two_drivers(flow, application, start_application("local[2]"), how)
    application.faults.arm("after-offsets", "kill")
    flow.produce(RECORDS)
    application.faults.wait_taken("after-offsets")
    end(flow, first, second)


@SLOW
def test_partitions_that_are_added(
    start_application: StartApplication, application: Application, flow: Flow, how: dict[str, Any]
) -> None:
    refresh = {**how, "kafka.metadata.max.age.ms": "1000"}
    first, second = two_drivers(flow, application, start_application("local[2]"), refresh)
    flow.add_partitions(7)
    flow.produce(RECORDS)
    end(flow, first, second)


@SLOW
def test_a_storm_of_drivers_that_join_and_leave(
    start_application: StartApplication, application: Application, flow: Flow, how: dict[str, Any]
) -> None:
    first = flow.start(application, driver="a", **how)
    other = start_application("local[2]")
    end = time.monotonic() + 180
    joined = 0
    while time.monotonic() < end:
        second = flow.start(other, driver="b", **how)
        joined += 1
        for _ in range(2):
            flow.produce(120)
            time.sleep(0.5)
        assert second.stop().error is None
    assert first.status().active, first.status().error
    flow.wait_committed()
    assert joined >= 30
    assert first.stop().error is None
    flow.assert_exactly_once()
