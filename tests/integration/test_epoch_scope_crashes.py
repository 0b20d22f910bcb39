"""Epoch scope under crashes: at every step of an epoch somebody dies, and nothing shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import Application, Flow, Point, StartApplication

RECORDS = 600
PER_BATCH = 200

STATELESS = {"transform": "repartitioned", "mode": "append"}
STATEFUL = {"transform": "grouped", "mode": "update"}


@pytest.fixture(scope="module")
def shared_application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    """Two executors of one core each; use `application`."""
    folder = tmp_path_factory.mktemp("application")
    with Application(folder, "local-cluster[2,1,1024]") as application:
        yield application


@pytest.fixture
def application(shared_application: Application, keep_logs: list[Path]) -> Iterator[Application]:
    """Shared, with both executors there and nothing armed."""
    with shared_application.lent(keep_logs) as lent:
        lent.wait_executors(2)
        yield lent


@pytest.mark.parametrize("point", ["before-init", "after-init", "before-flush", "after-flush"])
def test_an_executor_killed_at_any_point_before_it_has_reported(
    application: Application, flow: Flow, point: Point
) -> None:
    flow.produce(RECORDS)
    executors = {p.id.pid for p in application.executors()}
    application.faults.arm(point, "kill")
    query = flow.start(application, maxOffsetsPerTrigger=PER_BATCH, **STATEFUL)
    assert application.faults.wait_taken(point) in executors
    query.wait_done()
    flow.assert_exactly_once()


@pytest.mark.parametrize("how", [STATEFUL, STATELESS], ids=["stateful", "stateless"])
@pytest.mark.parametrize(
    "point",
    [
        "before-init",
        "after-flush",
        "before-decision",
        "after-decision",
        "half-rolled-forward",
        "before-log",
    ],
)
def test_a_driver_killed_at_any_step_of_an_epoch(
    start_application: StartApplication,
    application: Application,
    flow: Flow,
    point: Point,
    how: dict[str, str],
) -> None:
    flow.produce(RECORDS)
    first = start_application("local[2]")
    flow.start(first, maxOffsetsPerTrigger=PER_BATCH, **how).wait_done()
    flow.produce(RECORDS)
    first.faults.arm(point, "kill")
    flow.start(first, maxOffsetsPerTrigger=PER_BATCH, **how)
    first.faults.wait_taken(point)
    first.kill()
    flow.start(application, maxOffsetsPerTrigger=PER_BATCH, **how).wait_done()
    flow.assert_exactly_once()


def test_a_driver_killed_in_its_first_epoch(
    start_application: StartApplication, application: Application, flow: Flow
) -> None:
    flow.produce(RECORDS)
    first = start_application("local[2]")
    first.faults.arm("after-decision", "kill")
    flow.start(first, maxOffsetsPerTrigger=PER_BATCH, **STATEFUL)
    first.faults.wait_taken("after-decision")
    first.kill()
    flow.start(application, maxOffsetsPerTrigger=PER_BATCH, **STATEFUL).wait_done()
    flow.assert_exactly_once()
