"""An executor on another host than the driver: killed, and cut off from the driver alone.

Spark gives up an executor whose heartbeats do not arrive, and runs its task on another one. Here
the executor that was given up lives on, and still reaches the brokers.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from eoskafka.audit import UndecidedError
from eoskafka.cluster import LocalCluster
from eoskafka.demo import processes
from harness import Application, Flow, Point, Query, until
from harness.standalone import Standalone
from harness.versions import needs_real_time

from faults.hosts import OtherHost
from faults.split import is_possible

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not is_possible(), reason="needs root and iproute2, for namespaces"),
]

RECORDS = 200
GIVEN_UP_S, REPEATED_S, ENDED_S = 60, 90, 120
GIVEN_UP = "Executor heartbeat timed out"
# A query, and where its task is when its host is cut off.
CUTS: list[tuple[Point, dict[str, Any]]] = [
    ("before-flush", {}),
    ("after-offsets", {}),
    ("before-flush", {"transform": "repartitioned"}),
    ("after-flush", {"transform": "repartitioned"}),
    ("before-flush", {"ownership": "shared"}),
    ("after-lease", {"ownership": "shared"}),
]


@pytest.fixture(scope="module")
def host() -> Iterator[OtherHost]:
    with OtherHost() as host:
        yield host


@pytest.fixture(scope="module")
def brokers(host: OtherHost, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    data_dir = tmp_path_factory.mktemp("cluster")
    with LocalCluster(brokers=1, data_dir=data_dir, properties=host.listeners) as cluster:
        yield cluster


@pytest.fixture
def standalone(host: OtherHost, tmp_path: Path, keep_logs: list[Path]) -> Iterator[Standalone]:
    """Its one worker is on the other host."""
    folder = tmp_path / "standalone"
    folder.mkdir()
    with Standalone(folder, workers=0, host=host.driver) as cluster:
        cluster.add_workers(1, host.worker, host.space)
        yield cluster
        keep_logs += folder.glob("*.log")
    host.join()


@pytest.fixture
def application(
    standalone: Standalone, host: OtherHost, tmp_path: Path, keep_logs: list[Path]
) -> Iterator[Application]:
    settings = {
        "spark.driver.host": host.driver,
        "spark.driver.bindAddress": host.driver,
        "spark.executor.heartbeatInterval": "1s",
        # The driver gives an executor up after so long.
        "spark.network.timeout": "20s",
        "spark.network.timeoutInterval": "1s",
        # And the executor, which hears nothing either, goes on for longer.
        "spark.rpc.io.connectionTimeout": "600s",
        "spark.executor.heartbeat.maxFailures": "1000",
    }
    with Application(tmp_path / "application", standalone.master, settings) as application:
        until(standalone.executors, "an executor", GIVEN_UP_S, application.tail)
        yield application
        keep_logs += application.logs()


@pytest.fixture
def flow(host: OtherHost, brokers: LocalCluster, tmp_path: Path) -> Flow:
    """One partition, so that one task reads all of a batch."""
    (broker,) = brokers.brokers
    return Flow(f"{host.brokers}:{broker.port}", tmp_path / "checkpoint", partitions=1)


def give_up(application: Application, standalone: Standalone, host: OtherHost) -> None:
    """Cut the host off, and wait until the driver has given its executor up, and has another."""
    (executor,) = standalone.executors()
    host.cut()
    standalone.add_workers(1)
    until(lambda: GIVEN_UP in application.text(), GIVEN_UP, GIVEN_UP_S, application.tail)
    assert host.swallowed() > 0
    assert executor in standalone.executors()


def resume(standalone: Standalone, pid: int) -> None:
    """Let a stopped executor go on."""
    processes.send([p for p in standalone.executors() if p.id.pid == pid], signal.SIGCONT)


def end_zombie(standalone: Standalone, host: OtherHost, pid: int) -> None:
    """Let the host join, and wait until the executor that was given up has heard of it."""
    host.join()
    until(
        lambda: pid not in {p.id.pid for p in standalone.executors()},
        "the end of the executor that was given up",
        ENDED_S,
    )


@pytest.mark.parametrize("point", ["before-flush", "after-offsets", "after-commit"])
def test_an_executor_on_another_host_is_killed(
    application: Application, flow: Flow, point: Point
) -> None:
    flow.produce(RECORDS)
    application.faults.arm(point, "kill")
    query = flow.start(application, maxOffsetsPerTrigger=RECORDS // 2)
    application.faults.wait_taken(point)
    query.wait_done()
    flow.assert_exactly_once()


@pytest.mark.parametrize(("point", "how"), CUTS)
def test_a_task_that_was_repeated_elsewhere_commits_nothing(
    application: Application,
    standalone: Standalone,
    host: OtherHost,
    flow: Flow,
    point: Point,
    how: dict[str, Any],
) -> None:
    flow.produce(RECORDS)
    application.faults.arm(point, "stop")
    query = flow.start(application, interval="0 seconds", **how)
    zombie = application.faults.wait_taken(point)
    give_up(application, standalone, host)
    query.wait_batches(1, REPEATED_S)
    before = application.ended_attempts(zombie)
    resume(standalone, zombie)
    until(
        lambda: application.ended_attempts(zombie) > before,
        "the end of the first attempt",
        ENDED_S,
        application.tail,
    )
    flow.produce(RECORDS)
    flow.wait_committed()
    assert host.swallowed() > 0
    end_zombie(standalone, host, zombie)
    query.stop()
    flow.assert_exactly_once()


def test_a_task_that_has_committed_while_it_was_cut_off_is_not_repeated(
    application: Application, standalone: Standalone, host: OtherHost, flow: Flow
) -> None:
    flow.produce(RECORDS)
    application.faults.arm("after-flush", "stop")
    query = flow.start(application, interval="0 seconds")
    zombie = application.faults.wait_taken("after-flush")
    host.cut()
    resume(standalone, zombie)
    flow.wait_committed()
    assert query.status().batches == 0
    standalone.add_workers(1)
    until(lambda: GIVEN_UP in application.text(), GIVEN_UP, GIVEN_UP_S, application.tail)
    query.wait_batches(1, REPEATED_S)
    flow.produce(RECORDS)
    flow.wait_committed()
    end_zombie(standalone, host, zombie)
    query.stop()
    flow.assert_exactly_once()


@needs_real_time
def test_in_real_time_mode_a_task_that_goes_on_is_fenced_by_the_next_attempt(
    application: Application, standalone: Standalone, host: OtherHost, flow: Flow
) -> None:
    query = flow.start(application, real_time="10 minutes")
    with flow.feeding(50, 0.1):
        wait_more_written(flow, query)
        (zombie,) = standalone.executors()
        host.cut()
        # Some of these have come since, and were written by an executor that is cut off.
        wait_more_written(flow, query)
        assert GIVEN_UP not in application.text()
        give_up(application, standalone, host)
        until(
            lambda: application.ended_attempts(zombie.id.pid) > 0,
            "the end of the first attempt",
            ENDED_S,
            application.tail,
        )
        wait_more_written(flow, query)
    end_zombie(standalone, host, zombie.id.pid)
    flow.wait_committed()
    query.stop()
    flow.assert_exactly_once()


def wait_more_written(flow: Flow, query: Query) -> None:
    """Until more records are out than are in now."""
    wanted = flow.produced + RECORDS

    def are_out() -> bool:
        try:
            return len(flow.outputs()) >= wanted
        except UndecidedError:
            return False

    until(are_out, "more output", REPEATED_S, query.application.tail)
