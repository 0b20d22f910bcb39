"""Consumers of other applications that join a query's group while it runs, or while it does not."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from eoskafka.cluster import LocalCluster
from harness import Application, Flow, Query, until
from harness.strangers import Stranger, stranger

RECORDS = 400
SLOW = pytest.mark.slow
SHARED = {"ownership": "shared"}
OFTEN = {"interval": "100 milliseconds"}


def work_beside(query: Query, flow: Flow, seconds: float) -> None:
    """Let the query have batches for so long, at least three."""
    deadline = time.monotonic() + seconds
    wanted = query.status().batches + 3
    while time.monotonic() < deadline or query.status().batches < wanted:
        flow.produce(RECORDS)
        query.wait_batches(query.status().batches + 1)


@pytest.mark.parametrize("kind", ["classic", "consumer", "python"])
@pytest.mark.parametrize("ownership", ["exclusive", "shared"])
def test_a_consumer_of_somebody_else_is_refused_and_the_owner_goes_on(
    application: Application, flow: Flow, tmp_path: Path, kind: str, ownership: str
) -> None:
    query = flow.start(application, ownership=ownership, **OFTEN)
    flow.produce(RECORDS)
    query.wait_batches(1)
    with stranger(kind, flow.servers, flow.input, flow.group, tmp_path / "log") as other:
        error = other.wait_refused()
        print(kind, ownership, error)
        work_beside(query, flow, 0)
        assert (other.partitions(), other.read()) == (0, 0)
    flow.wait_committed()
    assert query.stop().error is None
    flow.assert_exactly_once()
