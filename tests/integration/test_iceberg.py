"""Iceberg tables: as a source, as the sink of a source of ours, and in `foreachBatch`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import Application, Flow, StartApplication
from harness.faults import Point
from harness.iceberg import settings
from harness.transforms import TABLE
from matrix.environments import python_of

# Iceberg has no jar for the main version.
SPARK = "4.1.4"
ROWS = 100
LAKE = "lake.shop.payments"
FROM_TABLE: dict[str, Any] = {
    "origin": "iceberg",
    "path": LAKE,
    "streaming-max-files-per-micro-batch": 1,
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def start(start_application: StartApplication, tmp_path: Path) -> Callable[[], Application]:
    """Starts an application that knows Iceberg."""
    spark = {TABLE: LAKE, **settings(SPARK, tmp_path / "lake")}
    return lambda: start_application("local[2]", spark, python=python_of(SPARK))


def create_table(application: Application) -> None:
    application.sql(f"CREATE TABLE {LAKE} (key STRING, value STRING) USING iceberg")


def keys_in_table(application: Application) -> list[str]:
    """The keys of all rows, as one of the readers of the table finds them."""
    # The session of `foreachBatch` has a catalog of its own, and this one keeps what it knows.
    application.sql(f"REFRESH TABLE {LAKE}")
    return sorted(key for (key,) in application.sql(f"SELECT key FROM {LAKE}"))


def test_a_table_is_a_source_whose_drivers_are_killed(
    start: Callable[[], Application], flow: Flow
) -> None:
    application = start()
    create_table(application)
    application.write(ROWS, form="iceberg", path=LAKE)
    flow.start(application, **FROM_TABLE).wait_done()
    application.write(ROWS, start=ROWS, form="iceberg", path=LAKE)
    points: list[Point] = ["before-decision", "after-decision", "half-rolled-forward"]
    for point in points:
        flow.reach(application, point, "kill", **FROM_TABLE)
        application.kill()
        application = start()
    application.write(ROWS, start=2 * ROWS, form="iceberg", path=LAKE)
    flow.start(application, **FROM_TABLE).wait_done()
    flow.assert_nothing_is_open()
    written = sorted(int((record.value or b"").rstrip(b"!")) for record in flow.outputs())
    assert written == [*range(3 * ROWS)]


def test_icebergs_own_sink_writes_what_our_source_reads_once(
    start: Callable[[], Application], flow: Flow
) -> None:
    into: dict[str, Any] = {"form": "iceberg", "sink": {"path": LAKE, "fanout-enabled": "true"}}
    few: dict[str, Any] = {"maxOffsetsPerTrigger": ROWS, "interval": "0 seconds", **into}
    application = start()
    create_table(application)
    flow.produce(10 * ROWS)
    for batches in (2, 5):
        flow.start(application, transform="as_text", **few).wait_batches(batches)
        application.kill()
        application = start()
    flow.start(application, transform="as_text", **into).wait_done()
    assert flow.committed() == flow.ends()
    assert keys_in_table(application) == sorted(f"k{n}" for n in range(10 * ROWS))


def test_a_function_writes_a_batch_once_to_kafka_and_to_a_table(
    start: Callable[[], Application], flow: Flow
) -> None:
    """As docs/foreach-batch.md says it is done; the batch runs again after the kill."""
    into_both: dict[str, Any] = {"form": "and_to_iceberg", "transform": "exclaim_as_text"}
    application = start()
    create_table(application)
    flow.produce(ROWS)
    flow.reach(application, "after-decision", "kill", **into_both)
    application.kill()
    application = start()
    assert len(keys_in_table(application)) == ROWS
    flow.start(application, **into_both).wait_done()
    flow.produce(ROWS)
    flow.start(application, **into_both).wait_done()
    flow.assert_exactly_once()
    assert keys_in_table(application) == sorted(f"k{n}" for n in range(2 * ROWS))
