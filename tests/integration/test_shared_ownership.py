"""`ownership=shared`: several drivers in one group, and partitions that go from one to another."""

from __future__ import annotations

from pathlib import Path

import pytest
from eoskafka.cluster import LocalCluster
from harness import Application, Flow, StartApplication, until

RECORDS = 600
SHARED = {"ownership": "shared", "interval": "100 milliseconds"}


@pytest.fixture
def flow(cluster: LocalCluster, tmp_path: Path) -> Flow:
    """Four input partitions."""
    return Flow(cluster.bootstrap_servers, tmp_path / "checkpoint", partitions=4)


def test_one_driver_alone(application: Application, flow: Flow) -> None:
    flow.produce(RECORDS)
    flow.start(application, ownership="shared").wait_done()
    flow.produce(RECORDS)
    flow.start(application, ownership="shared").wait_done()
    flow.assert_exactly_once()


def test_a_driver_that_joins_takes_its_share(
    start_application: StartApplication, application: Application, flow: Flow
) -> None:
    first = flow.start(application, driver="a", **SHARED)
    flow.produce(RECORDS)
    flow.wait_committed()
    second = flow.start(start_application("local[2]"), driver="b", **SHARED)
    until(lambda: len(flow.members()) == 2, "both drivers", 30)
    for _ in range(5):
        flow.produce(RECORDS)
        flow.wait_committed()
    assert first.status().active
    assert second.status().batches > 0
    second.stop()
    flow.produce(RECORDS)
    flow.wait_committed()
    first.stop()
    flow.assert_exactly_once()
